"""Figures and moments of a run as pictures."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pretrain.diagnostics.position_similarity import PositionCosines
from pretrain.pictures import Film, HeatMap
from pretrain.runs.moments import Moment


def entropy_picture(figures: Mapping[str, Any], n_layers: int, n_heads: int) -> str | None:
    """Layers × heads, from the latest ``attention/entropy``; None where there is none yet."""
    names = [
        [f"attention/entropy/layer_{i}/head_{j}" for j in range(n_heads)] for i in range(n_layers)
    ]
    if any(name not in figures for row in names for name in row):
        return None
    values = [[float(figures[name]) for name in row] for row in names]
    return entropy_map(values)


def entropy_map(values: Sequence[Sequence[float]]) -> str:
    """Normalised entropy by layer and head."""
    return HeatMap(
        values,
        [f"layer {layer}" for layer in range(len(values))],
        [str(head) for head in range(len(values[0]))],
        title="Entropy of attention",
        column_title="head",
        unit="0: looks at one token, 1: at all alike",
    ).svg()


def dead_units_picture(moments: Sequence[Moment]) -> str | None:
    """Layers × steps; None before the first figures."""
    known = [moment for moment in moments if "dead" in moment.seen]
    if not known:
        return None
    shares = torch.stack([moment.seen["dead"] for moment in known], dim=1).tolist()
    return HeatMap(
        shares,
        [f"layer {layer}" for layer in range(len(shares))],
        [f"{moment.step:,}" for moment in known],
        title="Dead feed-forward units",
        column_title="step",
        unit="share of units that are active for no token",
        texts=[[f"{share:.1%}" for share in row] for row in shares],
    ).svg()


def attention_film(
    moments: Sequence[Moment], tokens: Sequence[str], heads: Sequence[Sequence[int]] | None
) -> str:
    """Maps of ``heads``, or of each layer's sharpest at the latest moment, at all moments."""
    known = [moment for moment in moments if "weights" in moment.seen]
    chosen = heads or _sharpest(known[-1].seen["entropy"])
    maps = [
        [(moment.seen["weights"][i, j].float() / 255).square().tolist() for moment in known]
        for i, j in chosen
    ]
    return Film(
        tokens,
        [f"step {moment.step:,}" for moment in known],
        [f"layer {i}, head {j}" for i, j in chosen],
        maps,
        title="Attention in the course of training",
    ).svg()


def positions_picture(known: PositionCosines) -> str:
    """Cosines between positions."""
    names = [str(place) if i % 4 == 0 else "" for i, place in enumerate(known.positions)]
    return HeatMap(
        known.cosines.tolist(),
        names,
        names,
        title="Likeness of positions",
        low=min(0.0, math.floor(10 * known.cosines.min().item()) / 10),
        unit="cosine",
        cell=7,
    ).svg()


def _sharpest(entropy: Tensor) -> list[tuple[int, int]]:
    heads = entropy.nan_to_num(nan=1.0).argmin(1).tolist()
    return list(enumerate(heads))
