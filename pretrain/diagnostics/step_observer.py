"""What one optimizer step does to the network."""

from collections.abc import Iterable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.optim import Optimizer

from pretrain.diagnostics.reporting import is_log_step, report


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """L2 norm of all gradients taken as one vector, a scalar on their device."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)


class StepObserver(Callback):
    """Logs ``grad/norm``, the total gradient norm before clipping, at the Trainer's log rhythm.

    Gradients are read where they are complete: summed over micro-batches and ranks, divided by
    the targets, unscaled. On all other steps nothing is computed and the device is not waited for.
    """

    def __init__(self) -> None:
        self._norm: Tensor | None = None

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Read the gradients of a step that is logged."""
        if is_log_step(trainer, trainer.global_step + 1):
            self._norm = gradient_norm(pl_module.parameters())

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Log them under the number of the step, which is taken by now."""
        if self._norm is not None:
            report(trainer, {"grad/norm": self._norm.item()})
            self._norm = None
