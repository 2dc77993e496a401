"""One Transformer block: attention and feed-forward, each around the residual stream."""

from torch import Tensor, nn

from pretrain.model.attention import SelfAttention
from pretrain.model.config import TransformerConfig
from pretrain.model.feed_forward import FeedForward
from pretrain.model.masks import AttentionMask
from pretrain.model.norms import build_norm
from pretrain.model.positions import Rotation


class Block(nn.Module):
    """Two residual sublayers.

    pre-norm:  x + dropout(sublayer(norm(x)))
    post-norm: norm(x + dropout(sublayer(x)))   ("Attention Is All You Need", section 3.1)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm_position == "pre"
        self.attention_norm = build_norm(config)
        self.attention = SelfAttention(config)
        self.feed_forward_norm = build_norm(config)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: AttentionMask, rotation: Rotation | None) -> Tensor:
        """``(batch, seq, d_model)`` to the same shape."""
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.attention_norm(x), mask, rotation))
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, mask, rotation)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
