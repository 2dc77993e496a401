"""What happens to a run: a callback that ends it at a chosen micro-batch, and half precision on a
CPU. Given to ``pretrain fit`` by ``prove_resume.py``.
"""

import os
import signal
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.plugins import MixedPrecision

LAST = -1


class Interruption(Callback):
    """Ends the run by its own hand when a micro-batch begins.

    Args:
        how: ``SIGTERM``, ``SIGINT``, ``kill`` (SIGKILL), ``exception``, or ``SIGUSR1``: that
            signal, and a SIGKILL one step later.
        epoch: in which epoch, from 0.
        batch: at which of its micro-batches, from 0; -1 is the last.
    """

    def __init__(self, how: str, epoch: int, batch: int) -> None:
        self.how, self.epoch, self.batch = how, epoch, batch
        self._countdown: int | None = None

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Strike."""
        if self._countdown is not None:
            self._countdown -= 1
            if self._countdown == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        is_place = trainer.is_last_batch if self.batch == LAST else batch_idx == self.batch
        if trainer.current_epoch != self.epoch or not is_place:
            return
        if self.how == "exception":
            raise RuntimeError("an error of the test's own making")
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "SIGUSR1":
            self._countdown = trainer.accumulate_grad_batches
        if trainer.is_global_zero:
            os.kill(os.getpid(), getattr(signal, self.how))


class HalfOnCPU(Callback):
    """16-mixed on a CPU, with a scale that overflows at first and grows again all the time.

    The command line refuses this precision on a CPU, where it is slow, so it is put in place here.
    """

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Before anything has asked for the precision."""
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=3)
        trainer.strategy.precision_plugin = MixedPrecision("16-mixed", "cpu", scaler)
