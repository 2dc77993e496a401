"""Which arithmetic this machine is fast in.

Reduced precision is a gift on some processors and a disaster on others: a bfloat16 product was
measured 4 times faster than float32 on one CPU and 115 times slower on another of the same name.
So the machine is asked, or one small product is timed; nothing is assumed.
"""

import time
from functools import cache

import torch

_SIZE = 256  # 26 ms for one product on the slowest CPU measured, 0.2 ms on a fast one
_TIMING_S, _FEWEST_ROUNDS = 0.1, 4


@cache
def multiplies_bf16_fast(device: torch.device) -> bool:
    """Whether ``device`` multiplies bfloat16 matrices at least as fast as float32 ones."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return _cpu_multiplies_fast(torch.bfloat16, ("avx512_bf16", "amx_bf16"))
    return False


@cache
def multiplies_fp16_fast(device: torch.device) -> bool:
    """Whether ``device`` multiplies float16 matrices at least as fast as float32 ones."""
    if device.type == "cpu":
        return _cpu_multiplies_fast(torch.float16, ("avx512_fp16", "amx_fp16"))
    return device.type in ("cuda", "mps")


def device_of(accelerator: str = "auto") -> torch.device:
    """The kind of device that Lightning takes for an ``accelerator`` option."""
    if accelerator in ("gpu", "cuda", "mps", "auto"):
        if accelerator != "mps" and torch.cuda.is_available():
            return torch.device("cuda")
        if accelerator != "cuda" and torch.backends.mps.is_available():
            return torch.device("mps")
    return torch.device("cpu")


def resolve_precision(precision: str, accelerator: str = "auto") -> str:
    """Lightning's name for the precision to train in; ``"auto"`` is decided by the device.

    ``auto`` is ``bf16-mixed`` where the device multiplies bfloat16 in hardware, else ``16-mixed``
    on a GPU and ``32-true`` on a CPU. Any other name is returned as it is.
    """
    if precision != "auto":
        return precision
    device = device_of(accelerator)
    if multiplies_bf16_fast(device):
        return "bf16-mixed"
    return "32-true" if device.type == "cpu" else "16-mixed"


def use_tensor_cores(precision: str, accelerator: str = "auto") -> None:
    """Let float32 products of a GPU run in TF32 where a run computes in float32 throughout.

    In the mixed precisions float32 products are those of reported losses, which stay exact.
    """
    if precision == "32-true" and device_of(accelerator).type == "cuda":
        torch.set_float32_matmul_precision("high")


def slow_precision_warning(precision: str, accelerator: str = "auto") -> str | None:
    """One sentence when ``precision`` was asked for by name and this device is slow in it."""
    device = device_of(accelerator)
    kind, _, _ = precision.partition("-")
    is_slow = (kind == "bf16" and not multiplies_bf16_fast(device)) or (
        kind == "16" and not multiplies_fp16_fast(device)
    )
    if not is_slow:
        return None
    better = resolve_precision("auto", accelerator)
    return (
        f"trainer.precision {precision} is slow here, since this {device.type} does not multiply "
        f"{'bfloat16' if kind == 'bf16' else 'float16'} in hardware; {better} is the fast choice."
    )


def _cpu_multiplies_fast(dtype: torch.dtype, flags: tuple[str, ...]) -> bool:
    """Ask the processor, then time one small product, which has the last word in clear cases.

    The bounds lie far from what was measured on either kind (ratios of 0.25 and 115), so that
    every process of a run comes to the same answer, however busy the machine is.
    """
    capabilities = torch.cpu.get_capabilities()
    named = [capabilities[flag] for flag in flags if flag in capabilities]
    if named and not any(named):
        return False
    # A torch built without the instructions is far slower. A processor that does not name them
    # (another architecture) has to prove it.
    return _time_against_float32(dtype) < (10.0 if named else 0.7)


def _time_against_float32(dtype: torch.dtype) -> float:
    """How many times as long as in float32 a small product takes in ``dtype``.

    On a busy machine any one product may wait for its processor, or one of several threads for
    another. So one thread takes both in turn, often, and the best of each is compared.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        matrices = [torch.ones(_SIZE, _SIZE, dtype=kind) for kind in (dtype, torch.float32)]
        best = [float("inf"), float("inf")]
        end = time.perf_counter() + _TIMING_S
        n_rounds = 0
        while n_rounds < _FEWEST_ROUNDS or time.perf_counter() < end:
            best = [min(seconds, _time(m)) for seconds, m in zip(best, matrices, strict=True)]
            n_rounds += 1
        return best[0] / best[1]
    finally:
        torch.set_num_threads(n_threads)


def _time(matrix: torch.Tensor) -> float:
    """Seconds for one product; the first one of its kind pays for the library's start."""
    start = time.perf_counter()
    torch.mm(matrix, matrix)
    return time.perf_counter() - start
