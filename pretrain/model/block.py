"""One Transformer block: attention and feed-forward, each around the residual stream."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pretrain.model.attention import SelfAttention
from pretrain.model.cache import LayerCache
from pretrain.model.config import TransformerConfig
from pretrain.model.dropout import Dropout
from pretrain.model.experts import MixtureOfExperts
from pretrain.model.feed_forward import FeedForward
from pretrain.model.masks import AttentionMask
from pretrain.model.norms import build_norm
from pretrain.model.positions import Rotation


class Block(nn.Module):
    """Two residual sublayers.

    pre-norm:  x + dropout(sublayer(norm(x)))
    post-norm: norm(x + dropout(sublayer(x)))   ("Attention Is All You Need", section 3.1)
    parallel:  x + dropout(attention(n)) + dropout(feed_forward(n)) with one n = norm(x)

    Attributes:
        recomputes: Whether the backward pass computes what is inside once more instead of keeping
            it: activation checkpointing (Chen et al. 2016).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.parallel, self.pre_norm = config.parallel_blocks, config.norm_position == "pre"
        self.recomputes = False
        self.attention_norm = build_norm(config)
        self.attention = SelfAttention(config)
        if not self.parallel:
            self.feed_forward_norm = build_norm(config)
        self.feed_forward = MixtureOfExperts(config) if config.n_experts else FeedForward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """``(batch, seq, d_model)`` to the same shape; ``cache`` holds the tokens before."""
        if self.recomputes and torch.is_grad_enabled():
            return checkpoint(self._sublayers, x, mask, rotation, cache, use_reentrant=False)
        return self._sublayers(x, mask, rotation, cache)

    def _sublayers(
        self,
        x: Tensor,
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: LayerCache | None,
    ) -> Tensor:
        if not self.pre_norm:
            x = self.attention_norm(x + self.dropout(self.attention(x, mask, rotation, cache)))
            return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        normed = self.attention_norm(x)
        attended = x + self.dropout(self.attention(normed, mask, rotation, cache))
        if not self.parallel:
            normed = self.feed_forward_norm(attended)
        return attended + self.dropout(self.feed_forward(normed))
