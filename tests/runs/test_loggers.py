import pytest
import wandb
from wandb_runs import history

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
