import json
import os
import sqlite3
import subprocess
import sys

import pytest

from pretrain.runs.folder import RunFolder
from pretrain.runs.trackio_database import FOLDER, PROJECT
from pretrain.runs.trackio_logger import TrackioLogger

# What Trackio itself makes of the file, in a process of its own: it stays with one folder.
READ = """
import json
from trackio.sqlite_storage import SQLiteStorage as storage
storage.migrate_all_projects()
print(json.dumps({
    "projects": storage.get_projects(),
    "runs": storage.get_runs("pretrain"),
    "logs": storage.get_logs("pretrain", "one"),
    "config": storage.get_run_config("pretrain", "one"),
    "alerts": storage.get_alerts("pretrain"),
    "tabs": storage.get_tab_availability_flags("pretrain"),
}))
"""


@pytest.fixture
def start(tmp_path):
    """Starts the run ``one`` anew; what it complains of is in ``start.notes``."""
    (tmp_path / "one").mkdir()

    def make():
        return TrackioLogger(RunFolder(tmp_path / "one"), make.notes.append)

    make.notes = []
    return make


def rows(tmp_path):
    with sqlite3.connect(tmp_path / FOLDER / f"{PROJECT}.db") as connection:
        found = connection.execute("SELECT step, metrics FROM metrics ORDER BY id").fetchall()
    return [(step, json.loads(items)) for step, items in found]


def test_trackio_reads_series_configuration_alerts_tables_and_pictures(start, tmp_path):
    logger = start()
    logger.log_hyperparams({"model": {"network": {"n_layers": 4}, "betas": [0.8, 0.95]}})
    logger.log_metrics({"val/loss": 1.5, "grad/norm": float("nan")}, step=10)
    logger.alert("Heads alike", "Two heads look at the same tokens.")
    logger.log_table("samples/texts", ["prompt", "greedy"], [["It was", "a <night>"]], step=10)
    logger.log_html("pictures/entropy", "<svg></svg>", step=20)
    logger.finalize("success")
    logger.finalize("success")  # as Lightning does, once for the fit and once for the validation
    logger.log_metrics({"final/val/loss": 1.25}, step=20)
    logger.close()
    assert start.notes == []
    shown = subprocess.run(
        [sys.executable, "-c", READ], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "TRACKIO_DIR": str(tmp_path / FOLDER)},
    )  # fmt: skip
    held = json.loads(shown.stdout)
    assert (held["projects"], held["runs"]) == (["pretrain"], ["one"])
    series, table, picture, final = held["logs"]
    assert (series["step"], series["val/loss"]) == (10, 1.5)
    assert series["grad/norm"] != series["grad/norm"]  # NaN
    assert table["samples/texts"]["_value"] == [{"prompt": "It was", "greedy": "a <night>"}]
    file = tmp_path / FOLDER / "media" / picture["pictures/entropy"]["file_path"]
    assert "<svg></svg>" in file.read_text()
    assert final["final/val/loss"] == 1.25
    assert held["config"] == {"model": {"network": {"n_layers": 4}, "betas": [0.8, 0.95]}}
    (alert,) = held["alerts"]
    assert (alert["title"], alert["run"], alert["step"]) == ("Heads alike", "one", 10)
    assert {name for name, is_there in held["tabs"].items() if is_there} == {
        "metrics", "media", "alerts",
    }  # fmt: skip


def test_a_run_that_goes_on_is_the_same_run_without_the_steps_after_the_checkpoint(start, tmp_path):
    first = start()
    for step in (50, 100, 150):
        first.log_metrics({"train/loss": float(step)}, step)
        first.log_html("pictures/entropy", "<svg></svg>", step)
    first.alert("Loss stuck", "At 150.")  # and then the process is killed
    second = start()
    second.cut_back(100)
    second.log_metrics({"train/loss": 1.0}, 150)
    second.close()
    steps = [(step, items["train/loss"]) for step, items in rows(tmp_path) if "train/loss" in items]
    assert steps == [(50, 50.0), (100, 100.0), (150, 1.0)]
    media = tmp_path / FOLDER / "media" / PROJECT / "one"
    assert {folder.name for folder in media.iterdir()} == {"50", "100"}


def test_a_run_that_begins_keeps_nothing_of_a_deleted_one_of_its_name(start, tmp_path):
    start().log_metrics({"train/loss": 1.0}, 0)
    start().cut_back(0)
    assert rows(tmp_path) == []


def test_a_failure_is_told_once_and_stops_nothing(start, tmp_path):
    (tmp_path / FOLDER).write_text("no folder")
    logger = start()
    logger.cut_back(0)
    for step in (1, 2):
        logger.log_metrics({"train/loss": 1.0}, step)
    logger.alert("Heads alike", "")
    logger.close()
    (note,) = start.notes
    assert note.startswith("Trackio failed, and metrics go to metrics.csv only")


def test_a_damaged_database_is_told_once_and_stops_nothing(start, tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / f"{PROJECT}.db").write_bytes(b"no database" * 100)
    logger = start()
    logger.log_metrics({"train/loss": 1.0}, 1)
    logger.log_metrics({"train/loss": 1.0}, 2)
    assert len(start.notes) == 1
