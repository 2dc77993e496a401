"""When validation happens, and on how much: often on a fixed part, once on the whole split."""

from collections.abc import Iterator
from contextlib import contextmanager

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import BatchSizeFinder

TIMES_PER_RUN = 20
BATCHES = 64


class ValidationSchedule(Callback):
    """Validates at step 0 and ``times_per_run`` times a run, on the first ``batches`` of the split.

    Args:
        times_per_run: validations after step 0; None leaves the Trainer's own interval.
        batches: batches of the split (over all ranks) each time; None leaves the Trainer's limit.
    """

    def __init__(
        self, times_per_run: int | None = TIMES_PER_RUN, batches: int | None = BATCHES
    ) -> None:
        self.times_per_run = times_per_run
        self.batches = batches

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Set the Trainer's interval and limit, before its loops read them."""
        if stage != "fit":
            return
        trainer.num_sanity_val_steps = 0  # the validation at step 0 takes its place, and counts
        if self.batches is not None:
            trainer.limit_val_batches = max(1, self.batches // trainer.world_size)
        if self.times_per_run is not None and trainer.max_steps > 0:
            steps = max(1, trainer.max_steps // self.times_per_run)
            trainer.val_check_interval = steps * trainer.accumulate_grad_batches
            trainer.check_val_every_n_epoch = None  # count micro-batches across epochs

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Validate the untrained model; a run that is gone on with has done so already."""
        if self.times_per_run is not None and trainer.max_steps <= 0:
            self._space_over_epochs(trainer, self.times_per_run)
        if trainer.global_step == 0 and trainer.limit_val_batches:
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True

    @staticmethod
    def _space_over_epochs(trainer: Trainer, times: int) -> None:
        """Without max_steps, the length of the loader (known only now) gives the interval."""
        epochs, per_epoch = trainer.max_epochs, trainer.num_training_batches
        if epochs is None or epochs <= 0 or per_epoch == float("inf"):
            return
        accumulate = trainer.accumulate_grad_batches
        steps = max(1, int(epochs * per_epoch) // accumulate // times)
        trainer.val_check_batch = steps * accumulate
        trainer.check_val_every_n_epoch = None


@contextmanager
def whole_split(trainer: Trainer) -> Iterator[None]:
    """Within this block ``trainer.validate`` measures every batch, and logs nothing itself.

    The batch-size finder, which would search once more and forget the step, stays out of it.
    """
    limit, loggers, callbacks = trainer.limit_val_batches, trainer.loggers, trainer.callbacks  # type: ignore[attr-defined]
    trainer.limit_val_batches, trainer.loggers = 1.0, []
    trainer.callbacks = [c for c in callbacks if not isinstance(c, BatchSizeFinder)]  # type: ignore[attr-defined]
    try:
        yield
    finally:
        trainer.limit_val_batches, trainer.loggers = limit, loggers
        trainer.callbacks = callbacks  # type: ignore[attr-defined]
