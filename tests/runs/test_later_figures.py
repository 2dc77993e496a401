import json
import os

import pytest
from wandb_runs import history

from pretrain.runs import loggers
from pretrain.runs.card_reader import process_started
from pretrain.runs.folder import RunFolder
from pretrain.runs.later_figures import log_to_run
from pretrain.runs.loggers import SafeWandbLogger


@pytest.fixture(autouse=True)
def _no_login(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def folder(tmp_path):
    """A finished run with a W&B run of its own."""
    folder = RunFolder(tmp_path / "run")
    folder.checkpoints.mkdir(parents=True)
    logger = SafeWandbLogger(folder, offline=True, note=print)
    logger.log_metrics({"val/loss": 2.0}, step=7)
    logger.close()
    return folder


def test_figures_are_found_under_the_runs_own_id(folder):
    notes: list[str] = []
    assert log_to_run(folder.best, {"eval/blimp/accuracy": 0.6}, 7, notes.append) == folder
    assert notes == []
    files = list(folder.path.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    assert len({file.name for file in files}) == 1
    rows = [row["item"] for row in history(folder.path)]
    assert rows[-1]["eval/blimp/accuracy"] == 0.6
    assert rows[-1]["trainer/global_step"] == 7


def test_without_a_wandb_run_nothing_is_written(tmp_path, folder, monkeypatch):
    lone = tmp_path / "model.ckpt"
    assert log_to_run(lone, {"a": 1.0}, 0, pytest.fail) is None
    assert not (tmp_path / "wandb").exists()
    before = sorted(folder.path.rglob("*"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert log_to_run(folder.best, {"a": 1.0}, 0, pytest.fail) is None
    assert sorted(folder.path.rglob("*")) == before


def test_figures_go_to_the_run_that_is_named_and_to_no_linked_one(folder, tmp_path):
    copy = tmp_path / "copy" / "checkpoints" / "best.ckpt"
    copy.parent.mkdir(parents=True)
    folder.best.touch()
    copy.symlink_to(folder.best)
    assert log_to_run(copy, {"a": 1.0}, 0, pytest.fail) is None
    assert len(list(folder.path.glob("wandb/offline-run-*"))) == 1


@pytest.mark.parametrize("failure", [OSError("disk full\nmore"), RuntimeError()])
def test_a_failure_is_told_in_one_line(folder, monkeypatch, failure):
    def fail(options):
        raise failure

    monkeypatch.setattr(loggers, "_init", fail)
    notes: list[str] = []
    assert log_to_run(folder.best, {"a": 1.0}, 0, notes.append) is None
    reason = "disk full" if str(failure) else "RuntimeError"
    assert notes == [f"The figures are not in the run's Weights & Biases: {reason}."]


def test_a_run_that_is_being_trained_is_left_alone(folder):
    card = {
        "status": "running", "pid": os.getpid(), "host": os.uname().nodename,
        "process_started": process_started(os.getpid()),
    }  # fmt: skip
    folder.card.write_text(json.dumps(card))
    notes: list[str] = []
    assert log_to_run(folder.best, {"a": 1.0}, 0, notes.append) is None
    assert "being trained at this moment" in notes[0]
    assert len(list(folder.path.glob("wandb/offline-run-*"))) == 1
