import os
import signal
import threading

import pytest

from pretrain.runs.stop_signals import SIGNALS, StopSignals, requeue_job


def _handlers():
    return [signal.getsignal(signum) for signum in SIGNALS]


@pytest.fixture
def signals():
    signals = StopSignals()
    signals.install()
    yield signals
    signals.restore()


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_is_noted_and_nothing_else_happens(signals, signum):
    os.kill(os.getpid(), signum)
    assert signals.received == {**dict.fromkeys(SIGNALS, 0), signum: 1}


def test_a_second_ctrl_c_stops_at_once(signals, capfd):
    os.kill(os.getpid(), signal.SIGINT)
    assert "Ctrl-C again" in capfd.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_that_stood_before_come_back():
    before = _handlers()
    signals = StopSignals()
    signals.install()
    assert all(now != then for now, then in zip(_handlers(), before, strict=True))
    signals.install()  # once more changes nothing
    signals.restore()
    assert _handlers() == before


def test_outside_the_main_thread_nothing_is_installed():
    before = _handlers()
    thread = threading.Thread(target=StopSignals().install)
    thread.start()
    thread.join()
    assert _handlers() == before


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A machine whose ``scontrol`` writes down what it is asked."""
    script = tmp_path / "scontrol"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", "books")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    return tmp_path


def test_a_batch_job_is_queued_again(cluster, capsys):
    assert requeue_job()
    assert (cluster / "asked").read_text() == "requeue 4711\n"
    assert "4711" in capsys.readouterr().out


def test_of_a_job_array_only_this_task_is(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "99")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert requeue_job()
    assert (cluster / "asked").read_text() == "requeue 99_3\n"


def test_a_shell_inside_a_job_is_not(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    assert not requeue_job()
    assert not (cluster / "asked").exists()


def test_without_slurm_there_is_nothing_to_queue(monkeypatch):
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    assert not requeue_job()
