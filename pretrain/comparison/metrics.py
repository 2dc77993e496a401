"""``metrics.csv`` as series of numbers, and a run's clock: tokens and seconds at each step."""

import csv
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO


class Series(NamedTuple):
    """A metric: optimizer steps, ascending, and finite values."""

    steps: list[int]
    values: list[float]


@dataclass(frozen=True)
class Metrics:
    """What a run has logged.

    Attributes:
        series: By the metric's name; none is empty.
        last_step: The last step of the file, 0 for an empty one.
    """

    series: dict[str, Series] = field(default_factory=dict)
    last_step: int = 0


def read_metrics(path: Path) -> Metrics:
    """The file as series; a row that is cut short, a cell that holds no number is left out.

    Where a step stands twice, in two starts of a run, the later one counts.
    """
    found: dict[str, dict[int, float]] = {}
    last_step = 0
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.reader(_whole_lines(file))
            columns = next(reader, [])
            for row in reader:
                if not row or len(row) != len(columns) or not row[0].isdecimal():
                    continue
                last_step = max(last_step, int(row[0]))
                for name, cell in zip(columns[1:], row[1:], strict=True):
                    value = _number(cell)
                    if value is not None:
                        found.setdefault(name, {})[int(row[0])] = value
    except (OSError, csv.Error):
        pass  # what was read until then
    series = {}
    for name, at in found.items():
        steps = sorted(at)
        series[name] = Series(steps, [at[step] for step in steps])
    return Metrics(series, last_step)


def seconds_of(metrics: Metrics) -> Series | None:
    """Training time by step: as logged, else from the tokens and their speed; None without both."""
    if "time/seconds" in metrics.series:
        return metrics.series["time/seconds"]
    tokens = metrics.series.get("speed/tokens_seen")
    speed = metrics.series.get("speed/tokens_per_s")
    if not tokens or not speed:
        return None
    rate = dict(zip(*speed, strict=True))
    steps, seconds = [], []
    time, before = 0.0, 0.0
    for step, seen in zip(*tokens, strict=True):
        if rate.get(step, 0.0) > 0:
            time, before = time + max(seen - before, 0.0) / rate[step], seen
            steps.append(step)
            seconds.append(time)
    return Series(steps, seconds) if steps else None


def at_step(series: Series, step: float) -> float:
    """The value at ``step``, straight between two points; from 0 at step 0, constant at the end."""
    steps: Sequence[float] = [0, *series.steps] if series.steps[0] > 0 else series.steps
    values = [0.0, *series.values] if series.steps[0] > 0 else series.values
    right = bisect_right(steps, step)
    if right == len(steps):
        return values[-1]
    left = max(right - 1, 0)
    span = steps[right] - steps[left]
    share = (step - steps[left]) / span if span else 0.0
    return values[left] + share * (values[right] - values[left])


def first_at_most(series: Series, value: float) -> int | None:
    """The first step at which the metric is not above ``value``."""
    return next((step for step, seen in zip(*series, strict=True) if seen <= value), None)


def _whole_lines(file: TextIO) -> Iterator[str]:
    """Lines that have their end: the last one of a killed run may have none."""
    return (line for line in file if line.endswith("\n"))


def _number(cell: str) -> float | None:
    try:
        value = float(cell) if cell else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
