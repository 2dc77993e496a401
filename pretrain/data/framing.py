"""How a text, or a pair of texts, becomes a row of token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from pretrain.data.labelled import Example
from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError

WIDTH_STEP = 8  # widths are multiples of it, which the hardware prefers
_TEXTS_AT_ONCE = 4096  # bounds the memory of what the tokenizer returns


class Rows:
    """The token ids of many rows, one behind the other.

    Args:
        tokens: int32 (n_tokens,).
        lengths: tokens in each row, int64 (n_rows,).
        firsts: how many of them belong to the first text and its frame, int64 (n_rows,).
        n_cut: rows that were cut to fit.
    """

    def __init__(
        self, tokens: np.ndarray, lengths: np.ndarray, firsts: np.ndarray, n_cut: int
    ) -> None:
        self.tokens, self.lengths, self.firsts, self.n_cut = tokens, lengths, firsts, n_cut
        self.starts = np.cumsum(lengths) - lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def padded(self, numbers: np.ndarray, width: int, filler_id: int) -> dict[str, np.ndarray]:
        """Rows by number, padded on the right.

        Args:
            numbers: (rows,); a negative one is a row of padding alone.
            width: of all rows.
            filler_id: what stands in the padding. It may be a real token too: only lengths decide
                what is padding.

        Returns:
            `input_ids` (rows, width) int64, `attention_mask` (rows, width) bool, True for real
            tokens, and `segment_ids` (rows, width) int64, 1 in the second text.
        """
        lengths = np.where(numbers < 0, 0, self.lengths[numbers])[:, None]
        places = np.arange(width)
        real = places < lengths
        held = np.minimum(self.starts[numbers][:, None] + places, len(self.tokens) - 1)
        return {
            "input_ids": np.where(real, self.tokens[held].astype(np.int64), filler_id),
            "attention_mask": real,
            "segment_ids": (real & (places >= self.firsts[numbers][:, None])).astype(np.int64),
        }


@dataclass(frozen=True)
class Framing:
    """[CLS] a [SEP] b [SEP] where the tokenizer has these, else a END b with nothing behind.

    What is too long is cut at the end of the longer text first, until both are of one length (of
    an odd number of tokens the longer text, or the second of two equal ones, keeps one more), as
    ``longest_first`` of `tokenizers` does.

    Args:
        tokenizer: of the texts.
        max_len: tokens in a row at most, the frame included.
        pairs: whether there is a second text.

    Raises UserError if there is no room, or no token to part the two texts.
    """

    tokenizer: Tokenizer
    max_len: int
    pairs: bool = False

    def __post_init__(self) -> None:
        if self.pairs and self.tokenizer.end_id is None:
            raise UserError(
                "The tokenizer has no [SEP] and no end token to stand between the two texts of "
                "pair_field: use a tokenizer that has one."
            )
        if self.room < 1 + self.pairs:
            raise UserError(
                f"max_len is {self.max_len}: it leaves no room for a text beside the special tokens"
            )

    @property
    def has_frame(self) -> bool:
        """Whether rows open with [CLS] and close with [SEP]."""
        return self.tokenizer.cls_id is not None and self.tokenizer.sep_id is not None

    @property
    def room(self) -> int:
        """Tokens for the texts."""
        return self.max_len - (2 if self.has_frame else 0) - self.pairs

    @property
    def filler_id(self) -> int:
        """What stands in the padding; the mask alone says what is padding."""
        return 0 if self.tokenizer.pad_id is None else self.tokenizer.pad_id

    def rows(self, examples: Sequence[Example]) -> Rows:
        """The rows of examples; one that has no tokens is empty."""
        parts: list[np.ndarray] = []
        sizes: list[tuple[int, int]] = []
        n_cut = 0
        for first, second in self._encoded(examples):
            n_first, n_second = kept_lengths(len(first), len(second), self.room)
            n_cut += n_first + n_second < len(first) + len(second)
            head, tail = self._framed(first[:n_first], second[:n_second])
            parts.extend((head, tail))
            sizes.append((len(head), len(tail)))
        table = np.array(sizes, dtype=np.int64).reshape(-1, 2)
        tokens = np.concatenate([np.zeros(0, np.int32), *parts])
        return Rows(tokens, table.sum(axis=1), table[:, 0], n_cut)

    def _encoded(self, examples: Sequence[Example]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nothing = np.zeros(0, np.int32)
        bar = tqdm(desc="Tokenizing examples", total=len(examples), disable=None)
        with bar:
            for start in range(0, len(examples), _TEXTS_AT_ONCE):
                part = examples[start : start + _TEXTS_AT_ONCE]
                firsts = self.tokenizer.encode_documents([one.text for one in part])
                seconds = [nothing] * len(part)
                if self.pairs:
                    seconds = self.tokenizer.encode_documents([one.pair or "" for one in part])
                yield from zip(firsts, seconds, strict=True)
                bar.update(len(part))

    def _framed(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tokenizer = self.tokenizer
        end = [] if tokenizer.end_id is None else [tokenizer.end_id]
        opening = [tokenizer.cls_id] if self.has_frame else []
        head = np.array([*opening, *first, *(end if self.has_frame or self.pairs else [])])
        tail = np.array([*second, *(end if self.has_frame and self.pairs else [])])
        return head.astype(np.int32), tail.astype(np.int32)


def kept_lengths(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of two texts are kept where together they have room for ``room``."""
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    longer = room - shorter
    return (longer, shorter) if first > second else (shorter, longer)


def padded_width(longest: int, max_len: int) -> int:
    """The next multiple of 8, never more than ``max_len``."""
    return min(-(-max(longest, 1) // WIDTH_STEP) * WIDTH_STEP, max_len)
