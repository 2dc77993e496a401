"""Several processes of one run end together, and say once what went wrong."""

import atexit
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from lightning.fabric.utilities.distributed import _set_num_threads_if_needed
from lightning.pytorch import Trainer
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from torch.distributed.distributed_c10d import _get_default_store

from pretrain.errors import UserError
from pretrain.runs.stop_signals import StopSignalError

_MAIN_PROCESS = "PRETRAIN_MAIN_PROCESS"  # which started this one
_POLL_S = 0.2
_GRACE_S = 5.0  # for a process to end by itself, once another one has failed
_LOST = re.compile(
    r"connection (?:closed|reset|refused|was likely closed)|broken pipe|gloo/transport"
    r"|remote process exited|NCCL|failed to connect|socket",
    re.IGNORECASE,
)


class WatchedLauncher(_SubprocessScriptLauncher):
    """Lightning's launcher of the other ranks, with another watch over them.

    Lightning looks every five seconds and then kills the main process, which so ends with status
    137 and can't say why. Here it may end by itself, with its own message and status 1.
    """

    _is_ending = False

    def launch(
        self, function: Callable, *args: Any, trainer: Trainer | None = None, **kwargs: Any
    ) -> Any:
        """Start the other ranks, then call ``function``."""
        environment = self.cluster_environment
        environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        if not environment.creates_processes_externally:
            os.environ[_MAIN_PROCESS] = str(os.getpid())
            self._call_children_scripts()
            atexit.register(self._end)
            threading.Thread(target=self._watch, daemon=True).start()
        _set_num_threads_if_needed(num_processes=self.num_processes)
        return function(*args, **kwargs)

    def kill(self, signum: Any) -> None:
        """End the other ranks by a signal, which is no news then."""
        self._is_ending = True
        super().kill(signum)

    def _watch(self) -> None:
        while not self._is_ending:
            codes = [process.poll() for process in self.procs]
            failed = [(rank, code) for rank, code in enumerate(codes, start=1) if code]
            if failed or all(code == 0 for code in codes):
                break
            time.sleep(_POLL_S)
        else:
            return
        if not failed:
            return
        rank, code = failed[0]
        if code < 0:  # else it has said so itself
            name = signal.Signals(-code).name
            hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
            print(f"pretrain: rank {rank} was ended by {name}{hint}.", file=sys.stderr, flush=True)
        time.sleep(_GRACE_S)
        # The main thread waits for a process that is no more.
        self._end(grace_s=0.0)
        os._exit(1)

    def _end(self, grace_s: float = _GRACE_S) -> None:
        """Leave no process behind."""
        self._is_ending = True
        until = time.monotonic() + grace_s
        for process in self.procs:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def watch_over_ranks(trainer: Trainer) -> None:
    """Let ``trainer``'s processes end together, whichever of them ends first."""
    launcher = trainer.strategy.launcher
    if type(launcher) is _SubprocessScriptLauncher:
        watched = WatchedLauncher(
            launcher.cluster_environment, launcher.num_processes, launcher.num_nodes
        )
        trainer.strategy._launcher = watched
    main = os.environ.get(_MAIN_PROCESS)
    if main is not None and int(main) == os.getppid():
        threading.Thread(target=_follow, args=(int(main),), daemon=True).start()


def _follow(main: int) -> None:
    """End this process soon after the main one, which alone knows how to end it well."""
    while os.getppid() == main:
        time.sleep(_POLL_S)
    time.sleep(_GRACE_S)
    os._exit(1)


@contextmanager
def one_voice() -> Iterator[None]:
    """Within this block an error is said by the rank that it befell first, with its own message.

    The other ranks lose their connection to it, or make the same mistake; they end with status 1
    and at most one sentence.
    """
    try:
        yield
    except Exception as error:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        if not several or isinstance(error, StopSignalError):
            raise
        is_lost = not isinstance(error, UserError) and bool(_LOST.search(str(error)))
        first = None if is_lost else _first_error(f"{type(error).__name__}: {error}")
        if is_lost:
            print(
                f"pretrain: rank {dist.get_rank()} lost the connection to another process, whose "
                "message tells why.",
                file=sys.stderr,
            )
        elif first is None or first == dist.get_rank():
            raise
        raise SystemExit(1) from error


def _first_error(text: str) -> int | None:
    """The rank that had the error ``text`` first; None where it can't be asked any more."""
    key = f"pretrain/error/{text[:200]}"
    try:
        return int(_get_default_store().compare_set(key, "", str(dist.get_rank())))
    except RuntimeError:  # the process that keeps the store has gone
        return None
