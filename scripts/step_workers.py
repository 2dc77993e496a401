"""A training in a process of its own, which goes on by some steps when it is told to.

Its own process gives it its own peak of memory, and between its turns it waits without work. So
several trainings can take turns on one machine, and whatever else goes on there meets all alike.
"""

from __future__ import annotations

import importlib
import multiprocessing
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from step_workloads import Batch, Workload

from pretrain.errors import UserError
from pretrain.hardware import device_of

WARM_UP = 2  # steps that pay for memory, kernels and compilation
# Which module trains a variant, and with what options. A process imports the one that it needs.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ours": ("step_ours", {}),
    "ours_dropout": ("step_ours", {"dropout": 0.1}),
    "ours_bare": ("step_ours", {"is_bare": True}),
    "ours_compiled": ("step_ours", {"compile": True}),
    "ours_modern": ("step_ours", {"is_modern": True}),
    "ours_recomputing": ("step_ours", {"activation_checkpointing": True}),
    "ours_progress_bar": ("step_ours", {"has_progress_bar": True}),
    "transformers_sdpa": ("step_peers", {"attention": "sdpa"}),
    "transformers_eager": ("step_peers", {"attention": "eager"}),
    "transformers_compiled": ("step_peers", {"attention": "sdpa", "is_compiled": True}),
}


@dataclass(frozen=True)
class Job:
    """What one process trains.

    Attributes:
        variant: A key of ``VARIANTS``.
        workload: The shape.
        precision: ``bf16-mixed`` or ``32-true``.
        n_turns: How often it is told to go on.
        n_steps: Optimizer steps in a turn.
    """

    variant: str
    workload: Workload
    precision: str
    n_turns: int
    n_steps: int

    @property
    def total_steps(self) -> int:
        """Optimizer steps until the end."""
        return WARM_UP + self.n_turns * self.n_steps


class WorkerError(Exception):
    """Why a training can't go on, in one line."""


class Worker:
    """The parent's end of a training.

    Args:
        job: What to train.
    """

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")  # a forked one would hold our memory
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, job), daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_ready(self, limit_s: float) -> None:
        """Let it build and warm up.

        Raises:
            WorkerError: It failed, or took longer than ``limit_s``.
        """
        if not self._connection.poll(limit_s):
            raise WorkerError(f"its first steps took longer than {limit_s:.0f} s")
        self._receive("ready")

    def turn(self) -> float:
        """Let it take its next steps; the seconds that they took."""
        with suppress(OSError):  # it has ended; what it said before is still to be read
            self._connection.send("go")
        return self._receive("seconds")

    def memory(self) -> dict[str, float]:
        """After the last turn: ``peak_mib``, and ``net_peak_mib`` without what its imports hold."""
        return self._receive("memory")

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.join()

    def _receive(self, wanted: str) -> Any:
        try:
            kind, value = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise WorkerError(f"it ended with status {self._process.exitcode}") from None
        if kind != wanted:
            raise WorkerError(value)
        return value


class Turns:
    """The training's end: told after every optimizer step, it waits where a turn is over."""

    def __init__(self, connection: Connection, job: Job) -> None:
        self._connection, self._job = connection, job
        self._done, self._started_at = 0, 0.0

    def step_done(self) -> None:
        """Count a step; after the last one of a turn report its seconds and wait for the next."""
        self._done += 1
        done = self._done - WARM_UP
        if done < 0 or done % self._job.n_steps:
            return
        if done == 0:
            self._connection.send(("ready", None))
        else:
            self._connection.send(("seconds", _now() - self._started_at))
        if self._done < self._job.total_steps:
            self._connection.recv()
            self._started_at = _now()


def work(connection: Connection, job: Job) -> None:
    """What the process does: import, train in turns, report the memory, or why it failed."""
    try:
        module, options = VARIANTS[job.variant]
        train = importlib.import_module(module).train
        importlib.import_module("torch._dynamo")  # torch's optimizers import it at their first step
        held = resident_mib("VmRSS")
        torch.manual_seed(1)
        train(job, Turns(connection, job), **options)
        peak = resident_mib("VmHWM")
        connection.send(("memory", {"peak_mib": peak, "net_peak_mib": peak - held}))
    except Exception as error:  # whatever it is, the other trainings go on
        first_line = (str(error).strip().splitlines() or [""])[0]
        with suppress(OSError):  # the parent may be gone
            connection.send(("failed", f"{type(error).__name__}: {first_line}"))


def train_in_a_loop(
    job: Job,
    turns: Turns,
    loss_of: Callable[[Batch], torch.Tensor],
    optimizer: Any,
    given: Iterable[Batch],
) -> None:
    """The plainest loop: forward, backward, step.

    Args:
        job, turns: What to train, and what is told after every step.
        loss_of: The mean loss of a micro-batch.
        optimizer: Of the parameters.
        given: As many micro-batches as the job needs.
    """
    device, accumulate = device_of(), job.workload.accumulate
    is_mixed = job.precision == "bf16-mixed"
    for number, batch in enumerate(given, 1):
        batch = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=is_mixed):
            loss = loss_of(batch)
        (loss / accumulate).backward()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            turns.step_done()


def check_precision(precision: str) -> str:
    """``precision`` itself.

    Raises:
        UserError: The plain loops don't know it.
    """
    if precision not in ("bf16-mixed", "32-true"):
        raise UserError(f"This device trains in {precision}, which the plain loops don't have.")
    return precision


def resident_mib(what: str) -> float:
    """This process's resident memory: ``VmRSS`` now, ``VmHWM`` at its peak.

    Not ``ru_maxrss``, which a process takes over from the one that started it. 0 where the system
    has no such figures.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(what)), 0.0)


def _now() -> float:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter()
