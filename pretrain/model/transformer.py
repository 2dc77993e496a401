"""The block stack that BERT and GPT share."""

import torch
from torch import Tensor, nn

from pretrain.model.block import Block
from pretrain.model.config import TransformerConfig
from pretrain.model.masks import AttentionMask
from pretrain.model.norms import build_norm
from pretrain.model.positions import RotaryPositions


class Embeddings(nn.Module):
    """Token (+ learned position) (+ segment) embeddings, an optional norm, dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise ValueError("vocab_size is not known: set it, or let the tokenizer decide it.")
        self.token = nn.Embedding(config.vocab_size, config.d_model)
        learned = config.position == "learned"
        self.position = nn.Embedding(config.max_len, config.d_model) if learned else None
        segments = config.n_segments
        self.segment = nn.Embedding(segments, config.d_model) if segments else None
        self.norm = build_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, positions: Tensor, segment_ids: Tensor | None) -> Tensor:
        """``input_ids`` ``(batch, seq)``, ``positions`` ``(seq,)`` to ``(batch, seq, d_model)``."""
        x = self.token(input_ids)
        if self.position is not None:
            x = x + self.position(positions)
        if self.segment is not None:
            # Without segment ids every token belongs to the first segment, as in BERT.
            x = x + (self.segment.weight[0] if segment_ids is None else self.segment(segment_ids))
        return self.dropout(self.norm(x))


class Transformer(nn.Module):
    """Embeddings, ``n_layers`` blocks, and with pre-norm one norm more at the end.

    Args:
        config: Shape and parts.
        causal: Whether a token sees only itself and what stands before it.
    """

    def __init__(self, config: TransformerConfig, causal: bool) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.embeddings = Embeddings(config)
        self.rotary: RotaryPositions | None = None
        if config.position == "rotary":
            self.rotary = RotaryPositions(config.head_dim, config.rotary_base)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.final_norm = build_norm(config) if config.norm_position == "pre" else nn.Identity()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states ``(batch, seq, d_model)``.

        Args:
            input_ids: Token ids ``(batch, seq)``.
            attention_mask: ``(batch, seq)`` bool, True at real tokens; None where all are real.
            segment_ids: ``(batch, seq)``; None means segment 0 everywhere.

        Raises:
            ValueError: The sequence is longer than the table of learned positions.
        """
        seq = input_ids.shape[1]
        if self.config.position == "learned" and seq > self.config.max_len:
            raise ValueError(
                f"A sequence of {seq} tokens is longer than the {self.config.max_len} learned "
                "positions (max_len)."
            )
        positions = torch.arange(seq, device=input_ids.device)
        padding = None if attention_mask is None else attention_mask.bool()
        mask = AttentionMask(seq, seq, self.causal, padding, input_ids.device)
        rotation = None if self.rotary is None else self.rotary(positions)
        x = self.embeddings(input_ids, positions, segment_ids)
        for block in self.blocks:
            x = block(x, mask, rotation)
        return self.final_norm(x)
