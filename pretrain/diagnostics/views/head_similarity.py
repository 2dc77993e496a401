"""Whether heads of a layer do the same thing."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics import Metric

from pretrain.diagnostics.attention_entropy import (
    row_positions,
    score_rows,
    stride_for,
    visible_softmax,
)
from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.views.view import Seams
from pretrain.model.sharded import whole

_QUERY_ROWS = 32  # of each sequence, evenly spaced


class PatternSimilarity(Metric):
    """Mean cosine between the attention weights of each two heads, over query rows and ranks.

    ``compute()`` gives ``(n_layers, n_heads, n_heads)``, NaN where no row was seen.
    """

    full_state_update = False
    cosines: Tensor
    n_rows: Tensor

    def __init__(self, n_layers: int, n_heads: int) -> None:
        super().__init__()
        zeros = torch.zeros(n_layers, n_heads, n_heads)
        self.add_state("cosines", zeros, dist_reduce_fx="sum")
        self.add_state("n_rows", torch.zeros(n_layers, 1, 1), dist_reduce_fx="sum")

    def update(self, layer: int, weights: Tensor, counted: Tensor) -> None:
        """Add ``weights`` ``(batch, n_heads, n_rows, n_keys)`` of the ``counted`` rows
        ``(batch, n_rows)``.
        """
        unit = F.normalize(weights, dim=-1) * counted[:, None, :, None]
        self.cosines[layer] += torch.einsum("bhrk,bgrk->hg", unit, unit)
        self.n_rows[layer] += counted.sum()

    def compute(self) -> Tensor:
        """Means per layer."""
        return self.cosines / self.n_rows


def query_similarity(qkv: Tensor, n_heads: int, head_dim: int) -> Tensor:
    """Cosine between the query projections of each two heads, ``(n_heads, n_heads)``.

    Args:
        qkv: The fused projection ``(rows, d_model)``, whose first rows are the queries' heads.
        n_heads: Query heads.
        head_dim: Rows of each.
    """
    heads = F.normalize(qkv[: n_heads * head_dim].float().reshape(n_heads, -1), dim=-1)
    return heads @ heads.T


class HeadSimilarityView:
    """``attention/pattern_similarity`` and ``attention/query_similarity`` per layer: the largest
    cosine between two heads, of their attention weights and of their query projections.
    """

    symptoms = (
        Symptom(
            name="heads_alike",
            series="attention/query_similarity",
            high=0.95,
            seen="two heads have the same query projection: their cosine is {value:.3f}",
            causes="heads that were initialised alike and get the same gradient ever since, or a "
            "projection that was copied",
            remedies="another seed or init, a check of code that loads or resizes weights",
        ),
    )

    def __init__(self, transformer: Any, device: torch.device) -> None:
        config = transformer.config
        self._projections = [block.attention.qkv for block in transformer.blocks]
        self._shape = (config.n_heads, config.head_dim)
        self._patterns = PatternSimilarity(config.n_layers, config.n_heads).to(device)

    @staticmethod
    def applies(config: Any) -> bool:
        """Whether there are two heads to compare."""
        return config.n_heads > 1

    def seams(self, transformer: Any) -> Seams:
        """Queries and keys as they enter their product."""
        return [(layer, block.attention.core) for layer, block in enumerate(transformer.blocks)]

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """At most 32 evenly spaced query rows of each sequence."""
        query, key, _, mask = inputs
        stride = stride_for(query.shape[2], _QUERY_ROWS)
        positions = row_positions(query.shape[2], stride, real.device)
        for rows, scores, visible in score_rows(query, key, mask, seam.scale, stride):
            weights = visible_softmax(scores, visible).nan_to_num_()
            self._patterns.update(layer, weights, real[:, positions[rows]])

    def metrics(self) -> dict[str, float]:
        """The pair of heads that are most alike, per layer."""
        figures = {}
        n_heads, head_dim = self._shape
        patterns = self._patterns.compute().reshape(-1, n_heads, n_heads)
        self._patterns.reset()
        for layer, projection in enumerate(self._projections):
            queries = query_similarity(whole(projection.weight.detach()), n_heads, head_dim)
            for kind, cosines in (("pattern", patterns[layer]), ("query", queries)):
                figures[f"attention/{kind}_similarity/layer_{layer}"] = _largest_pair(cosines)
        return figures


def _largest_pair(cosines: Tensor) -> float:
    """The largest value off the diagonal."""
    n = len(cosines)
    return cosines[~torch.eye(n, dtype=torch.bool, device=cosines.device)].max().item()
