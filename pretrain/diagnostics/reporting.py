"""What every observer needs: the time, the rhythm, and a way to the loggers."""

import time
from collections.abc import Mapping

import torch
from lightning.pytorch import Trainer

from pretrain.diagnostics.alerts import Alerts

PROBE_EVERY = 100  # optimizer steps between two looks at the inside
_EARLY = (1, 10, 20, 50)  # most of what goes wrong does so at the beginning


def now(device: torch.device) -> float:
    """Seconds on a steady clock, once all work that was given to ``device`` is done."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()


def is_log_step(trainer: Trainer, step: int) -> bool:
    """Whether optimizer step ``step`` (from 1) is one at which the Trainer logs."""
    rhythm: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return rhythm > 0 and step % rhythm == 0


def is_probe_step(step: int, every_n_steps: int) -> bool:
    """Whether the inside is looked at after optimizer step ``step`` (from 1)."""
    return step % every_n_steps == 0 or (step in _EARLY and step < max(every_n_steps, 2))


def report(trainer: Trainer, metrics: Mapping[str, float]) -> None:
    """Hand values, equal on all ranks, to the loggers and to whoever judges them.

    The x axis is the optimizer step. ``self.log`` is not used: it would log a value that is
    measured now and then again at every later log step.
    """
    trainer.callback_metrics.update({name: torch.tensor(value) for name, value in metrics.items()})
    if trainer.is_global_zero:
        for logger in trainer.loggers:
            logger.log_metrics(dict(metrics), step=trainer.global_step)
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, Alerts):
            callback.see(trainer, metrics)
