"""Weights for another size than the one they were trained in."""

import torch
from torch import Tensor


def interpolate_positions(table: Tensor, new_len: int) -> Tensor:
    """Learned positions for another length: ``(old_len, d_model)`` to ``(new_len, d_model)``.

    A longer table is drawn out linearly: its first and last rows are the old ones, and row i is
    read at ``i * (old_len - 1) / (new_len - 1)`` between its old neighbours, as is done for the
    grid of a Vision Transformer (Dosovitskiy et al. 2021, section 3.2). A shorter table is cut,
    not squeezed: position i keeps the meaning that it has.

    Raises:
        ValueError: ``new_len`` is below 1.
    """
    old_len = len(table)
    if new_len < 1:
        raise ValueError(f"new_len is {new_len}; it must be at least 1.")
    if new_len <= old_len:
        return table[:new_len].clone()
    # Integers in the numerator keep the ends exact.
    steps = torch.arange(new_len, device=table.device) * (old_len - 1)
    below = steps // (new_len - 1)
    above = (below + 1).clamp(max=old_len - 1)
    share = ((steps % (new_len - 1)).double() / (new_len - 1))[:, None]
    return torch.lerp(table[below].double(), table[above].double(), share).to(table.dtype)
