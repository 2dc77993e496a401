"""Which checkpoints a run keeps, and when it writes them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn

from pretrain.errors import UserError
from pretrain.model.sharded import local
from pretrain.runs.console import say
from pretrain.runs.folder import RunFolder
from pretrain.runs.stop_signals import STOPPING, StopSignalError, StopSignals, requeue_job

MONITOR = "val/loss"


class LastCheckpoint(Checkpoint):
    """Keeps ``last.ckpt``, the state after the last complete optimizer step.

    It is written before step 1, at each validation, every few minutes, and whenever the run ends,
    be it by a signal (see `StopSignals`) or, with one process, by an error: then with the counters
    of the last complete step, whatever micro-batches came after it. Weights that are not finite
    are never written.

    Args:
        path: the file to keep.
        every_s: the longest time, in seconds, between two writes.
    """

    def __init__(self, path: Path, every_s: float = 300.0) -> None:
        self.path = path
        self.every_s = every_s
        self.signals = StopSignals()
        self._saved_step: int | None = None
        self._complete_step = 0
        self._complete_loops: dict[str, Any] = {}
        self._falls_back = False
        self._stop: StopSignalError | None = None
        self._saved_at = time.monotonic()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """From here on SIGUSR1 ends nothing, in the validations before and behind training too."""
        self.signals.guard()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """The end of that; not after an error, when Lightning puts back what stood in training."""
        self.signals.release()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write what training starts from, so that there is something to go on from at any moment.

        A run that goes on from its own file has it already. One that goes back to an earlier file
        must not find the later one again when it is killed.
        """
        self._saved_at = time.monotonic()
        self._note_complete(trainer)
        is_own = self.path.exists() and self._is_this(trainer.ckpt_path)
        if trainer.world_size > 1:  # all ranks take part in saving
            is_own = trainer.strategy.broadcast(is_own)
        if not is_own:
            self._save(trainer)
        self.signals.install()  # not before: Lightning has just put its own in place

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write when the last file has become too old, or a signal has come.

        Only after a complete optimizer step.
        """
        if trainer.global_step != self._complete_step:
            self._note_complete(trainer)
            self._heed(trainer, is_due=time.monotonic() - self._saved_at >= self.every_s)

    def on_train_batch_start(self, *args: Any) -> None:
        """End the run here if it was told to: the last step is logged by now."""
        self._stop_if_told()

    def on_validation_start(self, *args: Any) -> None:
        """Likewise."""
        self._stop_if_told()

    def on_train_epoch_end(self, *args: Any) -> None:
        """Likewise."""
        self._stop_if_told()

    def on_validation_batch_end(self, trainer: Trainer, *args: Any) -> None:
        """A signal doesn't wait for the end of a validation."""
        if trainer.state.fn == TrainerFn.FITTING and self._complete_loops:
            with self._fallen_back():
                self._heed(trainer)
        self._stop_if_told()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write what has just been measured."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the final model."""
        self._save(trainer)
        self.signals.restore()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Write the last complete step, if it can be told that it is whole."""
        self.signals.restore()
        is_ours = isinstance(exception, (StopSignalError, KeyboardInterrupt))
        if is_ours or trainer.world_size > 1 or not self._complete_loops:
            return
        steps = [config.scheduler.last_epoch for config in trainer.lr_scheduler_configs]
        is_between = any(getattr(one, "is_updating", False) for one in trainer.optimizers)
        if is_between or any(step != self._complete_step for step in steps):
            return
        with self._fallen_back(), suppress(Exception):  # the error itself is what the user must see
            self._save(trainer)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Put the counters of the last complete step in place of those of now.

        Also where a validation, or the end, falls into an accumulation window: weights and place in
        the data are those of that step, whichever callback saves.
        """
        if self._falls_back or self._is_inside_window(trainer):
            checkpoint["loops"]["fit_loop"] = deepcopy(self._complete_loops)

    def _stop_if_told(self) -> None:
        if self._stop is not None:
            raise self._stop

    def _note_complete(self, trainer: Trainer) -> None:
        self._complete_step = trainer.global_step
        self._complete_loops = deepcopy(trainer.fit_loop.state_dict())

    def _is_this(self, path: str | Path | None) -> bool:
        return path is not None and Path(path).absolute() == self.path.absolute()

    def _is_inside_window(self, trainer: Trainer) -> bool:
        """Whether micro-batches have been trained on since the last complete step."""
        if not self._complete_loops or trainer.global_step != self._complete_step:
            return False
        noted = self._complete_loops["epoch_loop.batch_progress"]["total"]["ready"]
        return bool(trainer.fit_loop.epoch_loop.batch_progress.total.ready != noted)

    @contextmanager
    def _fallen_back(self) -> Iterator[None]:
        self._falls_back = True
        try:
            yield
        finally:
            self._falls_back = False

    def _heed(self, trainer: Trainer, is_due: bool = False) -> None:
        """Save where it is time or a signal asks for it on any rank; note that one says stop."""
        received = self.signals.received
        wanted = torch.tensor([is_due and trainer.is_global_zero, *received.values()]).float()
        if trainer.world_size > 1:  # signals reach one rank or all; one clock decides
            device = trainer.strategy.root_device
            wanted = trainer.strategy.reduce(wanted.to(device), reduce_op="sum").cpu()
        if not wanted.any():
            return
        self._save(trainer)
        came = [name for name, count in zip(received, wanted[1:], strict=True) if count]
        for signum in came:
            received[signum] = 0
            if signum in STOPPING or requeue_job():
                self._stop = StopSignalError(signum)
                return
            say(f"{signum.name}: step {trainer.global_step} is saved, training goes on.")

    def _save(self, trainer: Trainer) -> None:
        if trainer.global_step != self._saved_step:
            self._refuse_bad_weights(trainer)
            trainer.save_checkpoint(self.path)
            self._saved_step = trainer.global_step
        self._saved_at = time.monotonic()

    def _refuse_bad_weights(self, trainer: Trainer) -> None:
        bad = first_bad_weight(trainer.lightning_module)
        if trainer.world_size > 1:
            bad = next(filter(None, gathered(bad)), None)
        if bad is not None:
            raise UserError(
                f"Step {trainer.global_step}: {bad} is not finite, so {self.path} is left as it "
                "is: go on from there with a lower lr."
            )


