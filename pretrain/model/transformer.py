"""The block stack that BERT and GPT share."""

import torch
from torch import Tensor, nn

from pretrain.model.block import Block
from pretrain.model.cache import KeyValueCache
from pretrain.model.config import TransformerConfig
from pretrain.model.dropout import Dropout
from pretrain.model.experts import MixtureOfExperts
from pretrain.model.masks import AttentionMask
from pretrain.model.norms import build_norm
from pretrain.model.positions import (
    RotaryPositions,
    alibi_slopes,
    sinusoids,
    token_positions,
)

_RMS_OF_SINUSOIDS = 0.5**0.5


class Embeddings(nn.Module):
    """Token (+ position) (+ segment) embeddings, an optional norm, dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise ValueError("vocab_size is not known: set it, or let the tokenizer decide it.")
        self.d_model = config.d_model
        self.token = nn.Embedding(config.vocab_size, config.d_model)
        learned = config.position == "learned"
        self.position = nn.Embedding(config.max_len, config.d_model) if learned else None
        self.sinusoidal = config.position == "sinusoidal"
        fit = config.embedding_std / _RMS_OF_SINUSOIDS if self.sinusoidal else 1.0
        self.position_scale = fit if config.position_scale is None else config.position_scale
        segments = config.n_segments
        self.segment = nn.Embedding(segments, config.d_model) if segments else None
        self.norm = build_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(self, input_ids: Tensor, positions: Tensor, segment_ids: Tensor | None) -> Tensor:
        """``(batch, seq, d_model)``.

        Args:
            input_ids: ``(batch, seq)``.
            positions: ``(seq,)`` or ``(batch, seq)``.
            segment_ids: ``(batch, seq)``; None means segment 0 everywhere.
        """
        x = self.token(input_ids)
        if self.position is not None or self.sinusoidal:
            x = x + self.added_positions(positions).to(x.dtype)
        if self.segment is not None:
            # Without segment ids every token belongs to the first segment, as in BERT.
            x = x + (self.segment.weight[0] if segment_ids is None else self.segment(segment_ids))
        return self.dropout(self.norm(x))

    def added_positions(self, positions: Tensor) -> Tensor:
        """What learned or sinusoidal positions add: ``positions`` with ``d_model`` behind them."""
        table = self.position
        vectors = sinusoids(positions, self.d_model) if table is None else table(positions)
        return vectors * self.position_scale


class Transformer(nn.Module):
    """Embeddings, ``n_layers`` blocks, and with pre-norm one norm more at the end.

    Args:
        config: Shape and parts.
        causal: Whether a token sees only itself and what stands before it.

    Raises:
        ValueError: xPos without causal attention, or an unknown ``vocab_size``.
    """

    def __init__(self, config: TransformerConfig, causal: bool) -> None:
        super().__init__()
        check_direction(config, causal)
        self.config = config
        self.causal = causal
        self.embeddings = Embeddings(config)
        self.rotary: RotaryPositions | None = None
        if config.position in ("rotary", "xpos"):
            self.rotary = RotaryPositions(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.final_norm = build_norm(config) if config.norm_position == "pre" else nn.Identity()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        cache: KeyValueCache | None = None,
        document_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states ``(batch, seq, d_model)``.

        Args:
            input_ids: Token ids ``(batch, seq)``; with a cache, those that follow what it holds.
            attention_mask: ``(batch, n_keys)`` bool, True at real tokens, cached ones included;
                None where all are real. Positions count real tokens only, so it does not matter
                on which side the filler stands.
            segment_ids: ``(batch, seq)``; None means segment 0 everywhere.
            cache: Keys and values of the tokens before, which these are added to.
            document_ids: ``(batch, n_keys)`` int64, cached ones included: tokens see only those of
                their own document, and positions count from its first one. None where each row is
                one document.

        Raises:
            ValueError: The sequence is longer than the table of learned positions.
        """
        seq = input_ids.shape[1]
        n_keys = seq + (0 if cache is None else cache.length)
        if self.config.position == "learned" and n_keys > self.config.max_len:
            raise ValueError(
                f"A sequence of {n_keys} tokens is longer than the {self.config.max_len} learned "
                "positions (max_len)."
            )
        padding = None if attention_mask is None else attention_mask.bool()
        mask = self._mask(seq, n_keys, padding, document_ids, input_ids.device)
        positions = token_positions(n_keys, padding, document_ids, input_ids.device)
        positions = positions[..., n_keys - seq :]
        rotation = None if self.rotary is None else self.rotary(positions)
        x = self.embeddings(input_ids, positions, segment_ids)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, None if cache is None else cache.layers[layer])
        return self.final_norm(x)

    def _mask(
        self,
        seq: int,
        n_keys: int,
        padding: Tensor | None,
        documents: Tensor | None,
        device: torch.device,
    ) -> AttentionMask:
        slopes = None
        if self.config.position == "alibi":
            slopes = alibi_slopes(self.config.n_heads).to(device)
        window = self.config.sliding_window
        return AttentionMask(seq, n_keys, self.causal, padding, device, window, slopes, documents)

    def load_balance_loss(self) -> Tensor | None:
        """Sum over the blocks of what their routers paid in the latest forward; None without."""
        losses = [
            part.load_balance_loss for part in self.modules() if isinstance(part, MixtureOfExperts)
        ]
        return torch.stack(losses).sum() if losses else None


def check_direction(config: TransformerConfig, causal: bool) -> None:
    """Refuse what only works from left to right.

    Raises:
        ValueError: xPos without causal attention: scores would grow towards what comes later.
    """
    if config.position == "xpos" and not causal:
        raise ValueError("position xpos is for causal models only: use rotary.")
