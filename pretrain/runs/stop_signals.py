"""Signals that a run gets from outside wait for the end of the optimizer step."""

import os
import signal
import subprocess
import threading
from typing import Any

from lightning.fabric.plugins.environments import SLURMEnvironment

from pretrain.runs.console import say
from pretrain.runs.environment import is_first_rank

STOPPING = (signal.SIGTERM, signal.SIGINT)
# SLURM sends it some time before the end of a job (`sbatch --signal=SIGUSR1@90`), a person at will.
SAVING = signal.SIGUSR1
SIGNALS = (*STOPPING, SAVING)


class StopSignalError(Exception):
    """The run was told to end, and has written its last complete step."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class StopSignals:
    """Handlers that only note which signal came; whoever trains looks at the end of each step.

    Lightning's own handler of SIGTERM talks to the other ranks from inside the handler, where they
    don't listen; it is put out of use as long as ours stand.

    Attributes:
        received: How often each of `SIGNALS` came since the handlers stand or were asked.
    """

    def __init__(self) -> None:
        self.received = dict.fromkeys(SIGNALS, 0)
        self._before: dict[int, Any] = {}
        self._unguarded: Any = None  # what stood before `guard`

    def guard(self) -> None:
        """Keep SIGUSR1 from ending the process before the first step and after the last.

        All that could be saved then is saved. Lightning's own handler, which would write a file of
        its own in a SLURM job, stays away where another one stands.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(SAVING) is signal.SIG_DFL:
            self._unguarded = signal.getsignal(SAVING)
            signal.signal(SAVING, _outside_training)

    def release(self) -> None:
        """Take back what `guard` did."""
        if self._unguarded is not None:
            signal.signal(SAVING, self._unguarded)
        self._unguarded = None

    def install(self) -> None:
        """Put the handlers in place, in the main thread; elsewhere Python allows none."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for signum in SIGNALS:
            self._before[signum] = signal.getsignal(signum)
            signal.signal(signum, self._note)

    def restore(self) -> None:
        """Put the handlers back that stood before."""
        for signum, handler in self._before.items():
            if handler is not None:  # one that was not set from Python
                signal.signal(signum, handler)
        self._before.clear()

    def _note(self, signum: int, frame: Any) -> None:
        self.received[signal.Signals(signum)] += 1
        if signum == signal.SIGINT:
            if is_first_rank():  # print is not for handlers: they may interrupt another print
                os.write(2, b"\nStopping after this step; Ctrl-C again stops at once.\n")
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _outside_training(signum: int, frame: Any) -> None:
    if requeue_job():
        raise StopSignalError(signum)


def requeue_job() -> bool:
    """Ask SLURM to start this job again; whether this process belongs to a batch job.

    Lightning's handler would do so too, but the checkpoint file that it writes takes precedence
    over any newer one at each later start.
    """
    if not SLURMEnvironment.detect():
        return False
    job = os.environ.get("SLURM_JOB_ID", "")
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        job = f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    if is_first_rank():
        asked = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True)
        say(f"SLURM job {job}: {asked.stderr.strip() or 'queued again, to go on from here'}")
    return True
