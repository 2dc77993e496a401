"""Dropout whose random numbers are cheap on a CPU too (Srivastava et al. 2014)."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 2**16  # of the random numbers: a rate is met to 1 / 131,072


class Dropout(nn.Module):
    """Zeroes elements with probability ``rate`` in training and scales the others up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Any shape; it stays. In evaluation ``x`` itself."""
        return dropout(x, self.rate) if self.training else x

    def extra_repr(self) -> str:
        """The rate, in the printed module."""
        return f"rate={self.rate}"


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero elements of ``x`` with probability ``rate``, and scale the others by 1 / (1 - rate).

    On a CPU torch's own draws a number of its own for each element, which takes longer than
    all else that is done to it. Here four elements share the 64 bits of one draw, of the same
    generator; what is kept is scaled by the rate that 16 bits can express.
    """
    if rate == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    return _CheapDropout.apply(x, rate)


class _CheapDropout(torch.autograd.Function):
    """Remembers one byte an element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        n_dropped = min(round(rate * _LEVELS), _LEVELS - 1)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= n_dropped - _LEVELS // 2
        ctx.save_for_backward(kept)
        ctx.scale = _LEVELS / (_LEVELS - n_dropped)
        return torch.where(kept, x, 0.0).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return torch.where(kept, gradient, 0.0).mul_(ctx.scale), None
