"""How near to each other a network holds two positions."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pretrain.model.positions import alibi_slopes


class PositionCosines(NamedTuple):
    """Cosines between what is added to the embedding at some positions.

    Attributes:
        positions: Evenly spaced, from 0.
        cosines: ``(n, n)`` float32.
    """

    positions: list[int]
    cosines: Tensor


@torch.no_grad()
def position_cosines(embeddings: Any, max_len: int, n_most: int = 64) -> PositionCosines:
    """For learned and sinusoidal positions.

    Args:
        embeddings: The network's ``Embeddings``.
        max_len: Positions there are.
        n_most: Positions to look at.
    """
    device = embeddings.token.weight.device
    positions = torch.arange(0, max_len, -(-max_len // n_most), device=device)
    unit = F.normalize(embeddings.added_positions(positions).float(), dim=-1)
    return PositionCosines(positions.tolist(), (unit @ unit.T).cpu())


@torch.no_grad()
def weight_by_distance(transformer: Any, n: int) -> dict[str, list[float]]:
    """How distance enters the scores where positions are not added, at distances 0 to n - 1.

    Rotary: the cosine of a vector with itself turned by that distance, mean over the pairs of
    dimensions; xPos: the same with its fading. ALiBi: for each head the factor exp(-slope ·
    distance) on a key's weight before the weights are made to sum to 1. Empty for other positions.
    """
    config, distances = transformer.config, torch.arange(n)
    if transformer.rotary is not None:
        rotation = transformer.rotary(distances)
        scale = 1.0 if rotation.scale is None else rotation.scale
        return {config.position: (rotation.cos * scale).mean(-1).tolist()}
    if config.position == "alibi":
        factors = (-alibi_slopes(config.n_heads)[:, None] * distances).exp()
        return {f"head {head}": row.tolist() for head, row in enumerate(factors)}
    return {}
