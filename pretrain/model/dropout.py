"""Dropout whose random numbers are cheap on a CPU too (Srivastava et al. 2014)."""

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
        if not self.training or self.rate == 0:
            return x
        thinned, scale = thin(x, self.rate)
        return thinned.mul_(scale)

    def extra_repr(self) -> str:
        """The rate, in the printed module."""
        return f"rate={self.rate}"


def thin(x: Tensor, rate: float) -> tuple[Tensor, float]:
    """``x`` with zeros at a share ``rate`` of its places, and what it is yet to be multiplied by.

    On a CPU torch's own dropout draws a number of its own for each element, which takes longer
    than all else that is done to it. Here four elements share the 64 bits of one draw, of the same
    generator, and the scale is that of the rate which 16 bits can express. It is left to the
    caller, who may have something smaller to multiply.
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate), 1.0
    n_dropped = min(round(rate * _LEVELS), _LEVELS - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    # A product with zeros and ones is faster than a selection by booleans.
    kept = (bits >= n_dropped - _LEVELS // 2).to(x.dtype)
    return x * kept, _LEVELS / (_LEVELS - n_dropped)
