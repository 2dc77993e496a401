import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from pretrain.commands import dashboard
from pretrain.errors import UserError
from pretrain.runs.folder import RunFolder
from pretrain.runs.metrics_file import MetricsFile


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "one").mkdir()
    MetricsFile(RunFolder(tmp_path / "one").metrics).log_metrics({"val/loss": 2.0}, 50)
    return tmp_path


def test_it_says_where_it_is_serves_this_machine_and_ends_on_ctrl_c(runs):
    process = subprocess.Popen(
        [sys.executable, "-m", "pretrain", "dashboard", str(runs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+", line)
        assert address is not None
        with urllib.request.urlopen(address[0], timeout=30) as page:
            assert b"<html" in page.read()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, rest, errors) == (0, "", "")


def test_without_trackio_one_sentence_says_how_to_get_it(runs, monkeypatch):
    monkeypatch.setattr("pretrain.runs.trackio_logger.has_trackio", lambda: False)
    with pytest.raises(UserError, match=r"pip install .*pretrain\[dashboard\]"):
        dashboard.run([str(runs)])


def test_a_folder_without_runs_is_told(tmp_path):
    with pytest.raises(UserError, match="There is no run in"):
        dashboard.run([str(tmp_path)])
    with pytest.raises(UserError, match="is no folder"):
        dashboard.run([str(tmp_path / "nowhere")])
