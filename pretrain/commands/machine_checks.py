"""What ``pretrain doctor`` says of a machine, whatever is trained on it."""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from pretrain.commands.estimate import in_mib
from pretrain.data.files import default_cache_dir
from pretrain.diagnostics.peak_flops import measured_flops
from pretrain.errors import UserError
from pretrain.hardware import device_of, multiplies_bf16_fast, resolve_precision
from pretrain.runs.environment import describe_machine
from pretrain.runs.loggers import wandb_mode

_LITTLE_DISK = 2**30  # bytes
_WANDB_TIMEOUT_S = 5


class Finding(NamedTuple):
    """One line: how serious, about what, and what it is with its remedy."""

    level: Literal["ok", "warning", "fault"]
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.about}: {self.text}"


def checked(about: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a check; a user's mistake is a fault."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except UserError as error:
        found.append(Finding("fault", about, str(error)))
    return found


def machine_findings() -> list[Finding]:
    """Device, precision, several processes and Weights & Biases."""
    return [device(), precision(), processes(), weights_and_biases()]


def default_disks() -> list[Finding]:
    """Whether there is some room where runs and caches go by default."""
    return [
        disk("disk of runs_dir", Path("runs"), _LITTLE_DISK),
        disk("disk of cache_dir", default_cache_dir(), _LITTLE_DISK),
    ]


def device() -> Finding:
    """What would be trained on."""
    facts, kind = describe_machine(), device_of()
    n_devices = torch.cuda.device_count() if kind.type == "cuda" else 1
    free = free_memory(kind)
    memory = "" if free is None else f", {in_mib(free)} of memory free"
    text = (
        f"{n_devices} x {kind.type} ({facts['device']}), {facts['n_cpu_threads']} threads{memory}"
    )
    return Finding("ok", "device", text)


def precision() -> Finding:
    """What ``auto`` chooses here, and the rates of matrix products behind it."""
    kind = device_of()
    chosen = resolve_precision("auto")
    rates = {
        name: measured_flops(kind, dtype) / 1e9
        for name, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16))
    }
    shown = " and ".join(f"{rate:,.0f} GFLOP/s in {name}" for name, rate in rates.items())
    fast = "fast" if multiplies_bf16_fast(kind) else "not fast"
    return Finding("ok", "precision", f"auto is {chosen}, since bf16 is {fast} here: {shown}")


def disk(about: str, folder: Path, needed: int) -> Finding:
    """Whether ``needed`` bytes fit in ``folder``, which need not be there yet, and can be written.

    Room for less than twice as much is a warning: a long run has other files too.
    """
    there = folder.expanduser().absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding("fault", about, f"{there} can't be written to: name another folder")
    free = shutil.disk_usage(there).free
    text = f"{in_mib(free)} free in {there}, {in_mib(needed)} needed"
    if free < needed:
        return Finding("fault", about, f"{text}: free some, or name another folder")
    if free < 2 * needed:
        return Finding("warning", about, f"{text}: little is left for other files")
    return Finding("ok", about, text)


def processes() -> Finding:
    """Which backends could join several processes."""
    if not torch.distributed.is_available():
        return Finding("warning", "processes", "this torch trains in one process only")
    names = {
        "gloo": torch.distributed.is_gloo_available(),
        "nccl": torch.distributed.is_nccl_available(),
    }
    shown = ", ".join(name for name, is_there in names.items() if is_there) or "none"
    if torch.cuda.device_count() > 1 and not names["nccl"]:
        return Finding(
            "warning", "processes", f"several GPUs need nccl, and there is {shown}: install a "
            "torch that was built with it",
        )  # fmt: skip
    return Finding("ok", "processes", f"several can train together by {shown}")


def weights_and_biases() -> Finding:
    """Whether metrics go online, and if not why."""
    said: list[str] = []
    mode = wandb_mode(said.append)
    about = "wandb"
    if said:
        return Finding("warning", about, f"{said[0]} Check the login with `wandb login`.")
    if mode != "online":
        text = "disabled by WANDB_MODE" if mode == "disabled" else "offline, kept beside each run"
        return Finding("ok", about, f"{text}; after `wandb login`, `wandb sync` sends it")
    import wandb

    try:
        name = wandb.Api(timeout=_WANDB_TIMEOUT_S).viewer.username
    except Exception as error:  # of many kinds: no network, a wrong key, a server that is down
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Finding(
            "warning", about, f"there is a login, but the server does not answer ({reason}): runs "
            "are kept offline, and `wandb sync` sends them later",
        )  # fmt: skip
    return Finding("ok", about, f"online as {name}")


def free_memory(kind: torch.device) -> int | None:
    """Bytes that a process could take on one device now; None where the system does not say.

    Of a container the memory that its limit leaves.
    """
    if kind.type == "cuda":
        return torch.cuda.mem_get_info()[0]
    try:
        meminfo = Path("/proc/meminfo").read_text("utf-8")
        (line,) = (line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    except (OSError, ValueError):
        return None
    available = int(line.split()[1]) * 1024
    return min(available, *(_left_in_container() or (available,)))


def _left_in_container() -> list[int]:
    """What a control group's limit leaves, files kept in memory not counted; none without one."""
    base = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((base / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(line.split() for line in (base / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # not there, or "max"
        return []
    return [limit - used + int(stat.get("inactive_file", 0))]
