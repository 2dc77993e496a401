"""A run as it is compared: its name among the others, its card, its settings and its metrics."""

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pretrain.comparison.configuration import read_settings
from pretrain.comparison.metrics import Metrics, read_metrics
from pretrain.errors import UserError
from pretrain.runs.card_reader import read_card

CARD, CONFIG, METRICS, TOKENIZER = "summary.json", "config.yaml", "metrics.csv", "tokenizer.json"


@dataclass(frozen=True)
class Run:
    """One run; what lies in its folder is read when it is first asked for, or is empty.

    Attributes:
        path: The run's folder.
        name: What it is called here, distinct among the runs shown together.
        card: The figures, see ``runs/card.py``; a figure that is missing there may have been found
            in the metrics.
    """

    path: Path
    name: str
    card: Mapping[str, Any]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration by dotted key."""
        return read_settings(self.path / CONFIG)

    @cached_property
    def metrics(self) -> Metrics:
        """Everything logged."""
        return read_metrics(self.path / METRICS)

    @cached_property
    def tokenizer_digest(self) -> str | None:
        """Equal for equal tokenizers; None where the run kept none."""
        try:
            return hashlib.sha256((self.path / TOKENIZER).read_bytes()).hexdigest()
        except OSError:
            return None

    @property
    def status(self) -> str:
        """How the run stands, such as ``finished``."""
        return str(self.card.get("status") or "unknown")

    @property
    def alerts(self) -> list[Mapping[str, Any]]:
        """The card's alerts; none in cards from before there were alerts."""
        alerts = self.card.get("alerts")
        listed = alerts if isinstance(alerts, list) else []
        return [one for one in listed if isinstance(one, Mapping)]

    def figure(self, key: str) -> float | None:
        """A number of the card; None where it is not known."""
        value = self.card.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if is_number else None


def find_runs(folder: Path) -> list[Run]:
    """The runs in ``folder``, at most two levels down, the newest last.

    Raises:
        UserError: ``folder`` can't be read.
    """
    try:
        cards = [card for depth in ("*", "*/*") for card in folder.glob(f"{depth}/{CARD}")]
        if (folder / CARD).is_file():
            cards.append(folder / CARD)
        written = {card.parent: card.stat().st_mtime for card in cards}
    except OSError as error:
        raise UserError(f"{folder} can't be read ({error.strerror}).") from error
    paths = sorted(written, key=lambda path: (written[path], path))
    return [Run(path, _printable(_below(folder, path)), _card_of(path)) for path in paths]


def load_runs(given: Sequence[str]) -> list[Run]:
    """The runs at these folders, in this order, each with a name of its own.

    Raises:
        UserError: A folder is missing or holds no run, or a run is named twice.
    """
    paths = [_run_folder(text) for text in given]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("A run is named twice: give each run once.")
    runs = []
    for path, name in zip(paths, distinct_names(paths), strict=True):
        read = Run(path, name, _card_of(path))
        run = Run(path, name, _completed(read))
        run.__dict__["metrics"] = read.metrics  # read once
        runs.append(run)
    return runs


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The folders' names; where two are alike, with as many folders around them as needed."""
    parts = [path.absolute().parts for path in paths]
    length = [1] * len(parts)
    while True:
        names = ["/".join(p[-n:]) for p, n in zip(parts, length, strict=True)]
        doubled = [i for i, name in enumerate(names) if names.count(name) > 1]
        longer = [i for i in doubled if length[i] < len(parts[i])]
        if not longer:
            return [_printable(name) for name in names]
        for i in longer:
            length[i] += 1


def _run_folder(text: str) -> Path:
    path = Path(text)
    if path.is_file():
        path = path.parent  # its card, its configuration, its metrics
    if not path.is_dir():
        around = path.parent if path.parent.is_dir() else Path()
        names = [one.name for one in around.iterdir() if (one / CARD).is_file()]
        near = difflib.get_close_matches(path.name, names, n=1)
        hint = f"did you mean {around / near[0]}?" if near else "see pretrain runs."
        raise UserError(f"There is no run {text}: {hint}")
    if not any((path / name).is_file() for name in (CARD, CONFIG, METRICS)):
        raise UserError(f"{text} holds no run: give a folder with {CARD}, such as runs/NAME.")
    return path


def _card_of(path: Path) -> Mapping[str, Any]:
    try:
        return read_card(path / CARD)
    except OSError:  # no permission
        return {}


def _completed(run: Run) -> dict[str, Any]:
    """The card, with figures from the metrics where it has none: an early or an old one."""
    card = dict(run.card)
    validation, training = run.metrics.series.get("val/loss"), run.metrics.series.get("train/loss")
    tokens = run.metrics.series.get("speed/tokens_seen")
    if validation and run.figure("best_val_loss_nats") is None:
        card["best_val_loss_nats"] = min(validation.values)
    if training and run.figure("train_loss_nats") is None:
        card["train_loss_nats"] = training.values[-1]
    if tokens and run.figure("tokens_seen") is None:
        card["tokens_seen"] = int(tokens.values[-1])
    if run.metrics.last_step and run.figure("steps") is None:
        card["steps"] = run.metrics.last_step
    return card


def _below(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix() if path != folder else path.absolute().name


def _printable(name: str) -> str:
    """No control characters reach the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
