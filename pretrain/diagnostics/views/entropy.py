"""How spread out the heads look."""

from typing import Any

import torch
from torch import Tensor

from pretrain.diagnostics.attention_entropy import AttentionEntropy, attention_entropy, stride_for
from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.views.view import Seams

MAX_QUERY_ROWS = 128  # looked at of each sequence, evenly spaced


class EntropyView:
    """``attention/entropy`` (normalised) and ``attention/entropy_nats`` of each head, and
    ``attention/mean_entropy``, the mean of the normalised one over the heads of a layer.
    """

    symptoms = (
        Symptom(
            name="attention_saturated",
            series="attention/mean_entropy",
            low=0.05,
            seen="attention looks at single tokens: its entropy is {value:.1%} of the uniform one",
            causes="logits that grew too large, from a missing 1/√d, a learning rate that is too "
            "high or no warm-up",
            remedies="a lower learning rate, qk_norm: true, a longer warm-up",
        ),
        Symptom(
            name="attention_uniform",
            series="attention/mean_entropy",
            high=0.995,
            patience=16,
            seen="attention looks at all tokens alike: its entropy is {value:.1%} of the uniform "
            "one",
            causes="queries and keys that get no gradient, a learning rate that is too low, or "
            "Post-LN with too short a warm-up",
            remedies="a higher learning rate, norm_position: pre, a longer warm-up",
            explained_by=("loss_stuck_at_unigram", "embeddings_frozen"),
        ),
    )

    def __init__(self, config: Any, device: torch.device) -> None:
        self._entropy = AttentionEntropy(config.n_layers, config.n_heads).to(device)

    def seams(self, transformer: Any) -> Seams:
        """Queries and keys as they enter their product."""
        return [(layer, block.attention.core) for layer, block in enumerate(transformer.blocks)]

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """At most 128 evenly spaced query rows of each sequence."""
        query, key, _, mask = inputs
        stride = stride_for(query.shape[2], MAX_QUERY_ROWS)
        self._entropy.update(layer, attention_entropy(query, key, mask, seam.scale, stride), real)

    def metrics(self) -> dict[str, float]:
        """Per layer and head."""
        means = self._entropy.compute()
        self._entropy.reset()
        # torchmetrics gives a tensor of one element without its dimensions.
        means = {name: mean.reshape(self._entropy.shape) for name, mean in means.items()}
        named = {"entropy": means["normalised"], "entropy_nats": means["nats"]}
        figures = {
            f"attention/{name}/layer_{layer}/head_{head}": value
            for name, mean in named.items()
            for layer, heads in enumerate(mean.tolist())
            for head, value in enumerate(heads)
        }
        for layer, value in enumerate(means["normalised"].mean(1).tolist()):
            figures[f"attention/mean_entropy/layer_{layer}"] = value
        return figures
