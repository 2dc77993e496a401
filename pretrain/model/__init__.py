"""One Transformer block stack for BERT and GPT. Knows torch, and nothing else.

Reading order: config, positions, masks, cache, attention, feed_forward, experts, block,
transformer, heads, initialization.
"""

from pretrain.model.attention import ScaledDotProductAttention, SelfAttention
from pretrain.model.cache import KeyValueCache
from pretrain.model.config import TransformerConfig
from pretrain.model.feed_forward import FeedForward
from pretrain.model.heads import LanguageModelHead, Pooler
from pretrain.model.initialization import initialize
from pretrain.model.masks import AttentionMask
from pretrain.model.transformer import Transformer

__all__ = [
    "AttentionMask",
    "FeedForward",
    "KeyValueCache",
    "LanguageModelHead",
    "Pooler",
    "ScaledDotProductAttention",
    "SelfAttention",
    "Transformer",
    "TransformerConfig",
    "initialize",
]
