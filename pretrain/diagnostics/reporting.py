"""What every observer needs: the time, the rhythm, and a way to the loggers."""

import time

import torch
from lightning.pytorch import Trainer


def now(device: torch.device) -> float:
    """Seconds on a steady clock, once all work that was given to ``device`` is done."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()


def is_log_step(trainer: Trainer, step: int) -> bool:
    """Whether optimizer step ``step`` (from 1) is one at which the Trainer logs."""
    rhythm: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return rhythm > 0 and step % rhythm == 0


def report(trainer: Trainer, metrics: dict[str, float]) -> None:
    """Hand values, equal on all ranks, to the loggers; the x axis is the optimizer step.

    ``self.log`` is not used: it would log a value that is measured now and then again at every
    later log step.
    """
    trainer.callback_metrics.update({name: torch.tensor(value) for name, value in metrics.items()})
    if trainer.is_global_zero:
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=trainer.global_step)
