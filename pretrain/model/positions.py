"""How the order of the tokens enters the model: added to the embedding, or turned into q and k."""

import torch
from torch import Tensor, nn

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines, each ``(seq, head_dim / 2)``."""


class RotaryPositions(nn.Module):
    """Rotary position embedding (Su et al. 2021, "RoFormer", section 3.2).

    Pair i of a head (dimensions i and i + head_dim / 2) is turned by the angle
    ``position * base ** (-2i / head_dim)``, so scores depend on relative positions only.
    """

    def __init__(self, head_dim: int, base: float) -> None:
        super().__init__()
        self.head_dim, self.base = head_dim, base

    def forward(self, positions: Tensor) -> Rotation:
        """Cosines and sines of the angles at ``positions`` ``(seq,)``, in float32.

        Frequencies are computed here, not kept in a buffer: a buffer would follow a model that is
        cast to bf16, whose 8 bits are too few for the angles of long sequences.
        """
        with torch.autocast(positions.device.type, enabled=False):
            pairs = torch.arange(0, self.head_dim, 2, device=positions.device)
            frequencies = self.base ** (-pairs.float() / self.head_dim)
            angles = positions.float()[:, None] * frequencies
            return angles.cos(), angles.sin()


def rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """Turn ``heads`` ``(..., seq, head_dim)`` by ``rotation``; the shape stays."""
    cos, sin = (part.to(heads.dtype) for part in rotation)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
