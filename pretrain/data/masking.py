"""The masks of masked language modelling (BERT, Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pretrain.data.seeding import Purpose, uniform_rows
from pretrain.errors import UserError


@dataclass(frozen=True)
class MaskingConfig:
    """How many tokens are predicted, and what stands in their place.

    Args:
        rate: share of the maskable tokens of a row that become targets.
        mask: share of the targets replaced by [MASK].
        random: share of the targets replaced by a random ordinary token.
        keep: share of the targets left as they are; the three add up to 1.
    """

    rate: float = 0.15
    mask: float = 0.8
    random: float = 0.1
    keep: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise UserError(f"masking.rate must be above 0 and at most 1, not {self.rate}.")
        shares = (self.mask, self.random, self.keep)
        if min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            raise UserError(
                "masking.mask, masking.random and masking.keep must be shares that add up to 1, "
                f"not {self.mask} + {self.random} + {self.keep} = {sum(shares):g}."
            )


class Masker:
    """Chooses the targets of a batch of rows and hides them.

    What happens to a row follows from (seed, epoch, block) alone: not from its neighbours, the
    worker that builds it or what was drawn before.

    Args:
        config: the rates.
        seq_len: length of every row.
        mask_id: id of [MASK].
        special_ids: never chosen and never drawn.
        vocab_size: replacements are drawn uniformly from the other ids below it.
        seed: of the run.
        purpose: TRAIN_MASKS or VALIDATION_MASKS.
    """

    def __init__(
        self,
        config: MaskingConfig,
        seq_len: int,
        *,
        mask_id: int,
        special_ids: tuple[int, ...],
        vocab_size: int,
        seed: int,
        purpose: Purpose,
    ) -> None:
        self.config, self.seq_len, self.seed, self.purpose = config, seq_len, seed, purpose
        self.mask_id = mask_id
        self.is_ordinary = np.ones(vocab_size, dtype=bool)
        self.is_ordinary[list(special_ids)] = False
        self.ordinary_ids = np.flatnonzero(self.is_ordinary)
        self.row_capacity = math.ceil(config.rate * seq_len)

    def __call__(
        self, input_ids: np.ndarray, real: np.ndarray, epochs: np.ndarray, blocks: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Mask `input_ids` (batch, seq); `real` (batch, seq) is False at padding.

        `epochs` and `blocks` (batch,) name each row. Gives `input_ids` (batch, seq) with masks,
        `masked_positions` (batch · row_capacity,) flat indices, 0 for filler, and `labels` of the
        same shape: the original ids, -100 for filler.
        """
        maskable = real & self.is_ordinary[input_ids]
        n_rows, seq_len = input_ids.shape
        n_slots = self.row_capacity
        draws = uniform_rows(self.purpose, self.seed, epochs, blocks, seq_len + 2 * n_slots + 1)
        lottery, fate, replacement, rounding = np.split(
            draws, np.cumsum([seq_len, n_slots, n_slots]), axis=1
        )

        n_maskable = maskable.sum(axis=1, keepdims=True)
        wanted = self.config.rate * n_maskable
        n_chosen = np.floor(wanted) + (rounding < wanted % 1)
        n_chosen = np.minimum(np.maximum(n_chosen, 1), n_maskable)
        # The lowest numbers of the lottery win: a uniform draw without replacement.
        order = np.argsort(np.where(maskable, lottery, np.inf), axis=1)[:, :n_slots]
        chosen = np.arange(n_slots) < n_chosen

        original = np.take_along_axis(input_ids, order, axis=1)
        drawn = (replacement * len(self.ordinary_ids)).astype(np.int64)
        hidden = np.where(fate < self.config.mask, self.mask_id, original)
        is_random = (fate >= self.config.mask) & (fate < self.config.mask + self.config.random)
        hidden = np.where(is_random, self.ordinary_ids[drawn], hidden)

        masked = input_ids.copy()
        np.put_along_axis(masked, order, np.where(chosen, hidden, original), axis=1)
        positions = order + np.arange(n_rows)[:, None] * seq_len
        return {
            "input_ids": masked,
            "masked_positions": np.where(chosen, positions, 0).ravel(),
            "labels": np.where(chosen, original, -100).ravel(),
        }
