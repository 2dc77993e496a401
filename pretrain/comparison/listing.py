"""The list of runs: one line each, in a given width."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pretrain.comparison import numbers
from pretrain.comparison.figures import UNKNOWN
from pretrain.comparison.run import Run
from pretrain.comparison.text_table import aligned, shortened, width_of
from pretrain.errors import UserError

_SHORTEST_NAME = 12


@dataclass(frozen=True)
class Column:
    """A column of the list.

    Attributes:
        key: What ``--sort`` calls it.
        title: Its heading.
        value: A run's value to sort by, the best (or for texts: the first) being the least.
        text: A run's cell.
        importance: In a narrow terminal the least important go first.
    """

    key: str
    title: str
    value: Callable[[Run], float | str | None]
    text: Callable[[Run], str]
    importance: int
    is_number: bool = True


def _figure(
    key: str, title: str, keys: str | tuple[str, ...], form: Callable[[float], str],
    importance: int, more_is_better: bool = False,
) -> Column:  # fmt: skip
    names = (keys,) if isinstance(keys, str) else keys

    def number(run: Run) -> float | None:
        return next((run.figure(name) for name in names if run.figure(name) is not None), None)

    def value(run: Run) -> float | None:
        found = number(run)
        return -found if found is not None and more_is_better else found

    def text(run: Run) -> str:
        found = number(run)
        return UNKNOWN if found is None else form(found)

    return Column(key, title, value, text, importance)


def _names_of_alerts(run: Run) -> str:
    names = dict.fromkeys(str(one.get("name")).replace("_", " ") for one in run.alerts)
    return ", ".join(names) or UNKNOWN


def _number_of_alerts(run: Run) -> str:
    return str(len(run.alerts)) if run.alerts else UNKNOWN


_ALERTS = Column("alerts", "alerts", lambda run: len(run.alerts), _names_of_alerts, 10, False)
_ALERT_COUNT = Column("alerts", "alerts", _ALERTS.value, _number_of_alerts, 10)
COLUMNS = (
    Column("name", "run", lambda run: run.name, lambda run: run.name, 99, False),
    Column("recipe", "recipe", lambda run: str(run.card.get("recipe") or "~"),
           lambda run: str(run.card.get("recipe") or UNKNOWN), 2, False),
    Column("status", "status", lambda run: run.status, lambda run: run.status, 11, False),
    _figure("parameters", "params", "n_parameters", numbers.count, 5),
    _figure("tokens", "tokens", "tokens_seen", numbers.count, 6, more_is_better=True),
    _figure("steps", "steps", "steps", numbers.whole, 1, more_is_better=True),
    _figure("best", "best val loss", "best_val_loss_nats", numbers.nats, 50),
    _figure("final", "final val loss", "val_loss_nats", numbers.nats, 8),
    _figure("bits_per_byte", "bits/byte", "val_bits_per_byte", numbers.nats, 7),
    _figure("accuracy", "accuracy", ("val_accuracy", "val_masked_accuracy"), numbers.percent, 4,
            more_is_better=True),
    _figure("time", "time", "wall_time_s", numbers.duration, 9),
    _figure("tokens_per_s", "tokens/s", "tokens_per_s", numbers.whole, 3, more_is_better=True),
    _ALERTS,
)  # fmt: skip


def sorted_runs(runs: Sequence[Run], key: str | None) -> list[Run]:
    """The best first by the column ``key``, runs without a value last; as given without a key.

    Raises:
        UserError: There is no such column.
    """
    if key is None:
        return list(runs)
    column = next((column for column in COLUMNS if column.key == key), None)
    if column is None:
        keys = [column.key for column in COLUMNS]
        near = difflib.get_close_matches(key, keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"give one of {', '.join(keys)}."
        raise UserError(f"--sort {key} is no column: {hint}")
    known = {run.path: column.value(run) for run in runs}
    return sorted(
        (run for run in runs if known[run.path] is not None),
        key=lambda run: known[run.path],  # type: ignore[arg-type,return-value]
    ) + [run for run in runs if known[run.path] is None]


def listing(runs: Sequence[Run], width: int) -> list[str]:
    """A heading and a line for each run, no wider than ``width`` as far as that is possible.

    Alerts are named where there is room, else counted; columns that say nothing are left out, and
    the least important ones where they do not fit.
    """
    columns = [column for column in COLUMNS if _says_something(column, runs)]
    if width_of(_cells(columns, runs)) > width:
        columns = [_ALERT_COUNT if column is _ALERTS else column for column in columns]
    while len(columns) > 2 and width_of(_cells(columns, runs)) > width:
        columns.remove(min(columns, key=lambda column: column.importance))
    cells = _cells(columns, runs)
    too_wide = width_of(cells) - width
    if too_wide > 0:
        room = max(max(map(len, cells[0])) - too_wide, _SHORTEST_NAME)
        cells[0] = [shortened(cell, room) for cell in cells[0]]
    return aligned(cells, [column.is_number for column in columns])


def _says_something(column: Column, runs: Sequence[Run]) -> bool:
    return any(column.text(run) != UNKNOWN for run in runs)


def _cells(columns: Sequence[Column], runs: Sequence[Run]) -> list[list[str]]:
    return [[column.title, *map(column.text, runs)] for column in columns]
