import json
import shutil
import sqlite3

import pytest

from pretrain.runs.folder import RunFolder
from pretrain.runs.metrics_file import MetricsFile
from pretrain.runs.samples_file import append
from pretrain.runs.trackio_database import FOLDER, PROJECT
from pretrain.runs.trackio_import import bring_in


@pytest.fixture
def run(tmp_path):
    """A run of two steps, made without Trackio."""
    folder = RunFolder(tmp_path / "one")
    folder.path.mkdir()
    log = MetricsFile(folder.metrics)
    log.log_metrics({"val/loss": 2.0, "time/seconds": 10.0}, 50)
    log.log_metrics({"train/loss": float("inf")}, 100)
    folder.config.write_text("model: {lr: 0.02}\n")
    alert = {"name": "heads_alike", "step": 50, "where": "", "text": "Two heads."}
    folder.card.write_text(json.dumps({"status": "finished", "alerts": [alert]}))
    append(folder.samples, [{"step": 50, "prompt": "It", "greedy": " was"}])
    return folder


def held(tmp_path, table="metrics", columns="run_name, step, metrics"):
    with sqlite3.connect(tmp_path / FOLDER / f"{PROJECT}.db") as connection:
        return connection.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall()


def test_a_run_is_read_from_its_own_files(run, tmp_path):
    assert bring_in(tmp_path) == ["one"]
    rows = [(name, step, json.loads(items)) for name, step, items in held(tmp_path)]
    table = {"_type": "trackio.table", "_value": [{"prompt": "It", "greedy": " was"}]}
    assert rows == [
        ("one", 50, {"val/loss": 2.0, "time/seconds": 10.0}),
        ("one", 100, {"train/loss": "Infinity"}),
        ("one", 50, {"samples/texts": table}),
    ]
    assert json.loads(held(tmp_path, "configs", "config")[0][0]) == {"model": {"lr": 0.02}}
    assert held(tmp_path, "alerts", "title, text, step") == [("Heads alike", "Two heads.", 50)]


def test_only_what_has_changed_is_read_again(run, tmp_path):
    bring_in(tmp_path)
    first = held(tmp_path, columns="id")
    bring_in(tmp_path)
    assert held(tmp_path, columns="id") == first
    MetricsFile(run.metrics).log_metrics({"val/loss": 1.0}, 150)
    bring_in(tmp_path)
    assert sorted(step for _, step, _ in held(tmp_path)) == [50, 50, 100, 150]
    assert len(held(tmp_path, "alerts", "id")) == 1


def test_a_run_whose_folder_is_gone_is_forgotten(run, tmp_path):
    bring_in(tmp_path)
    shutil.rmtree(run.path)
    assert bring_in(tmp_path) == []
    assert held(tmp_path) == []


def test_a_run_that_is_being_trained_logs_by_itself(run, tmp_path, monkeypatch):
    bring_in(tmp_path)
    monkeypatch.setattr(
        "pretrain.runs.trackio_import.read_card", lambda path: {"status": "running"}
    )
    MetricsFile(run.metrics).log_metrics({"val/loss": 1.0}, 150)
    bring_in(tmp_path)
    assert max(step for _, step, _ in held(tmp_path)) == 100
