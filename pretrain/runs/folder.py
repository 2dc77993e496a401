"""A run has a home: one folder that is never overwritten, and can be gone on with."""

import os
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from pretrain.errors import UserError
from pretrain.runs.card_reader import STALE_AFTER_S, read_card
from pretrain.runs.environment import is_first_rank

# Lightning starts the other ranks by running the command again: a name made from the time would
# differ there, and the folder that rank 0 has just made would be refused. So rank 0 hands it on.
HANDED_ON = "PRETRAIN_RUN_FOLDER"
_LONGEST_NAME = 200  # bytes; most file systems end at 255


@dataclass(frozen=True)
class RunFolder:
    """The names inside ``runs/NAME/``."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def config(self) -> Path:
        """The complete configuration: fitting with it repeats the run."""
        return self.path / "config.yaml"

    @property
    def tokenizer(self) -> Path:
        """The run's own copy of its tokenizer."""
        return self.path / "tokenizer.json"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.checkpoints / "last.ckpt"

    @property
    def best(self) -> Path:
        """The checkpoint with the lowest validation loss."""
        return self.checkpoints / "best.ckpt"

    @property
    def metrics(self) -> Path:
        """Everything logged, one row a step."""
        return self.path / "metrics.csv"

    @property
    def predictions(self) -> Path:
        """Of a classifier: each validation example with what was said of it."""
        return self.path / "predictions.jsonl"

    @property
    def confusion(self) -> Path:
        """Of a classifier: which classes are taken for which, as a picture."""
        return self.path / "confusion.svg"

    @property
    def samples(self) -> Path:
        """Texts that the model wrote or filled at each validation, one JSON object a line."""
        return self.path / "samples.jsonl"

    @property
    def pictures(self) -> Path:
        """Where the pictures of the network's inside lie."""
        return self.path / "pictures"

    @property
    def card(self) -> Path:
        """The run's card."""
        return self.path / "summary.json"


@dataclass(frozen=True)
class RunPlan:
    """Where a run will live and from which checkpoint it goes on, before anything is written."""

    folder: RunFolder
    checkpoint: Path | None = None
    note: str | None = None

    @property
    def continues(self) -> bool:
        """Whether the folder's own earlier steps are gone on with."""
        return self.checkpoint is not None and self.checkpoint.parent == self.folder.checkpoints

    @property
    def is_new(self) -> bool:
        """Whether the folder has to be made: no earlier start of this run may have done so."""
        return not self.continues and self.note is None


def recipe_name(config_files: list[str]) -> str:
    """What a run is called after: its first configuration file, or the run that wrote it."""
    if not config_files:
        return "run"
    first = Path(config_files[0]).absolute()
    return first.parent.name if first.name == "config.yaml" else first.stem


def plan_run(
    run_name: str | None, runs_dir: str, recipe: str, ckpt_path: str | None = None
) -> RunPlan:
    """Choose the run's folder and the checkpoint to go on from; writes nothing.

    ``ckpt_path`` is ``"last"``, a path, or None for a new run. Raises ``UserError`` where a folder
    would be overwritten or a checkpoint is missing.
    """
    handed_on = os.environ.get(HANDED_ON) if not is_first_rank() else None
    if handed_on is not None:
        folder = RunFolder(Path(handed_on))
    else:
        folder = RunFolder(Path(runs_dir) / _checked_name(run_name, recipe, ckpt_path))
    plan = _with_checkpoint(folder, ckpt_path)
    if is_first_rank():
        _refuse_overwriting(plan, ckpt_path)
        _refuse_running(folder)
    return plan


def make_folder(folder: RunFolder, is_new: bool = False) -> None:
    """Make the run's folder on rank 0 and tell the processes that it starts.

    Raises ``UserError`` where that fails, or where another process was faster: a corpus may have
    been read for a long time since the plan was made.
    """
    if not is_first_rank():
        return
    _refuse_running(folder)
    try:
        folder.checkpoints.mkdir(parents=True, exist_ok=not is_new)
        for half_written in folder.checkpoints.glob(".*.ckpt.*.tmp"):  # by a killed process
            half_written.unlink()
    except FileExistsError:
        raise UserError(_taken(folder.path)) from None
    except OSError as error:
        raise UserError(
            f"{folder.path} can't be made ({error.strerror}): give another --runs_dir."
        ) from error
    os.environ[HANDED_ON] = str(folder.path.absolute())


def release_folder() -> None:
    """Forget the folder handed on, so that a later run of the same process is its own."""
    os.environ.pop(HANDED_ON, None)


def _checked_name(run_name: str | None, recipe: str, ckpt_path: str | None) -> str:
    if run_name is None:
        if ckpt_path == "last":
            raise UserError("--ckpt_path last needs --run_name NAME, the run to go on with.")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UserError(
                "Several processes were started from outside, and would each make up a name for "
                "the run: give --run_name NAME."
            )
        return f"{recipe}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not re.fullmatch(r"[^/\\\x00]+", run_name) or run_name in (".", ".."):
        raise UserError(
            f"--run_name {run_name!r} is no folder name: leave out slashes and use --runs_dir "
            "for the folder around it."
        )
    if len(run_name.encode()) > _LONGEST_NAME:
        raise UserError(f"--run_name has {len(run_name)} characters: give a shorter one.")
    return run_name


def _with_checkpoint(folder: RunFolder, ckpt_path: str | None) -> RunPlan:
    if ckpt_path is None:
        return RunPlan(folder)
    if ckpt_path == "last":
        if folder.last.is_file():
            return RunPlan(folder, folder.last)
        return RunPlan(folder, note=f"No checkpoint yet in {folder.path}: starting at step 0.")
    checkpoint = Path(ckpt_path)
    if not checkpoint.exists():
        raise UserError(f"--ckpt_path {ckpt_path}: there is no such checkpoint.")
    if checkpoint.absolute().parent == folder.checkpoints.absolute():
        return RunPlan(folder, folder.checkpoints / checkpoint.name)
    return RunPlan(folder, checkpoint)


def _refuse_overwriting(plan: RunPlan, ckpt_path: str | None) -> None:
    path = plan.folder.path
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, so no run can live there: give another --run_name.")
    if plan.continues or ckpt_path == "last" or not path.exists() or not any(path.iterdir()):
        return
    raise UserError(_taken(path))


def _taken(path: Path) -> str:
    return (
        f"{path} already holds a run: add --ckpt_path last to go on with it, "
        "or give another --run_name."
    )


def _refuse_running(folder: RunFolder) -> None:
    if not folder.card.is_file():
        return
    card = read_card(folder.card)
    if card.get("status") == "running" and card.get("pid") != os.getpid():
        free = ""
        if card.get("host") != socket.gethostname():
            at = time.strftime("%H:%M", time.localtime(card.get("written_at", 0.0) + STALE_AFTER_S))
            free = f" Should that machine be gone, the run can be gone on with after {at}."
        raise UserError(
            f"{folder.path} is being trained at this moment by process {card['pid']} on "
            f"{card['host']}: wait for it, or give another --run_name.{free}"
        )
