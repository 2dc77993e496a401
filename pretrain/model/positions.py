"""How the order of the tokens enters the model: added to the embedding, turned into queries and
keys, or taken off the scores.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.model.config import TransformerConfig

_XPOS_GAMMA, _XPOS_SCALE_BASE = 0.4, 512


def token_positions(
    n_tokens: int, padding: Tensor | None, documents: Tensor | None, device: torch.device
) -> Tensor:
    """How many real tokens of the same document stand before each token.

    Args:
        n_tokens: In a row.
        padding: ``(batch, n_tokens)`` bool, True at real tokens; None where all are real.
        documents: ``(batch, n_tokens)`` int64, each document in one piece; None where each row is
            one.
        device: Where the result is, if the others are None.

    Returns:
        ``(n_tokens,)``, or ``(batch, n_tokens)`` where rows differ; int64.
    """
    if padding is None:
        places = torch.arange(n_tokens, device=device)
    else:
        places = (padding.cumsum(dim=1) - 1).clamp(min=0)
    if documents is not None:
        is_first = documents[:, 1:] != documents[:, :-1]
        starts = torch.where(is_first, places[..., 1:], 0).cummax(dim=1).values
        places = places - F.pad(starts, (1, 0))
    return places


class Rotation(NamedTuple):
    """What rotary positions do to a query; a key is turned alike and scaled by the inverse.

    Attributes:
        cos, sin: ``(seq, head_dim / 2)`` or ``(batch, 1, seq, head_dim / 2)``, float32.
        scale: The same shape; None where nothing is scaled.
    """

    cos: Tensor
    sin: Tensor
    scale: Tensor | None = None


class RotaryPositions(nn.Module):
    """Rotary position embedding (Su et al. 2021, "RoFormer", section 3.2).

    Pair i of a head (dimensions i and i + head_dim / 2) is turned by the angle
    ``position * base ** (-2i / head_dim)``, so scores depend on relative positions only.

    xPos (Sun et al. 2022, "A Length-Extrapolatable Transformer", section 3.2) scales pair i of a
    query by ``zeta_i ** (position / 512)`` and of a key by the inverse, with
    ``zeta_i = (2i / head_dim + 0.4) / 1.4``: scores fade with distance, the fast pairs' most. The
    two scales leave the range of float16 at about 4,000 tokens and of float32 at about 35,000.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.head_dim, self.base = config.head_dim, config.rotary_base
        self.stretch = 1.0
        if config.rotary_scaling == "ntk":
            self.base *= config.rotary_factor ** (self.head_dim / max(self.head_dim - 2, 1))
        else:
            self.stretch = config.rotary_factor
        self.fades = config.position == "xpos"

    def forward(self, positions: Tensor) -> Rotation:
        """The rotation at ``positions`` ``(seq,)`` or ``(batch, seq)``, in float32.

        Frequencies are computed here, not kept in a buffer: a buffer would follow a model that is
        cast to bf16, whose 8 bits are too few for the angles of long sequences.
        """
        with torch.autocast(positions.device.type, enabled=False):
            share = torch.arange(0, self.head_dim, 2, device=positions.device).float()
            share = share / self.head_dim  # 2i / head_dim
            place = positions.float()[..., None] / self.stretch
            if positions.ndim == 2:
                place = place[:, None]  # the same for every head
            angles = place * self.base**-share
            scale = None
            if self.fades:
                zeta = (share + _XPOS_GAMMA) / (1 + _XPOS_GAMMA)
                scale = zeta ** (place / _XPOS_SCALE_BASE)
            return Rotation(angles.cos(), angles.sin(), scale)


def rotate(query: Tensor, key: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
    """Query and key ``(batch, heads, seq, head_dim)`` turned by ``rotation``; shapes stay."""
    if rotation.scale is None:
        return _turn(query, rotation, 1.0), _turn(key, rotation, 1.0)
    return _turn(query, rotation, rotation.scale), _turn(key, rotation, 1 / rotation.scale)


def _turn(heads: Tensor, rotation: Rotation, scale: Tensor | float) -> Tensor:
    cos, sin = ((part * scale).to(heads.dtype) for part in rotation[:2])
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """PE ``(..., d_model)`` at ``positions`` ("Attention Is All You Need", section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) the cosine, in float32.
    """
    pairs = torch.arange(0, d_model, 2, device=positions.device).float()
    angles = positions.float()[..., None] * 10_000.0 ** (-pairs / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def alibi_slopes(n_heads: int) -> Tensor:
    """The slope of each head, ``(n_heads,)`` (Press et al. 2022, "Train Short, Test Long").

    For n a power of two the geometric sequence that starts at, and has the ratio, 2^(-8/n); else
    the slopes of the next smaller power of two, then every other slope of the next larger one, as
    in the authors' code.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    finer = [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * power, 2)]
    return torch.tensor(slopes + finer[: n_heads - power])
