"""The gradient of the mean loss over the target tokens of the GLOBAL batch.

A mean of means would weigh a micro-batch with few targets as much as one with many. With one
process and one micro-batch per step the sum is simply divided before the backward pass. Else each
micro-batch goes backward with its sum over a constant, and once per optimizer step, after the
last backward pass and before anything clips or observes, the gradients are multiplied by
constant × accumulation × processes / targets (Lightning divided by the accumulation, DDP by the
number of processes).
"""

from collections.abc import Iterable

import torch
from lightning.pytorch import Trainer
from torch import Tensor
from torch.nn import Parameter

from pretrain.model.sharded import local
from pretrain.tasks.losses import LossSums


class GlobalTargetMean:
    """Counts target tokens of a window and of a log period; no host synchronisation between.

    Args:
        period: Summed negative log-likelihood (nats) and number of targets, over all ranks, of the
            log period that training starts in; a resumed run goes on with it.
    """

    def __init__(self, period: tuple[float, float] = (0.0, 0.0)) -> None:
        self._nominal = 1
        self._window_targets: Tensor | None = None
        self._window: Tensor | None = None
        self._period: Tensor | tuple[float, float] = period

    def scale(self, sums: LossSums, nominal: int, trainer: Trainer) -> Tensor:
        """What to go backward from; ``nominal`` is the constant number of targets a batch has."""
        seen = torch.stack([sums.nll.double(), sums.n_targets.double()])
        self._window = seen if self._window is None else self._window + seen
        if not self._needs_correction(trainer):
            return sums.objective / sums.n_targets.clamp(min=1)
        self._nominal = nominal
        counted = self._window_targets
        self._window_targets = sums.n_targets if counted is None else counted + sums.n_targets
        return sums.objective / nominal

    def correct(self, parameters: Iterable[Parameter], trainer: Trainer) -> None:
        """After the last backward pass of a window: multiply the gradients, else do nothing."""
        if self._window_targets is None or not self._window_ends(trainer):
            return
        targets = trainer.strategy.reduce(self._window_targets.double(), reduce_op="sum")
        parts = self._nominal * trainer.accumulate_grad_batches * trainer.world_size
        gradients = [local(p.grad) for p in parameters if p.grad is not None]
        torch._foreach_mul_(gradients, (parts / targets.clamp(min=1)).to(gradients[0].dtype))
        self._window_targets = None

    def close_window(self) -> None:
        """The optimizer step is over: its micro-batches belong to the log period.

        Unless their sums are not finite: then the step was left out.
        """
        if self._window is not None:
            window = torch.where(self._window.isfinite().all(), self._window, 0.0)
            before = torch.as_tensor(self._period, dtype=window.dtype, device=window.device)
            self._period, self._window = before + window, None

    def window_mean_nll(self, trainer: Trainer) -> Tensor:
        """The mean in nats per target over the step that is about to be taken, on all ranks."""
        assert self._window is not None
        nll, n_targets = trainer.strategy.reduce(self._window.clone(), reduce_op="sum")
        return nll / n_targets.clamp(min=1)

    def period(self, trainer: Trainer) -> tuple[float, float]:
        """The sums of the log period so far, over all ranks, which must all ask."""
        if not isinstance(self._period, Tensor):
            return self._period
        nll, n_targets = trainer.strategy.reduce(self._period, reduce_op="sum").tolist()
        return nll, n_targets

    def pop_mean_nll(self, trainer: Trainer) -> float:
        """Mean negative log-likelihood in nats per target, over all ranks, since the last call."""
        nll, n_targets = self.period(trainer)
        self._period = (0.0, 0.0)
        return nll / max(n_targets, 1)

    @staticmethod
    def _needs_correction(trainer: Trainer) -> bool:
        return trainer.accumulate_grad_batches > 1 or trainer.world_size > 1

    @staticmethod
    def _window_ends(trainer: Trainer) -> bool:
        done = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        return done % trainer.accumulate_grad_batches == 0 or trainer.is_last_batch
