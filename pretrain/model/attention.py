"""Multi-head attention with a plain seam in the middle."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.model.cache import LayerCache
from pretrain.model.config import TransformerConfig
from pretrain.model.masks import AttentionMask
from pretrain.model.materialized import is_better_materialized, materialized_attention
from pretrain.model.positions import Rotation, rotate

_FEWEST_ROWS = 128  # per kernel call under a sliding window


class ScaledDotProductAttention(nn.Module):
    """softmax(q kᵀ / √head_dim + bias) v ("Attention Is All You Need", equation 1).

    This is the seam: observers look at its inputs, and a kernel is chosen here. Keys and values
    may come from anywhere (a cache, another sequence). A query that sees no key gives zeros.
    """

    def __init__(self, head_dim: int, dropout: float) -> None:
        super().__init__()
        self.scale = head_dim**-0.5
        self.dropout = dropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask) -> Tensor:
        """Context ``(batch, n_heads, n_queries, head_dim)``.

        Args:
            query: ``(batch, n_heads, n_queries, head_dim)``, normed and rotated already.
            key: ``(batch, n_heads, n_keys, head_dim)``, likewise.
            value: ``(batch, n_heads, n_keys, head_dim)``.
            mask: Which keys each query may see, and the bias on their scores.
        """
        if not mask.is_narrow:
            return self._attend(query, key, value, *mask.for_kernel(query.dtype))
        # r·n·d instead of n²·d: some rows at a time, and of the keys only those in their reach.
        n_rows = max(mask.window or 0, _FEWEST_ROWS)
        contexts = []
        for start in range(0, mask.n_queries, n_rows):
            stop = min(start + n_rows, mask.n_queries)
            first, last = mask.keys_in_reach(start, stop)
            near = (query[:, :, start:stop], key[:, :, first:last], value[:, :, first:last])
            contexts.append(
                self._attend(*near, mask.for_rows(query.dtype, start, stop, first, last))
            )
        return torch.cat(contexts, dim=2)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        rate = self.dropout if self.training else 0.0
        if is_better_materialized(query, key, rate):
            return materialized_attention(query, key, value, attn_mask, is_causal, rate, self.scale)
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attn_mask,
            dropout_p=rate,
            is_causal=is_causal,
            scale=self.scale,
        )


class SelfAttention(nn.Module):
    """Fused q, k, v projection, the seam, output projection.

    The rows of ``qkv`` are those of all query heads, then of all key heads, then of all value
    heads. With fewer heads of keys and values than of queries each serves a group of neighbouring
    query heads (Ainslie et al. 2023).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.n_heads, self.kv_heads = config.n_heads, config.kv_heads
        self.head_dim = config.head_dim
        self.qk_norm_eps = config.norm_eps if config.qk_norm else None
        rate = config.dropout if config.attention_dropout is None else config.attention_dropout
        n_rows = (self.n_heads + 2 * self.kv_heads) * self.head_dim
        self.qkv = nn.Linear(config.d_model, n_rows, bias=config.linear_bias)
        self.core = ScaledDotProductAttention(config.head_dim, rate)
        self.output = nn.Linear(config.d_model, config.d_model, bias=config.linear_bias)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """``(batch, seq, d_model)`` to the same shape; ``cache`` holds what came before."""
        batch, seq, d_model = x.shape
        heads = self.qkv(x).view(batch, seq, -1, self.head_dim).transpose(1, 2)
        query, key, value = heads.split((self.n_heads, self.kv_heads, self.kv_heads), dim=1)
        if self.qk_norm_eps is not None:
            query = F.rms_norm(query, (self.head_dim,), eps=self.qk_norm_eps)
            key = F.rms_norm(key, (self.head_dim,), eps=self.qk_norm_eps)
        if rotation is not None:
            query, key = rotate(query, key, rotation)
        if cache is not None:
            key, value = cache.extend(key, value)
        if self.kv_heads < self.n_heads:
            group = self.n_heads // self.kv_heads
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        context = self.core(query, key, value, mask)
        return self.output(context.transpose(1, 2).reshape(batch, seq, d_model))
