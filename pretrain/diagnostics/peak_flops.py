"""How many floating-point operations per second a device can do at best."""

import re

import torch

from pretrain.diagnostics.reporting import now

# Dense bfloat16 (= float16) peaks as published by the maker, without sparsity. Lightning's own
# table mixes dense figures with sparse ones, which are twice as large. First match wins.
_PUBLISHED_HALF_PRECISION = {
    r"\bB200\b": 2250e12,
    r"\bG?H200\b": 989e12,
    r"\bH100 NVL\b": 835e12,
    r"\bH100 PCIe\b": 756e12,
    r"\bH100\b": 989e12,
    r"\bA100\b": 312e12,
    r"\bL40S\b": 362e12,
    r"\bL4\b": 121e12,
    r"\bA10\b": 125e12,
    r"\bRTX 4090(?! [DL])": 165e12,
    r"\bRTX 3090\b": 71e12,
}
_REPEATS = 3
_BUDGET_S = 0.2


def peak_flops(device: torch.device, precision: str) -> float:
    """Peak FLOP/s of one device in a Lightning ``precision`` such as ``"bf16-mixed"``.

    The published dense peak where the device is a known GPU computing in half precision; else
    that of a matrix product timed here and now, in less than half a second.
    """
    dtype = product_dtype(precision)
    if device.type == "cuda" and dtype in (torch.bfloat16, torch.float16):
        published = published_half_precision(torch.cuda.get_device_name(device))
        if published is not None:
            return published
    return measured_flops(device, dtype)


def published_half_precision(device_name: str) -> float | None:
    """The published dense peak of a GPU by its name, None where it is not known."""
    if "MIG" in device_name:  # a slice of the device has a share of its peak
        return None
    for pattern, flops in _PUBLISHED_HALF_PRECISION.items():
        if re.search(pattern, device_name):
            return flops
    return None


def measured_flops(device: torch.device, dtype: torch.dtype) -> float:
    """The best rate of timed square products, growing for as long as the time allows."""
    best, size = 0.0, 256
    while True:
        flops = product_flops(device, dtype, size)
        best = max(best, flops)
        if 8 * (2 * size**3 / flops) * _REPEATS > _BUDGET_S or size >= 8192:
            return best
        size *= 2


def product_flops(device: torch.device, dtype: torch.dtype, size: int) -> float:
    """The best rate of a few products of ``size`` × ``size`` matrices."""
    generator = torch.Generator(device).manual_seed(0)  # leaves the global random state alone
    matrix = torch.randn(size, size, generator=generator, device=device).to(dtype)
    return 2 * size**3 / min(_seconds_per_product(matrix) for _ in range(_REPEATS))


def product_dtype(precision: str) -> torch.dtype:
    """The number format of the matrix products under a Lightning precision."""
    kinds = {"bf16": torch.bfloat16, "16": torch.float16, "64": torch.float64}
    return kinds.get(precision.partition("-")[0], torch.float32)


def _seconds_per_product(matrix: torch.Tensor) -> float:
    start = now(matrix.device)
    torch.mm(matrix, matrix)
    return now(matrix.device) - start
