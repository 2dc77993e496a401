"""The guard against numbers that are not finite: no weight ever becomes one."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.distributed.tensor import DTensor

from pretrain.diagnostics.anomaly import inspect
from pretrain.diagnostics.reporting import is_log_step, report
from pretrain.errors import UserError
from pretrain.model.sharded import local

Action = Literal["stop", "skip"]
LONGEST_ROW = 100  # steps left out in succession, after which nothing is being learned any more


class _Verdict(NamedTuple):
    """A step, and the norm of each of its gradients, perhaps still on the way to the host."""

    step: int
    epoch: int
    last_batch: int  # number, in the epoch, of the last of its micro-batches
    batches: list[dict[str, Any]]
    norms: Tensor
    arrived: Any  # an event of the device, None on a CPU


class BadNumbers(Callback):
    """Keeps an update with a gradient that is not finite from being taken, on the device.

    With ``stop`` the run ends with one sentence: at that step on a CPU, elsewhere at the next one,
    since the host doesn't wait for the device. With ``skip`` the step is left out, and
    ``anomaly/skipped_steps`` counts how many were. Under a gradient scaler (16-mixed) an overflow
    is no fault but how the scaler finds its scale: such steps are left out and counted, too.

    Args:
        action: what to do about an update that is not finite.

    Raises:
        UserError: at such an update, or after 100 left-out steps in succession.
    """

    def __init__(self, action: Action = "stop") -> None:
        if action not in get_args(Action):
            raise UserError(f"BadNumbers: action is {action!r}; choose stop or skip.")
        self.action = action
        self.n_skipped, self.n_in_a_row = 0, 0
        self._pending: _Verdict | None = None

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Any
    ) -> None:
        """Close the optimizer's gate where a gradient is not finite; judge what has arrived."""
        gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
        norms = torch.stack(torch._foreach_norm([local(gradient) for gradient in gradients]))
        if any(isinstance(gradient, DTensor) for gradient in gradients):  # a rank has but a part
            norms = trainer.strategy.reduce(norms, reduce_op="sum")
        is_finite = norms.isfinite().all()
        gate = getattr(optimizer, "gate", None)
        optimizer.gate = is_finite if gate is None else gate & is_finite
        verdict = self._send(norms, trainer, pl_module)
        if verdict.arrived is None:
            self._judge(verdict, trainer, pl_module)
            return
        earlier, self._pending = self._pending, verdict
        if earlier is not None:
            self._judge(earlier, trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log how many steps were left out, from the first one on."""
        if self.n_skipped and is_log_step(trainer, trainer.global_step):
            report(trainer, {"anomaly/skipped_steps": float(self.n_skipped)})

    def state_dict(self) -> dict[str, int]:
        """What a resumed run goes on counting from."""
        return {"n_skipped": self.n_skipped, "n_in_a_row": self.n_in_a_row}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on counting."""
        self.n_skipped, self.n_in_a_row = state_dict["n_skipped"], state_dict["n_in_a_row"]

    @staticmethod
    def _send(norms: Tensor, trainer: Trainer, module: Any) -> _Verdict:
        device, arrived = norms.device, None
        if device.type != "cpu":
            norms = norms.to("cpu", non_blocking=True)
            arrived = torch.Event(device)
            arrived.record()
        place = trainer.fit_loop.epoch_loop.batch_idx
        step, epoch = trainer.global_step + 1, trainer.current_epoch
        return _Verdict(step, epoch, place, list(module.window), norms, arrived)

    def _judge(self, verdict: _Verdict, trainer: Trainer, pl_module: LightningModule) -> None:
        if verdict.arrived is not None:
            verdict.arrived.synchronize()
        if bool(verdict.norms.isfinite().all()):
            self.n_in_a_row = 0
            return
        self.n_skipped += 1
        self.n_in_a_row += 1
        scales = getattr(trainer.precision_plugin, "scaler", None) is not None
        if self.n_in_a_row >= LONGEST_ROW:
            raise UserError(
                f"Step {verdict.step}: {LONGEST_ROW} steps in succession had gradients that are "
                "not finite and were left out, so nothing is learned any more: start again from "
                "an earlier checkpoint with a lower lr, or another precision."
            )
        if self.action == "stop" and not scales:
            raise UserError(_sentence(verdict, trainer, pl_module))


def _sentence(verdict: _Verdict, trainer: Trainer, module: Any) -> str:
    """Step, batch and layer, what a replay shows, and what to do."""
    names = [name for name, p in module.named_parameters() if p.grad is not None]
    bad = [
        name for name, ok in zip(names, verdict.norms.isfinite().tolist(), strict=True) if not ok
    ]
    seen = _replayed(verdict, trainer, module)
    first = verdict.last_batch - len(verdict.batches) + 1
    many = "" if len(verdict.batches) == 1 else f" to {verdict.last_batch}"
    return (
        f"Step {verdict.step} (epoch {verdict.epoch}, micro-batch {first}{many}) was not taken: "
        f"{len(bad)} of {len(names)} gradients are not finite, nearest to the loss that of "
        f"{bad[-1]}. {seen} All weights are as they were: go on from the last checkpoint with a "
        "lower lr, or leave such steps out with --trainer.callbacks+=BadNumbers "
        "--trainer.callbacks.action=skip."
    )


def _replayed(verdict: _Verdict, trainer: Trainer, module: Any) -> str:
    """What a replay shows, on the first rank whose own rows are bad; all ranks must ask, alike."""
    with trainer.precision_plugin.train_step_context():
        seen = inspect(module, _again(verdict, module))
    if trainer.world_size == 1:
        return seen.describe()
    of_ranks: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(of_ranks, seen)
    bad = [rank for rank, one in enumerate(of_ranks) if one.first_bad is not None]
    return f"On rank {bad[0]}: {of_ranks[bad[0]].describe()}" if bad else of_ranks[0].describe()


def _again(verdict: _Verdict, module: Any) -> Iterator[dict[str, Any]]:
    """The micro-batches of the step, with the same dropout."""
    first = verdict.last_batch - len(verdict.batches) + 1
    for number, batch in enumerate(verdict.batches, first):
        module.seed_dropout(number)
        yield batch
