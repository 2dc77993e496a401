"""Progress in optimizer steps: a live bar on a terminal, a line now and then elsewhere."""

import sys
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.trainer.states import TrainerFn
from tqdm import tqdm

from pretrain.runs.card import throughput_of
from pretrain.runs.console import say


class RunProgress(ProgressBar):
    """Shows step/total, loss, validation loss and tokens/s.

    Args:
        every_s: seconds between two refreshes of the bar.
        line_every_s: seconds between two lines where the output is no terminal.
    """

    def __init__(self, every_s: float = 0.5, line_every_s: float = 30.0) -> None:
        super().__init__()
        self._is_live = sys.stderr.isatty()
        self._every_s = every_s if self._is_live else line_every_s
        self._shown_at = 0.0
        self._bar: tqdm | None = None
        self._is_on = True
        self._said = ""

    def disable(self) -> None:
        """Stay silent: Lightning asks this of every rank but the first."""
        self._is_on = False

    def enable(self) -> None:
        """Show the progress again."""
        self._is_on = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the bar at the step that the run stands at."""
        if self._is_on and self._is_live:
            self._bar = tqdm(
                total=_total_steps(trainer), initial=trainer.global_step, unit="step",
                dynamic_ncols=True, smoothing=0.05,
            )  # fmt: skip
        self._shown_at = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Refresh now and then: reading the loss waits for the device."""
        if self._is_on and time.monotonic() - self._shown_at >= self._every_s:
            self._show(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the validation loss as soon as it is known."""
        if self._is_on and trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._show(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the last step and leave the bar standing."""
        if self._is_on:
            self._show(trainer)
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Leave the terminal to the message."""
        self._close()

    def _show(self, trainer: Trainer) -> None:
        self._shown_at = time.monotonic()
        figures = _figures(trainer)
        if self._bar is not None:
            self._bar.set_postfix_str("  ".join(figures), refresh=False)
            self._bar.update(trainer.global_step - self._bar.n)
            self._bar.refresh()
        elif not self._is_live:
            total = _total_steps(trainer)
            of_total = f"/{total}" if total else ""
            line = "  ".join([f"step {trainer.global_step}{of_total}", *figures])
            if line != self._said:
                say(line)
            self._said = line

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _figures(trainer: Trainer) -> list[str]:
    metrics, figures = trainer.callback_metrics, []
    for label, name in (("loss", "train/loss"), ("val", "val/loss")):
        if name in metrics:
            figures.append(f"{label} {float(metrics[name]):.3f}")
    speed = throughput_of(trainer)
    if speed is not None and speed.tokens_per_s:
        figures.append(f"{speed.tokens_per_s:,.0f} tokens/s")
    return figures


def _total_steps(trainer: Trainer) -> int | None:
    if trainer.max_steps > 0:
        return trainer.max_steps
    epochs, batches = trainer.max_epochs, trainer.num_training_batches
    if epochs is None or epochs <= 0 or batches == float("inf"):
        return None
    return int(epochs * -(-batches // trainer.accumulate_grad_batches))
