"""Several trainings of one workload, which take turns on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from step_workers import Job, Worker, WorkerError
from step_workloads import Workload

START_LIMIT_S = 300.0  # to build, compile and warm up


@dataclass
class Measurement:
    """What was measured of one workload.

    Attributes:
        workload: The shape.
        seconds_per_step: By variant, a figure for each round.
        memory: By variant, as ``Worker.memory`` gives it.
        left_out: By variant, why there are no figures.
    """

    workload: Workload
    seconds_per_step: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def step_s(self, variant: str) -> float | None:
        """Median over the rounds of the seconds a step took; None where there is none."""
        seconds = self.seconds_per_step.get(variant)
        return median(seconds) if seconds else None

    def tokens_per_s(self, variant: str) -> float | None:
        """Median over the rounds of the input tokens per second; None where there is none."""
        seconds = self.seconds_per_step.get(variant, [])
        rates = [self.workload.tokens_per_step / one for one in seconds]
        return median(rates) if rates else None


def measure(
    workload: Workload,
    variants: Sequence[str],
    precision: str,
    n_rounds: int,
    n_steps: int,
    tell: Callable[[str], None],
) -> Measurement:
    """Let every variant take ``n_steps`` optimizer steps in every round, in changing order.

    All are started before the first round, one after the other. One that fails is left out.

    Args:
        workload, precision: What is trained, in which arithmetic.
        variants: Keys of ``step_workers.VARIANTS``.
        n_rounds, n_steps: How often, and how long a turn is.
        tell: Gets a line now and then.
    """
    found = Measurement(workload)
    workers: dict[str, Worker] = {}
    try:
        for variant in variants:
            tell(f"starting {variant}")
            workers[variant] = Worker(Job(variant, workload, precision, n_rounds, n_steps))
            with _left_out_on_failure(variant, workers, found, tell):
                workers[variant].wait_until_ready(START_LIMIT_S)
        for number in range(n_rounds):
            for variant in _rotated(list(workers), number):
                with _left_out_on_failure(variant, workers, found, tell):
                    seconds = workers[variant].turn() / n_steps
                    found.seconds_per_step.setdefault(variant, []).append(seconds)
            tell(f"round {number + 1} of {n_rounds}: {_last_turns(found)}")
        for variant in list(workers):
            with _left_out_on_failure(variant, workers, found, tell):
                found.memory[variant] = workers[variant].memory()
    finally:
        for worker in workers.values():
            worker.stop()
    return found


@contextmanager
def _left_out_on_failure(
    variant: str, workers: dict[str, Worker], found: Measurement, tell: Callable[[str], None]
) -> Iterator[None]:
    try:
        yield
    except WorkerError as error:
        workers.pop(variant).stop()
        found.seconds_per_step.pop(variant, None)
        found.left_out[variant] = str(error)
        tell(f"{variant} is left out: {error}")


def _rotated(names: list[str], by: int) -> list[str]:
    start = by % max(len(names), 1)
    return names[start:] + names[:start]


def _last_turns(found: Measurement) -> str:
    turns = found.seconds_per_step.items()
    return ", ".join(f"{variant} {1000 * seconds[-1]:,.1f} ms" for variant, seconds in turns)
