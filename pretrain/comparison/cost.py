"""What the best run cost beside the next, and how early it was ahead, in words."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pretrain.comparison import numbers
from pretrain.comparison.metrics import at_step, first_at_most, seconds_of
from pretrain.comparison.run import Run

_ALIKE = 0.02  # a ratio nearer to 1 is no difference


class _Cost(NamedTuple):
    key: str
    verb: str
    both: str
    form: Callable[[float], str]


_COSTS = (
    _Cost("wall_time_s", "took", "both took", numbers.duration),
    _Cost("tokens_seen", "saw", "both saw", lambda n: f"{numbers.count(n)} tokens"),
    _Cost("n_parameters", "has", "both have", lambda n: f"{numbers.count(n)} parameters"),
)


def cost_in_words(ranked: Sequence[Run]) -> list[str]:
    """Time, tokens and parameters of the first run, against those of the second.

    Args:
        ranked: One or more, the best first.
    """
    best, other = ranked[0], ranked[1] if len(ranked) > 1 else None
    parts = [part for part in (_against(cost, best, other) for cost in _COSTS) if part]
    if not parts:
        return []
    beside = f"Beside {other.name}: " if other is not None else ""
    said = beside + "; ".join(parts)
    return [said[0].upper() + said[1:] + "."]


def lead_in_words(best: Run, second: Run) -> list[str]:
    """When the best run had reached what the second reached at its best."""
    losses, others = (run.metrics.series.get("val/loss") for run in (best, second))
    if not losses or not others:
        return []
    goal = min(others.values)
    step = first_at_most(losses, goal)
    if step is None or not step:
        return []
    seconds, its_seconds = seconds_of(best.metrics), seconds_of(second.metrics)
    its_step = others.steps[others.values.index(goal)]
    text = f"It had reached the best loss of {second.name} ({goal:.3f}) by step {step:,}"
    if seconds and its_seconds:
        text += (
            f", after {numbers.duration(at_step(seconds, step))} of training; {second.name} needed "
            f"{its_step:,} steps and {numbers.duration(at_step(its_seconds, its_step))}"
        )
    else:
        text += f"; {second.name} needed {its_step:,} steps"
    return [text + "."]


def _against(cost: _Cost, best: Run, other: Run | None) -> str:
    value = best.figure(cost.key)
    its = other.figure(cost.key) if other is not None else None
    if not value:
        return ""
    said = f"it {cost.verb} {cost.form(value)}"
    if not its:
        return said
    ratio = value / its
    if abs(ratio - 1) <= _ALIKE:
        return f"{cost.both} {cost.form(value)}"
    return f"{said} against {cost.form(its)} ({_more(ratio)})"


def _more(ratio: float) -> str:
    """``2.2 times``, ``37 % more``, ``20 % less``."""
    if ratio >= 1.995:
        return f"{ratio:.0f} times" if ratio >= 9.95 else f"{ratio:.1f} times"
    return f"{100 * abs(ratio - 1):.0f} % {'more' if ratio > 1 else 'less'}"
