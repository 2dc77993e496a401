from lightning.pytorch.callbacks import LearningRateMonitor

from pretrain.diagnostics import ForwardProbe
from pretrain.runs.callbacks import run_callbacks, run_loggers
from pretrain.runs.card import RunCard
from pretrain.runs.checkpoints import LastCheckpoint
from pretrain.runs.folder import RunFolder
from pretrain.runs.loggers import SafeWandbLogger
from pretrain.runs.metrics_file import MetricsFile
from pretrain.runs.progress import RunProgress
from pretrain.runs.run_files import RunFiles
from pretrain.runs.trackio_logger import TrackioLogger
from pretrain.runs.validation_schedule import ValidationSchedule


def _callbacks(tmp_path, **options):
    folder = RunFolder(tmp_path)
    files = RunFiles(folder, lambda uses_cache: "", {})
    return run_callbacks(folder, files, RunCard(folder.card, {}), ValidationSchedule(), **options)


def test_given_callbacks_come_beside_ours(tmp_path):
    given = LearningRateMonitor()
    callbacks = _callbacks(tmp_path, given=[given])
    assert given in callbacks
    assert any(isinstance(callback, ForwardProbe) for callback in callbacks)


def test_a_given_callback_of_the_same_class_takes_the_place_of_ours(tmp_path):
    given = ForwardProbe()
    callbacks = _callbacks(tmp_path, given=[given])
    assert [c for c in callbacks if isinstance(c, ForwardProbe)] == [given]


def test_progress_and_checkpoints_can_be_switched_off(tmp_path):
    callbacks = _callbacks(tmp_path, show_progress=False, keep_checkpoints=False)
    assert not any(isinstance(c, (RunProgress, LastCheckpoint)) for c in callbacks)


def test_metrics_are_always_kept_and_trackers_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder, notes = RunFolder(tmp_path), []
    assert [type(log) for log in run_loggers(folder, None, notes.append)] == [
        MetricsFile,
        SafeWandbLogger,
        TrackioLogger,
    ]
    assert [type(log) for log in run_loggers(folder, False, notes.append)] == [MetricsFile]
    own = MetricsFile(tmp_path / "own.csv")
    assert run_loggers(folder, [own], notes.append)[1:] == [own]
