import os
import subprocess
import sys
from pathlib import Path

import pytest
import wandb
from wandb_runs import alerts, config, history, pages, tables
from wandb_server import WandbServer

from pretrain.runs import loggers
from pretrain.runs.folder import RunFolder
from pretrain.runs.loggers import SafeWandbLogger, wandb_mode


@pytest.fixture(autouse=True)
def _no_login(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


@pytest.fixture
def server(monkeypatch):
    """A server that this process is logged in to; what it does not answer is soon given up."""
    wandb.teardown()  # the process of an earlier test knows another server
    server = WandbServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setattr(loggers, "INIT_TIMEOUT_S", 3.0)
    monkeypatch.setattr(loggers, "FINISH_TIMEOUT_S", 3.0)
    yield server
    server.stop()
    wandb.teardown()


def test_without_a_login_metrics_stay_on_this_machine():
    notes: list[str] = []
    assert wandb_mode(notes.append) == "offline"
    assert notes == []


def test_with_a_login_they_are_sent(monkeypatch):
    monkeypatch.setattr(wandb, "login", lambda **kwargs: True)
    assert wandb_mode(print) == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert wandb_mode(print) == "disabled"


def test_a_login_that_fails_is_told_and_does_not_stop_a_run(monkeypatch):
    def fail(**kwargs):
        raise wandb.errors.AuthenticationError("bad key")

    notes: list[str] = []
    monkeypatch.setattr(wandb, "login", fail)
    assert wandb_mode(notes.append) == "offline"
    assert notes == ["Weights & Biases stays offline, since the login failed: bad key"]


def test_an_offline_run_can_be_read_and_keeps_its_id_across_starts(folder):
    notes: list[str] = []
    for start in (1, 2):
        logger = SafeWandbLogger(folder, offline=True, note=notes.append)
        logger.log_hyperparams({"n_parameters": 7})
        logger.log_metrics({"val/loss": float(start)}, step=start)
        logger.close()
    runs = sorted((folder.path / "wandb").glob("offline-run-*"))
    files = [file for run in runs for file in run.glob("*.wandb")]
    assert len({file.name for file in files}) == 1
    assert len(files) == len(runs)
    assert notes == []
    logged = [row["item"] for row in history(folder.path)]
    assert [(row["trainer/global_step"], row["val/loss"]) for row in logged] == [(1, 1.0), (2, 2.0)]


def test_an_offline_run_holds_configuration_alerts_tables_and_pictures(folder):
    notes: list[str] = []
    logger = SafeWandbLogger(folder, offline=True, note=notes.append)
    logger.log_hyperparams({"model": {"lr": 0.02}, "n_parameters": 7})
    logger.alert("Heads alike", "Two heads look at the same tokens in layer 0.")
    rows = [["It was", "a dark <night> | \u00e4"], ["She", "went"]]
    logger.log_table("samples/greedy", ["prompt", "text"], rows, step=10)
    logger.log_html("pictures/entropy", "<svg></svg>", step=20)
    logger.close()
    assert notes == []
    assert config(folder.path) == {"model": {"lr": 0.02}, "n_parameters": 7}
    (alert,) = alerts(folder.path)
    assert alert["title"] == "Heads alike"
    assert alert["text"] == "Two heads look at the same tokens in layer 0."
    (table,) = tables(folder.path)
    assert (table["name"], table["step"]) == ("samples/greedy", 10)
    assert (table["columns"], table["data"]) == (["prompt", "text"], rows)
    assert pages(folder.path) == [{"name": "pictures/entropy", "step": 20, "text": "<svg></svg>"}]


def test_a_start_that_fails_online_goes_on_offline_with_one_line(folder, monkeypatch):
    modes, notes = [], []

    def init(options):
        modes.append(options["mode"])
        if options["mode"] == "online":
            raise TimeoutError("no network\nmany lines")
        return loggers.DummyExperiment()

    monkeypatch.setattr(loggers, "_init", init)
    logger = SafeWandbLogger(folder, offline=False, note=notes.append)
    logger.log_metrics({"a": 1.0}, step=1)
    assert modes == ["online", "offline"]
    assert notes == ["Weights & Biases could not start online: no network"]


def test_a_failure_in_the_middle_of_a_run_does_not_stop_it(folder, monkeypatch):
    class Broken:
        def log(self, metrics):
            raise ConnectionError("gone")

        def finish(self):
            raise ConnectionError("gone")

    notes: list[str] = []
    monkeypatch.setattr(loggers, "_init", lambda options: Broken())
    logger = SafeWandbLogger(folder, offline=True, note=notes.append)
    logger.log_metrics({"a": 1.0}, step=1)
    logger.log_metrics({"a": 1.0}, step=2)
    logger.close()
    assert len(notes) == 1
    assert "metrics.csv" in notes[0]


def test_one_run_of_the_server_across_starts(folder, server):
    notes: list[str] = []
    assert wandb_mode(notes.append) == "online"
    for start in (1, 2):
        logger = SafeWandbLogger(folder, offline=False, note=notes.append)
        logger.log_metrics({"val/loss": float(start)}, step=start)
        logger.close()
    assert notes == []
    assert len(set(server.runs)) == 1
    assert [row["val/loss"] for row in server.rows] == [1.0, 2.0]


def test_a_server_that_is_lost_stops_nothing_and_loses_nothing(folder, server, monkeypatch):
    notes: list[str] = []
    logger = SafeWandbLogger(folder, offline=False, note=notes.append)
    logger.log_metrics({"val/loss": 1.0}, step=1)
    server.stop()
    logger.log_metrics({"val/loss": 2.0}, step=2)
    logger.close()
    assert len(notes) == 1
    assert "wandb sync --include-online" in notes[0]
    logged = [row["item"]["val/loss"] for row in history(folder.path)]
    assert logged == [1.0, 2.0]
    later = WandbServer()
    (kept,) = (folder.path / "wandb").glob("run-*")
    subprocess.run(
        [str(Path(sys.executable).with_name("wandb")), "sync", "--include-online", str(kept)],
        env={**os.environ, "WANDB_BASE_URL": later.url}, timeout=120, check=True,
        capture_output=True,
    )  # fmt: skip
    later.stop()
    assert [row["val/loss"] for row in later.rows] == [1.0, 2.0]
    assert set(later.runs) == {(folder.path / loggers.ID_FILE).read_text().strip()}


def test_a_server_that_is_gone_at_the_start_leaves_the_run_offline(folder, server):
    notes: list[str] = []
    server.stop()
    logger = SafeWandbLogger(folder, offline=False, note=notes.append)
    logger.log_metrics({"val/loss": 1.0}, step=1)
    logger.close()
    assert len(notes) == 1
    assert notes[0].startswith("Weights & Biases could not start online")
    assert "val/loss" in history(folder.path)[-1]["item"]
