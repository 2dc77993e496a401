"""How fast training goes, and how much of the machine it uses."""

import time
from functools import partial
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from pretrain.diagnostics.fetch_timer import FetchTimer
from pretrain.diagnostics.peak_flops import peak_flops
from pretrain.diagnostics.reporting import is_log_step, now, report


class Throughput(Callback):
    """Logs speed at the Trainer's log rhythm.

    - ``speed/tokens_seen``: input tokens of all ranks since step 1, resumes included.
    - ``time/seconds``: wall time of training, validation and checkpoints included, resumes added.
    - ``speed/tokens_per_s``, ``speed/step_seconds``: real time since the last log, with data
      loading and probes, without validation and checkpoints. The first step after a start is left
      out, since it pays for compilation and memory.
    - ``speed/data_wait_share``: of that time, the share in which the loop waited for its next
      micro-batch (on a GPU, work given to it before goes on meanwhile).
    - ``speed/mfu``: model FLOPs utilisation ("PaLM", Chowdhery et al. 2022, appendix B), useful
      training FLOPs over the peak of all devices. On a CPU the peak is measured at the start.

    Attributes:
        tokens_seen: As logged.
        tokens_per_s: Mean over this process's training time, up to the last log or the end; None
            before.
        mfu, data_wait_share: Likewise.
    """

    def __init__(self) -> None:
        self.tokens_seen = 0
        self.tokens_per_s: float | None = None
        self.mfu: float | None = None
        self.data_wait_share: float | None = None
        self._peak = 0.0
        self._earlier_s, self._started_at = 0.0, time.monotonic()
        self._reset(step=0)

    def _reset(self, step: int) -> None:
        self._step = step
        self._window_tokens = 0  # since the last optimizer step
        self._is_warm = False
        self._flops_per_token = 0.0
        self._running_since: float | None = None
        self._fetching_since = 0.0
        self._clear_window()
        self._run_tokens, self._run_seconds, self._run_waited = 0, 0.0, 0.0

    def _clear_window(self) -> None:
        """Start counting since the last log."""
        self._tokens, self._steps = 0, 0
        self._seconds, self._waited = 0.0, 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the peak and start afresh."""
        self._peak = peak_flops(pl_module.device, str(trainer.precision)) * trainer.world_size
        self._started_at = time.monotonic()
        self._reset(trainer.global_step)
        fetch_starts = partial(self._fetch_starts, pl_module)
        trainer.profiler = FetchTimer(trainer.profiler, fetch_starts, self._fetch_ends)  # type: ignore[attr-defined]

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count, and log at the end of a step that is logged."""
        n_tokens = batch["input_ids"].numel() * trainer.world_size
        has_stepped = trainer.global_step != self._step
        self._step = trainer.global_step
        self._window_tokens += n_tokens
        if has_stepped:  # an interrupted window is read again
            self.tokens_seen, self._window_tokens = self.tokens_seen + self._window_tokens, 0
        if self._is_warm:
            self._tokens += n_tokens
            self._steps += has_stepped
        elif has_stepped:
            self._is_warm = True
            self._flops_per_token = pl_module.flops_per_token(batch["input_ids"].shape[-1])  # type: ignore[operator]
        if has_stepped and is_log_step(trainer, self._step):
            progress = {"speed/tokens_seen": self.tokens_seen, "time/seconds": self._wall_s()}
            report(trainer, {**progress, **self._close(pl_module)})
            self._running_since = now(pl_module.device)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the steps since the last log into the figures of the run."""
        self._close(pl_module)
        _restore_profiler(trainer)

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Leave the Trainer as it was."""
        _restore_profiler(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Validation is not training time."""
        self._pause(pl_module)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Neither is writing a checkpoint."""
        self._pause(pl_module)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run goes on counting from."""
        return {"tokens_seen": self.tokens_seen, "wall_s": self._wall_s()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self.tokens_seen = state_dict["tokens_seen"]
        self._earlier_s = state_dict.get("wall_s", 0.0)

    def _wall_s(self) -> float:
        return self._earlier_s + time.monotonic() - self._started_at

    def _fetch_starts(self, pl_module: LightningModule) -> None:
        """A step begins with its data: let the clock run again after a pause."""
        if self._is_warm and self._running_since is None:
            self._running_since = now(pl_module.device)
        self._fetching_since = time.perf_counter()

    def _fetch_ends(self) -> None:
        if self._running_since is not None:
            self._waited += time.perf_counter() - self._fetching_since

    def _pause(self, pl_module: LightningModule) -> None:
        if self._running_since is not None:
            self._seconds += now(pl_module.device) - self._running_since
            self._running_since = None

    def _close(self, pl_module: LightningModule) -> dict[str, float]:
        """Add the time since the last log to the run's, and return its rates if it has steps."""
        self._pause(pl_module)
        tokens, steps = self._tokens, self._steps
        seconds, waited = self._seconds, self._waited
        if steps == 0:
            return {}
        self._clear_window()
        self._run_tokens += tokens
        self._run_seconds += seconds
        self._run_waited += waited
        self.tokens_per_s = self._run_tokens / self._run_seconds
        self.data_wait_share = self._run_waited / self._run_seconds
        self.mfu = self._flops_per_token * self.tokens_per_s / self._peak
        return {
            "speed/tokens_per_s": tokens / seconds,
            "speed/step_seconds": seconds / steps,
            "speed/mfu": self._flops_per_token * tokens / seconds / self._peak,
            "speed/data_wait_share": waited / seconds,
        }


def _restore_profiler(trainer: Trainer) -> None:
    profiler = trainer.profiler  # type: ignore[attr-defined]
    if isinstance(profiler, FetchTimer):
        trainer.profiler = profiler.profiler  # type: ignore[attr-defined]