def first_bad_weight(module: torch.nn.Module) -> str | None:
    """The name of the first parameter or buffer with a number that is not finite; None is good."""
    for name, value in module.state_dict().items():
        part = local(value)
        if part.is_floating_point() and not bool(part.isfinite().all()):
            return name
    return None


def gathered(value: Any) -> list[Any]:
    """The values of all ranks, which must all ask."""
    values = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def best_checkpoint(folder: RunFolder) -> ModelCheckpoint:
    """The callback that keeps ``best.ckpt``, the model with the lowest ``val/loss``."""
    return ModelCheckpoint(
        dirpath=folder.checkpoints,
        filename=folder.best.stem,
        monitor=MONITOR,
        mode="min",
        save_top_k=1,
        auto_insert_metric_name=False,
        enable_version_counter=False,
        save_on_train_epoch_end=False,
    )


class KeptCheckpoints(Checkpoint):
    """Keeps ``step_N.ckpt`` of every n-th optimizer step, for good.

    Lightning's own would name a file after the last value of ``step`` that was logged.

    Args:
        folder: the run's folder.
        every_n_steps: how many optimizer steps lie between two of them.
    """

    def __init__(self, folder: RunFolder, every_n_steps: int) -> None:
        self.folder, self.every_n_steps = folder, every_n_steps
        self._seen_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Steps that are behind are not kept again."""
        self._seen_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write behind a complete step whose turn it is."""
        step = trainer.global_step
        if step != self._seen_step and step % self.every_n_steps == 0:
            trainer.save_checkpoint(self.folder.checkpoints / f"step_{step}.ckpt")
        self._seen_step = step
