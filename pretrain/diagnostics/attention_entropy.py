"""How spread out each attention head looks: the entropy of its attention weights."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric

from pretrain.model.masks import AttentionMask

_CHUNK_ROWS = 64  # with all temporaries 2.6 % of the n × n matrix at 8,192 tokens


class RowEntropy(NamedTuple):
    """Entropy of some query rows.

    Attributes:
        rows: ``(n_rows,)`` positions of the query rows that were looked at.
        nats: ``(batch, n_heads, n_rows)`` float32; 0 where a row sees no key.
        n_visible: ``(batch, n_rows)`` number of keys that each row sees.
    """

    rows: Tensor
    nats: Tensor
    n_visible: Tensor


@torch.no_grad()
def attention_entropy(
    query: Tensor, key: Tensor, mask: AttentionMask, scale: float, row_stride: int = 1
) -> RowEntropy:
    """Exact entropy -Σ p ln p of softmax(q kᵀ · scale + bias) over the visible keys.

    Computed without gradients, in float32 whatever the precision around it, for at most 64 query
    rows at a time, so that the n × n matrix never exists.

    Args:
        query: ``(batch, n_heads, n_queries, head_dim)``.
        key: ``(batch, n_heads, n_keys, head_dim)``.
        mask: Which keys each query may see, and the bias on their scores.
        scale: Factor on q kᵀ.
        row_stride: Look at every ``row_stride``-th query row, the middle one of each group; 1
            looks at all, more than there are at one.
    """
    n_queries = query.shape[2]
    row_stride = min(row_stride, n_queries)
    rows = row_positions(n_queries, row_stride, query.device)
    # Allocated before the loop: small results between the large temporaries would keep the
    # freed memory from being used again.
    nats = query.new_empty((*query.shape[:2], len(rows)), dtype=torch.float32)
    n_visible = torch.empty(len(query), len(rows), dtype=torch.int64, device=query.device)
    for part, scores, visible in score_rows(query, key, mask, scale, row_stride):
        nats[..., part] = _softmax_entropy(scores, visible)
        n_visible[:, part] = visible[:, 0].sum(-1)
    return RowEntropy(rows, nats, n_visible)


def stride_for(n_queries: int, n_most: int) -> int:
    """The ``row_stride`` with which at most ``n_most`` of ``n_queries`` rows are looked at."""
    return -(-n_queries // n_most)


def row_positions(n_queries: int, row_stride: int, device: torch.device) -> Tensor:
    """Positions of the query rows that a ``row_stride`` looks at: the middle of each group."""
    return torch.arange(row_stride // 2, n_queries, row_stride, device=device)


def visible_softmax(scores: Tensor, visible: Tensor) -> Tensor:
    """Weights over the visible keys; overwrites ``scores``. NaN in a row that sees no key."""
    return scores.masked_fill_(~visible, -torch.inf).softmax(-1)


def score_rows(
    query: Tensor, key: Tensor, mask: AttentionMask, scale: float, row_stride: int = 1
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """The scores q kᵀ · scale + bias in float32, at most 64 query rows at a time.

    The arguments are those of :func:`attention_entropy`.

    Yields:
        Which of the rows that are looked at these are; their scores ``(batch, n_heads, n_rows,
        n_keys)``, which may be overwritten; and ``(batch or 1, 1, n_rows, n_keys)`` bool, True
        where a query sees a key.
    """
    rows = range(row_stride // 2, query.shape[2], row_stride)
    queries, keys = query[:, :, rows.start :: row_stride].float(), key.float().transpose(-1, -2)
    chunk = max(1, _CHUNK_ROWS // row_stride)
    for start in range(0, len(rows), chunk):
        stop = min(start + chunk, len(rows))
        first, last = rows[start], rows[stop - 1]
        visible = mask.rows(first, last + 1)[..., ::row_stride, :]
        # Autocast would take the product back to half precision, where the entropy of a peaky
        # head is wrong in the first digit.
        with torch.autocast(query.device.type, enabled=False):
            scores = (queries[:, :, start:stop] @ keys).mul_(scale)
        bias = mask.bias(first, last + 1)
        if bias is not None:
            scores += bias[..., ::row_stride, :]
        yield slice(start, stop), scores, visible


def _softmax_entropy(scores: Tensor, visible: Tensor) -> Tensor:
    """Entropy over the last dimension; overwrites ``scores``."""
    weights = visible_softmax(scores, visible)
    nats = torch.special.entr(weights, out=scores).sum(-1)
    # A weight rounded to just over 1 has a small negative term, a row without keys is 0 / 0.
    return torch.where(visible.any(-1), nats.clamp(min=0), 0.0)


class AttentionEntropy(Metric):
    """Mean entropy of each head, over query rows, batches and ranks.

    ``compute()`` gives two ``(n_layers, n_heads)`` tensors, NaN where no row was seen:
    ``nats``, the mean of H over the real query rows, and ``normalised``, the mean of
    H / ln(visible keys) over those of them that see at least two keys. 0 is a head that looks at
    one token, 1 one that looks at all alike.
    """

    full_state_update = False
    nats_sum: Tensor
    normalised_sum: Tensor
    n_rows: Tensor
    n_normalised_rows: Tensor

    def __init__(self, n_layers: int, n_heads: int) -> None:
        super().__init__()
        self.shape = (n_layers, n_heads)
        for name in ("nats_sum", "normalised_sum"):
            self.add_state(name, torch.zeros(n_layers, n_heads), dist_reduce_fx="sum")
        for name in ("n_rows", "n_normalised_rows"):
            zeros = torch.zeros(n_layers, 1, dtype=torch.int64)
            self.add_state(name, zeros, dist_reduce_fx="sum")

    def update(self, layer: int, entropy: RowEntropy, real: Tensor) -> None:
        """Add the rows of one layer.

        Args:
            layer: Index of the layer.
            entropy: What :func:`attention_entropy` returned.
            real: ``(batch, n_queries)`` bool, False at padding, whose rows are left out.
        """
        n_visible = entropy.n_visible
        counted = real[:, entropy.rows] & (n_visible >= 1)
        comparable = counted & (n_visible >= 2)
        normalised = entropy.nats / n_visible.clamp(min=2).log()[:, None]
        self.nats_sum[layer] += _sum_rows(entropy.nats, counted)
        self.normalised_sum[layer] += _sum_rows(normalised, comparable)
        self.n_rows[layer] += counted.sum()
        self.n_normalised_rows[layer] += comparable.sum()

    def compute(self) -> dict[str, Tensor]:
        """Both means per layer and head."""
        return {
            "nats": self.nats_sum / self.n_rows,
            "normalised": self.normalised_sum / self.n_normalised_rows,
        }


def _sum_rows(values: Tensor, counted: Tensor) -> Tensor:
    """Sum ``(batch, n_heads, n_rows)`` over batch and the ``counted`` ``(batch, n_rows)`` rows."""
    return torch.where(counted[:, None], values, 0.0).sum((0, 2))
