"""The fit loop's place in an epoch, where a run goes on with other devices or batch sizes."""

from typing import Any

from lightning.pytorch import Trainer


def count_as_done(trainer: Trainer) -> None:
    """Let the fit loop count as many micro-batches of this epoch as done as the DataModule says.

    Lightning ends an epoch by counting micro-batches, and a checkpoint brings the count of the run
    that wrote it: of smaller or fewer micro-batches there were more. A DataModule that is not ours
    is left alone.
    """
    done = getattr(trainer.datamodule, "batches_done", lambda: None)()  # type: ignore[attr-defined]
    if done is None:
        return
    current: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    surplus = done - current.ready
    current.ready += surplus
    current.started += surplus
    current.processed += surplus
    current.completed += surplus
