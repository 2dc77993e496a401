"""The callbacks and loggers that every run gets; those that a user gives come beside them."""

from collections.abc import Callable, Sequence

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.loggers import Logger

from pretrain.diagnostics import (
    SYMPTOMS,
    Alerts,
    ForwardProbe,
    LossLevel,
    StepObserver,
    Throughput,
)
from pretrain.runs.card import RunCard
from pretrain.runs.checkpoints import KeptCheckpoints, LastCheckpoint, best_checkpoint
from pretrain.runs.folder import RunFolder
from pretrain.runs.loggers import SafeWandbLogger, wandb_mode
from pretrain.runs.metrics_file import MetricsFile
from pretrain.runs.probe_pictures import ProbePictures
from pretrain.runs.progress import RunProgress
from pretrain.runs.run_files import RunFiles
from pretrain.runs.samples import Samples
from pretrain.runs.trackio_logger import TrackioLogger, has_trackio
from pretrain.runs.validation_schedule import ValidationSchedule


def run_callbacks(
    folder: RunFolder,
    files: RunFiles,
    card: RunCard,
    schedule: ValidationSchedule,
    given: Sequence[Callback] = (),
    show_progress: bool = True,
    keep_checkpoints: bool = True,
    keep_every: int | None = None,
) -> list[Callback]:
    """Our defaults, then ``given``: one of the same class takes the place of the default."""
    ours: list[Callback] = [
        Throughput(), ForwardProbe(), StepObserver(), LossLevel(), Alerts(SYMPTOMS), schedule,
        files, card, Samples(), ProbePictures(folder=folder.pictures),
    ]  # fmt: skip
    if show_progress and not any(isinstance(callback, ProgressBar) for callback in given):
        ours.append(RunProgress())
    replaced = {type(callback) for callback in given}
    ours = [callback for callback in ours if type(callback) not in replaced]
    if keep_checkpoints:
        ours += [KeptCheckpoints(folder, keep_every)] if keep_every else []
        ours += [best_checkpoint(folder), LastCheckpoint(folder.last)]
    return [*ours, *given]


def run_loggers(
    folder: RunFolder, given: Sequence[Logger] | bool | None, note: Callable[[str], None]
) -> list[Logger]:
    """``metrics.csv``; beside it W&B and, where its package is there, Trackio.

    Both are left out where loggers are given or switched off (False).
    """
    loggers: list[Logger] = [MetricsFile(folder.metrics)]
    if isinstance(given, Sequence):
        return [*loggers, *given]
    mode = wandb_mode(note) if given is not False else "disabled"
    if mode != "disabled":
        loggers.append(SafeWandbLogger(folder, offline=mode == "offline", note=note))
    if given is not False and has_trackio():
        loggers.append(TrackioLogger(folder, note))
    return loggers
