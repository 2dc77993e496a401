"""``summary.json``, the card of a run: what it is, how far it came, and how it ended."""

import json
import math
import os
import socket
import time
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.exceptions import SIGTERMException

from pretrain.data.files import written_whole
from pretrain.diagnostics.alerts import raised_in
from pretrain.runs.card_reader import process_started
from pretrain.runs.environment import describe_machine, peak_memory_mib
from pretrain.runs.stop_signals import StopSignalError

# Every card has these keys; a value that is not known (yet) is null.
MEASURED = (
    "n_parameters", "tokens_seen", "steps", "train_loss_nats", "val_loss_nats",
    "best_val_loss_nats", "val_target_tokens", "val_perplexity", "val_bits_per_byte",
    "val_masked_accuracy", "tokens_per_s", "data_wait_share", "peak_memory_mib",
    "wall_time_s",
)  # fmt: skip
# The names that the task logs, and what the card calls them after the final validation.
FINAL = {
    "val/loss": "val_loss_nats",
    "val/target_tokens": "val_target_tokens",
    "val/perplexity": "val_perplexity",
    "val/bits_per_byte": "val_bits_per_byte",
    "val/masked_accuracy": "val_masked_accuracy",
    "val/accuracy": "val_accuracy",
    "val/f1": "val_f1",
    "val/matthews": "val_matthews",
    "val/pearson": "val_pearson",
    "val/spearman": "val_spearman",
}


class RunCard(Callback):
    """Keeps a run's card up to date while it trains.

    Args:
        path: the card's file.
        facts: what is known before training, such as ``recipe``, ``run_name`` and ``precision``.
        every_s: the longest time, in seconds, between two writes.
    """

    def __init__(self, path: Path, facts: dict[str, Any], every_s: float = 60.0) -> None:
        self.path = path
        self.every_s = every_s
        self.values: dict[str, Any] = {
            "status": "running",
            **dict.fromkeys(MEASURED),
            "warnings": [],
            "alerts": [],
            "bad_records": {},
            **describe_machine(),
            **facts,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "process_started": process_started(os.getpid()),
        }
        self._earlier_s = 0.0  # wall time of earlier processes of the same run
        self._started_at = time.monotonic()
        self._written_at = -math.inf

    def warn(self, line: str) -> None:
        """Keep a warning in the card."""
        self.values["warnings"].append(line)

    @rank_zero_only
    def write(self, **values: Any) -> None:
        """Set ``values`` and write the card in one piece."""
        self.values.update(values)
        self.values["written_at"] = time.time()
        with written_whole(self.path) as temporary:
            text = json.dumps(_plain(self.values), indent=2, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
        self._written_at = time.monotonic()

    def finish(self, trainer: Trainer, measured: dict[str, Any]) -> None:
        """Write the final card from the metrics of the validation over the whole split."""
        final = {key: float(measured[name]) for name, key in FINAL.items() if name in measured}
        if "val_target_tokens" in final:
            final["val_target_tokens"] = int(final["val_target_tokens"])
        self._observe(trainer)
        self.write(status="finished", **final)

    def state_dict(self) -> dict[str, Any]:
        """What a run that is gone on with has to know of its earlier processes."""
        return {
            "wall_time_s": self._wall_time(),
            "best_val_loss_nats": self.values["best_val_loss_nats"],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up the earlier processes' time and best loss."""
        self._earlier_s = state_dict["wall_time_s"]
        self.values["best_val_loss_nats"] = state_dict["best_val_loss_nats"]

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The network exists by now: count its parameters, and tell the loggers."""
        n_parameters = sum(p.numel() for p in pl_module.parameters())
        self.write(n_parameters=n_parameters, steps=trainer.global_step)
        for logger in trainer.loggers:
            logger.log_hyperparams({"n_parameters": n_parameters})

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write when the card has become too old."""
        if time.monotonic() - self._written_at >= self.every_s:
            self._observe(trainer)
            self.write()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note the best loss so far."""
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        loss, best = _metric(trainer, "val/loss"), self.values["best_val_loss_nats"]
        if loss is not None and (best is None or loss < best):
            self.values["best_val_loss_nats"] = loss
        self._observe(trainer)
        self.write()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write what was reached; the final validation is still to come."""
        self._observe(trainer)
        self.write()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Say how the run ended."""
        stopped = isinstance(exception, (StopSignalError, KeyboardInterrupt, SIGTERMException))
        if not stopped:
            self.warn(f"{type(exception).__name__}: {exception}".splitlines()[0])
        self._observe(trainer)
        self.write(status="interrupted" if stopped else "failed")

    def _wall_time(self) -> float:
        return self._earlier_s + time.monotonic() - self._started_at

    def _observe(self, trainer: Trainer) -> None:
        """Read what the run shows at this moment."""
        values = self.values
        values["steps"] = trainer.global_step
        values["wall_time_s"] = round(self._wall_time(), 3)
        values["peak_memory_mib"] = round(peak_memory_mib(), 1)
        loss = _metric(trainer, "train/loss")
        if loss is not None:
            values["train_loss_nats"] = loss
        speed = throughput_of(trainer)
        if speed is not None:
            for name in ("tokens_seen", "tokens_per_s", "data_wait_share"):
                values[name] = getattr(speed, name)
        values["alerts"] = [
            {"name": alert.name, "step": alert.step, "where": alert.where, "text": alert.text}
            for alert in raised_in(trainer)
        ]
        values["bad_records"] = dict(getattr(trainer.datamodule, "bad_records", {}))  # type: ignore[attr-defined]


def throughput_of(trainer: Trainer) -> Any | None:
    """The callback that counts tokens, if there is one."""
    return next((c for c in trainer.callbacks if hasattr(c, "tokens_per_s")), None)  # type: ignore[attr-defined]


def _metric(trainer: Trainer, name: str) -> float | None:
    value = trainer.callback_metrics.get(name)
    return None if value is None else float(value)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
