"""The fit loop's place in an epoch, where a run goes on with other devices or batch sizes."""

from typing import Any

from lightning.pytorch import Trainer


def count_as_done(trainer: Trainer) -> None:
    """Let the fit loop count as many micro-batches of this epoch as done as the DataModule says.

    Lightning ends an epoch by counting micro-batches, and a checkpoint brings the count of the run
    that wrote it: of smaller or fewer micro-batches there were more. Of a stream the loop knows no
    length, and behind the last micro-batch of an epoch it would go on counting in the next one. A
    DataModule that is not ours is left alone.
    """
    data = trainer.datamodule  # type: ignore[attr-defined]
    if not hasattr(data, "batches_done"):
        return
    progress = trainer.fit_loop.epoch_loop.batch_progress
    done = data.batches_done()
    if done is None and progress.is_last_batch:
        done = 0
    if done is None:
        return
    current: Any = progress.current
    surplus = done - current.ready
    current.ready += surplus
    current.started += surplus
    current.processed += surplus
    current.completed += surplus
