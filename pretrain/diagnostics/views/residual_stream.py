"""How the residual stream grows with depth."""

from typing import Any

import torch
from torch import Tensor

from pretrain.diagnostics.views.view import PerPlace, Seams


class ResidualStreamView:
    """``residual/rms``: root mean square of the real tokens' vectors that enter each block, and of
    those that leave the last one; ``residual/growth``, the last over the first.
    """

    symptoms = ()

    def __init__(self, config: Any, device: torch.device) -> None:
        self._squares = PerPlace(config.n_layers + 1, "sum").to(device)
        self._n_values = PerPlace(config.n_layers + 1, "sum").to(device)
        self._last = config.n_layers

    def seams(self, transformer: Any) -> Seams:
        """Every block, and what stands behind the last one."""
        return enumerate([*transformer.blocks, transformer.final_norm])

    def observe(self, place: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Real tokens only."""
        squares = inputs[0].float().square() * real[..., None]
        self._squares.update(place, squares.sum())
        self._n_values.update(place, real.sum() * squares.shape[-1])

    def metrics(self) -> dict[str, float]:
        """Per layer, and their ratio."""
        squares, n_values = self._squares.close(), self._n_values.close()
        pairs = zip(squares, n_values, strict=True)
        rms = [(square / n) ** 0.5 if n else float("nan") for square, n in pairs]
        figures = {f"residual/rms/layer_{layer}": value for layer, value in enumerate(rms[:-1])}
        growth = rms[-1] / rms[0] if rms[0] else float("nan")
        return {**figures, "residual/rms/last": rms[-1], "residual/growth": growth}
