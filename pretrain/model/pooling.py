"""One vector for a whole sequence, whatever side its filler stands on."""

from typing import Literal

import torch
from torch import Tensor

Pooling = Literal["cls", "mean", "last"]


def pool(hidden: Tensor, attention_mask: Tensor, how: Pooling) -> Tensor:
    """``(batch, seq, d_model)`` to ``(batch, d_model)``.

    Args:
        hidden: The block stack's output.
        attention_mask: ``(batch, seq)`` bool, True at real tokens.
        how: ``cls`` takes the first real token (Devlin et al. 2019), ``mean`` the mean of the real
            tokens (Reimers & Gurevych 2019), ``last`` the last real token (Radford et al. 2018).
    """
    mask = attention_mask.bool()
    if how == "mean":
        weights = mask.to(hidden.dtype)[..., None]
        return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
    if how == "cls":
        index = mask.int().argmax(1)
    else:
        index = mask.shape[1] - 1 - mask.flip(1).int().argmax(1)
    return hidden[torch.arange(len(hidden), device=hidden.device), index]
