"""Multi-head attention with a plain seam in the middle."""

import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.model.config import TransformerConfig
from pretrain.model.masks import AttentionMask
from pretrain.model.positions import Rotation, rotate


class ScaledDotProductAttention(nn.Module):
    """softmax(q kᵀ / √head_dim) v ("Attention Is All You Need", equation 1).

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
            mask: Which keys each query may see.
        """
        attn_mask, is_causal = mask.for_kernel()
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=attn_mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            scale=self.scale,
        )


class SelfAttention(nn.Module):
    """Fused q, k, v projection, the seam, output projection."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.n_heads, self.head_dim = config.n_heads, config.head_dim
        self.qk_norm_eps = config.norm_eps if config.qk_norm else None
        rate = config.dropout if config.attention_dropout is None else config.attention_dropout
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=config.linear_bias)
        self.core = ScaledDotProductAttention(config.head_dim, rate)
        self.output = nn.Linear(config.d_model, config.d_model, bias=config.linear_bias)

    def forward(self, x: Tensor, mask: AttentionMask, rotation: Rotation | None) -> Tensor:
        """``(batch, seq, d_model)`` to the same shape."""
        batch, seq, d_model = x.shape
        qkv = self.qkv(x).view(batch, seq, 3, self.n_heads, self.head_dim)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, n_heads, seq, head_dim)
        if self.qk_norm_eps is not None:
            query = F.rms_norm(query, (self.head_dim,), eps=self.qk_norm_eps)
            key = F.rms_norm(key, (self.head_dim,), eps=self.qk_norm_eps)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        context = self.core(query, key, value, mask)
        return self.output(context.transpose(1, 2).reshape(batch, seq, d_model))
