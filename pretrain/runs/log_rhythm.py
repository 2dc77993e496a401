"""How often a run logs."""

from lightning.pytorch import Callback, LightningModule, Trainer

USUAL, POINTS = 50, 20


def log_interval(n_steps: int) -> int:
    """Optimizer steps between two points: twenty points of every series in a short run too."""
    return min(USUAL, max(1, n_steps // POINTS))


class LogRhythm(Callback):
    """Sets the interval of a run that is counted in epochs: how many steps it has is known late."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The loader's length is known now."""
        n_steps = trainer.estimated_stepping_batches
        if 0 < n_steps < float("inf"):
            trainer.log_every_n_steps = log_interval(int(n_steps))  # type: ignore[attr-defined]
