"""The figures of a card that runs are compared by: their names, their form, which way is better."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pretrain.comparison import numbers
from pretrain.comparison.run import Run

UNKNOWN = "–"


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        key: In the card.
        title: In words, with the unit.
        form: Writes it.
        better: -1 where less is better, 1 where more is, 0 where neither is.
        needs_same_task: Whether it says which run is better only where the runs predict the same
            tokens of the same text.
        needs_same_text: The same, whatever the tokens.
    """

    key: str
    title: str
    form: Callable[[float], str]
    better: int = 0
    needs_same_task: bool = False
    needs_same_text: bool = False


FIGURES = (
    Figure("val_loss_nats", "validation loss, final, whole split (nats)", numbers.nats, -1, True),
    Figure("best_val_loss_nats", "best validation loss on the way (nats)", numbers.nats, -1, True),
    Figure("val_perplexity", "perplexity", lambda value: f"{value:,.2f}", -1, True),
    Figure("val_bits_per_byte", "bits per byte", numbers.nats, -1, False, True),
    Figure("val_masked_accuracy", "masked tokens right", numbers.percent, 1, True),
    Figure("val_accuracy", "accuracy", numbers.percent, 1, True),
    Figure("val_f1", "F1", numbers.nats, 1, True),
    Figure("val_matthews", "Matthews correlation", numbers.nats, 1, True),
    Figure("val_pearson", "Pearson correlation", numbers.nats, 1, True),
    Figure("val_spearman", "Spearman correlation", numbers.nats, 1, True),
    Figure("train_loss_nats", "training loss, last (nats)", numbers.nats),
    Figure("n_parameters", "parameters", numbers.count),
    Figure("tokens_seen", "tokens", numbers.count),
    Figure("steps", "steps", numbers.whole),
    Figure("wall_time_s", "time", numbers.duration),
    Figure("tokens_per_s", "tokens/s", numbers.whole, 1),
    Figure("peak_memory_mib", "peak memory", numbers.mebibytes, -1),
)
BY_KEY = {figure.key: figure for figure in FIGURES}


@dataclass(frozen=True)
class Row:
    """A row of the table of results: a text for each run, and which of them is the best."""

    title: str
    cells: list[str]
    best: int | None = None


def result_rows(runs: Sequence[Run], same_task: bool, same_text: bool) -> list[Row]:
    """The table of results; figures that no run has are left out.

    Args:
        runs: One column each.
        same_task: Whether the runs' losses may be set against each other.
        same_text: Whether their bits per byte may.
    """
    rows = [Row("status", [run.status for run in runs])]
    for figure in FIGURES:
        values = [run.figure(figure.key) for run in runs]
        if all(value is None for value in values):
            continue
        cells = [UNKNOWN if value is None else figure.form(value) for value in values]
        says_better = (
            figure.better
            and (same_task or not figure.needs_same_task)
            and (same_text or not figure.needs_same_text)
        )
        rows.append(Row(figure.title, cells, _best(values, figure.better) if says_better else None))
    rows.append(Row("alerts", [alerts_in_short(run) for run in runs]))
    return rows


def alerts_in_short(run: Run) -> str:
    """How many, or that none was raised; unknown for a card from before there were alerts."""
    return UNKNOWN if run.card.get("alerts") is None else str(len(run.alerts) or "none")


def _best(values: Sequence[float | None], better: int) -> int | None:
    known = {i: value for i, value in enumerate(values) if value is not None}
    if len(known) < 2 or len(set(known.values())) == 1:
        return None
    return max(known, key=lambda i: better * known[i])
