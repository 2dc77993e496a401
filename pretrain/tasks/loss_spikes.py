"""Steps whose loss or gradient stands far above the running level, and what is done about them.

Lightning's ``SpikeDetection`` is not used: it judges when the update has been taken, waits for the
device at every micro-batch, and its only answer is to end the run.
"""

from typing import Any, Literal, get_args

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor
from torch.distributed.tensor import DTensor

from pretrain.diagnostics.gradient_norms import gradient_norm
from pretrain.diagnostics.reporting import is_log_step, report
from pretrain.errors import UserError
from pretrain.tasks.running_level import RunningLevel
from pretrain.tasks.snapshots import Snapshots

Action = Literal["warn", "skip", "roll_back"]


class LossSpikes(Callback):
    """Finds a loss or gradient norm far above its running level, before the update is taken.

    A step is a spike where the mean loss of its global batch, or the logarithm of its gradient
    norm before clipping, exceeds its running mean by ``threshold`` running standard deviations and
    by 0.1 (see `RunningLevel`). Numbers that are not finite are neither spikes nor part of the
    level: they are what `BadNumbers` is for.

    Spikes are told at log steps and counted in ``anomaly/loss_spikes`` from the first one on.

    Args:
        action: ``warn`` only tells; ``skip`` leaves the step out, on the device, without waiting
            for it; ``roll_back`` also puts the weights and optimizer states of an earlier step
            back and goes on with the data behind the spike. For this it waits for the device in
            each step, keeps two copies of weights and states in the host's memory, and adds them
            to every checkpoint, so that a resumed run rolls back as the run itself would have.
        threshold: How many standard deviations above its level a spike stands.
        window: Steps that the running level looks back on; before there were as many, nothing
            is judged.
        roll_back_steps: A copy is made every so many steps, and the latest one that is at least
            so old is put back.

    Raises:
        UserError: A setting that can't be meant, or ``roll_back`` with sharded parameters.
    """

    def __init__(
        self,
        action: Action = "warn",
        threshold: float = 6.0,
        window: int = 100,
        roll_back_steps: int = 100,
    ) -> None:
        if action not in get_args(Action):
            raise UserError(f"LossSpikes: action is {action!r}; choose warn, skip or roll_back.")
        if not threshold > 0 or window < 2 or roll_back_steps < 1:
            raise UserError(
                f"LossSpikes: threshold ({threshold}) must be greater than 0, window ({window}) at "
                f"least 2 and roll_back_steps ({roll_back_steps}) at least 1."
            )
        self.action = action
        self.level = RunningLevel(2, threshold, window)
        self.snapshots = Snapshots(roll_back_steps)
        self._n_spikes = torch.tensor(0)
        self._latest = torch.zeros(5, dtype=torch.float64)  # what is told of the latest spike
        self._n_told = 0
        self._seen_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Go to the parameters' device."""
        is_sharded = any(isinstance(p, DTensor) for p in pl_module.parameters())
        if self.action == "roll_back" and is_sharded:
            raise UserError(
                "LossSpikes: roll_back needs all weights in each process, and here they are "
                "sharded: use action skip, or trainer.strategy ddp."
            )
        self._seen_step = trainer.global_step
        self.level.to(pl_module.device)
        self._n_spikes = self._n_spikes.to(pl_module.device)
        self._latest = self._latest.to(pl_module.device)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: Any, optimizer: Any) -> None:
        """Judge the step that is about to be taken, alike on all ranks."""
        loss = pl_module.target_mean.window_mean_nll(trainer)
        norm = gradient_norm(pl_module.parameters()).to(loss)
        usual = self.level.mean
        is_spike = self.level.judge(torch.stack([loss, norm.log()]))
        step = torch.full_like(loss, trainer.global_step + 1)
        told = torch.stack([step, loss, usual[0], norm, usual[1].exp()])
        self._latest = torch.where(is_spike, told, self._latest)
        self._n_spikes = self._n_spikes + is_spike
        if self.action != "warn":
            gate: Tensor | None = getattr(optimizer, "gate", None)
            optimizer.gate = ~is_spike if gate is None else gate & ~is_spike

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Roll back where that is asked for; tell and log at the Trainer's rhythm."""
        step = trainer.global_step
        if step == self._seen_step:
            return
        self._seen_step = step
        if self.action == "roll_back":
            optimizer = trainer.optimizers[0]
            if int(self._n_spikes) > self._n_told:
                self._tell(_rolled_back_to(self.snapshots.restore(step, pl_module, optimizer)))
            self.snapshots.after_step(step, pl_module, optimizer)
        if is_log_step(trainer, step):
            self._log(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Tell and log what came after the last log step."""
        if not is_log_step(trainer, trainer.global_step):
            self._log(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The level, the counts and the copies: a resumed run judges and acts as this one."""
        return {
            "level": self.level.state_dict(),
            "n_spikes": self._n_spikes,
            "latest": self._latest,
            "n_told": self._n_told,
            "snapshots": self.snapshots.kept,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.level.load_state_dict(state_dict["level"])
        self._n_spikes, self._latest = state_dict["n_spikes"], state_dict["latest"]
        self._n_told = state_dict["n_told"]
        self.snapshots.kept = state_dict["snapshots"]

    def _log(self, trainer: Trainer) -> None:
        n_spikes = int(self._n_spikes)
        if n_spikes > self._n_told:
            self._tell("left out" if self.action == "skip" else "trained on all the same")
        if n_spikes:
            report(trainer, {"anomaly/loss_spikes": float(n_spikes)})

    def _tell(self, done: str) -> None:
        """Say what the latest spike was, how many came with it, and what was ``done``."""
        n_new = int(self._n_spikes) - self._n_told
        self._n_told += n_new
        step, loss, usual_loss, norm, usual_norm = self._latest.tolist()
        others = f" (and {n_new - 1} more since the last log step)" if n_new > 1 else ""
        rank_zero_info(
            f"Loss spike in step {step:.0f}{others}: loss {loss:.4g} where {usual_loss:.4g} is "
            f"usual, gradient norm {norm:.3g} where {usual_norm:.3g} is; {done}."
        )


def _rolled_back_to(step: int | None) -> str:
    if step is None:
        return "left out, as there is no copy yet that is old enough to roll back to"
    return f"weights and optimizer states are those of step {step} again"
