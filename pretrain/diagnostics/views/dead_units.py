"""Which feed-forward units no longer take part."""

from typing import Any

import torch
from torch import Tensor

from pretrain.diagnostics.dead_units import DeadUnits, count_active
from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.views.view import Seams

ENOUGH_TOKENS = 16_384  # in a window, before a share of dead units means much


class DeadUnitsView:
    """``ffn/dead_share`` over a window of probes, and ``ffn/dead_window_tokens`` beside it.

    ``ffn/activity_p10``, ``_p50`` and ``_p90`` are quantiles over the units of a layer of the
    share of real tokens on which a unit is active.
    """

    symptoms = (
        Symptom(
            name="units_dying",
            series="ffn/dead_share",
            high=0.1,
            patience=2,
            enough=("ffn/dead_window_tokens", ENOUGH_TOKENS),
            seen="up to {value:.0%} of the feed-forward units were active for no token",
            causes="a learning rate that is too high, or biases and inputs that push "
            "pre-activations below zero",
            remedies="a lower learning rate, a longer warm-up, activation: gelu or swiglu, biases "
            "that start in ±0.1",
        ),
    )

    def __init__(self, config: Any, device: torch.device, window: int) -> None:
        self._dead = DeadUnits(config.n_layers, config.hidden_dim, window).to(device)
        self._active: dict[int, Tensor] = {}
        self._n_tokens = torch.tensor(0, device=device)

    @staticmethod
    def applies(config: Any) -> bool:
        """Not to a mixture of experts, whose units each see only the tokens sent to them."""
        return not config.n_experts

    def seams(self, transformer: Any) -> Seams:
        """Pre-activations."""
        blocks = enumerate(transformer.blocks)
        return [(layer, block.feed_forward.activation) for layer, block in blocks]

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Counts only: the pre-activations are not kept."""
        self._active[layer] = count_active(inputs[0], real)
        self._n_tokens = real.sum()

    def metrics(self) -> dict[str, float]:
        """Per layer."""
        active = torch.stack([self._active[layer] for layer in sorted(self._active)])
        self._dead.update(active, self._n_tokens)
        dead = self._dead.compute()
        figures = {
            f"ffn/dead_share/layer_{layer}": share
            for layer, share in enumerate(dead["share"].reshape(-1).tolist())
        }
        quantiles = dead["activity"].reshape(-1, len(DeadUnits.QUANTILES))
        for layer, values in enumerate(quantiles.tolist()):
            for quantile, value in zip(DeadUnits.QUANTILES, values, strict=True):
                figures[f"ffn/activity_p{round(100 * quantile)}/layer_{layer}"] = value
        return {**figures, "ffn/dead_window_tokens": dead["n_tokens"].item()}
