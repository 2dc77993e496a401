"""The machine and the versions that a run is made with."""

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only

from pretrain import __version__

_MIB = 2**20
_NAMED = ("torch", "lightning", "tokenizers", "datasets")


def is_first_rank() -> bool:
    """Whether this process is the only one, or the first of several."""
    return getattr(rank_zero_only, "rank", 0) == 0


def describe_machine() -> dict[str, Any]:
    """Device, versions and code version, in plain values for the run's card."""
    on_gpu = torch.cuda.is_available()
    cpu = torch.cpu.get_capabilities().get("cpu_name") or platform.processor()
    return {
        "device": torch.cuda.get_device_name() if on_gpu else cpu or platform.machine(),
        "n_cpu_threads": torch.get_num_threads(),
        "versions": {
            "pretrain": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _NAMED},
        },
        "code_version": code_version(),
    }


@cache
def code_version() -> str | None:
    """The git commit of the checkout that this code runs from, ``+`` when it was changed since."""
    home = Path(__file__).parents[2]
    if not (home / ".git").exists():
        return None
    commit = _git(home, "rev-parse", "--short=12", "HEAD")
    changed = _git(home, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if commit and changed else commit


def peak_memory_mib() -> float:
    """The most memory this process has held: on the GPU where there is one, else resident."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / _MIB
    import resource  # not on every system

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / _MIB if platform.system() == "Darwin" else peak / 1024


def _git(home: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(home), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
