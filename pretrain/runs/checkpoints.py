"""Which checkpoints a run keeps, and when it writes them."""

import time
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn

from pretrain.runs.folder import RunFolder

MONITOR = "val/loss"


class LastCheckpoint(Checkpoint):
    """Keeps ``last.ckpt``: before step 1, at each validation, every few minutes, and at the end.

    The end may be a SIGTERM, as schedulers send it; Ctrl-C may come in the middle of a step, so
    nothing is written then.

    Args:
        path: the file to keep.
        every_s: the longest time, in seconds, between two writes.
    """

    def __init__(self, path: Path, every_s: float = 300.0) -> None:
        self.path = path
        self.every_s = every_s
        self._saved_step: int | None = None
        self._seen_step = 0
        self._saved_at = time.monotonic()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write what training starts from, so that there is something to go on from at any moment.

        A run that goes on from its own file has it already.
        """
        self._saved_at = time.monotonic()
        self._seen_step = trainer.global_step
        is_missing = not self.path.exists()
        if trainer.world_size > 1:  # all ranks take part in saving
            is_missing = trainer.strategy.broadcast(is_missing)
        if trainer.global_step == 0 or is_missing:
            self._save(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write what has just been measured."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._save(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write when the last file has become too old, or the process has been told to end.

        Only after a complete optimizer step.
        """
        if trainer.global_step == self._seen_step:
            return
        self._seen_step = trainer.global_step
        is_due = time.monotonic() - self._saved_at >= self.every_s or trainer.received_sigterm
        if trainer.world_size > 1:  # one clock decides, since all ranks take part in saving
            is_due = trainer.strategy.broadcast(is_due)
        if is_due:
            self._save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the final model."""
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        if trainer.global_step != self._saved_step:
            trainer.save_checkpoint(self.path)
            self._saved_step = trainer.global_step
        self._saved_at = time.monotonic()


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
