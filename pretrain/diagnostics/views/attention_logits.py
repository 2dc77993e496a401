"""How large attention logits get, before the softmax."""

from typing import Any

import torch
from torch import Tensor

from pretrain.diagnostics.attention_entropy import row_positions, score_rows, stride_for
from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.views.entropy import MAX_QUERY_ROWS
from pretrain.diagnostics.views.view import PerPlace, Seams


class AttentionLogitsView:
    """``attention/max_logit`` per layer: the largest |q kᵀ · scale + bias| of a real query and a
    key that it sees. Without bound it ends in divergence (Dehghani et al. 2023, section 3).
    """

    symptoms = (
        Symptom(
            name="attention_logits_large",
            series="attention/max_logit",
            high=200.0,
            seen="the largest attention logit is {value:,.0f}, where softmax has no gradient",
            causes="queries and keys that grow without bound, or a missing 1/√d",
            remedies="qk_norm: true, a lower learning rate, weight decay",
            explained_by=("attention_saturated",),
        ),
    )

    def __init__(self, config: Any, device: torch.device) -> None:
        self._largest = PerPlace(config.n_layers, "max").to(device)

    def seams(self, transformer: Any) -> Seams:
        """Queries and keys as they enter their product."""
        return [(layer, block.attention.core) for layer, block in enumerate(transformer.blocks)]

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """At most 128 evenly spaced query rows of each sequence."""
        query, key, _, mask = inputs
        stride = stride_for(query.shape[2], MAX_QUERY_ROWS)
        positions = row_positions(query.shape[2], stride, real.device)
        for rows, scores, visible in score_rows(query, key, mask, seam.scale, stride):
            counted = visible & real[:, None, positions[rows], None]
            sizes = scores.abs_().masked_fill_(~counted, -torch.inf)
            self._largest.update(layer, sizes.max())

    def metrics(self) -> dict[str, float]:
        """Per layer."""
        return {
            f"attention/max_logit/layer_{layer}": value
            for layer, value in enumerate(self._largest.close())
        }
