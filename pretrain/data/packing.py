"""Packed blocks: the documents of a split joined and cut into rows of equal length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch.utils.data import Dataset, default_convert

from pretrain.data.masking import Masker
from pretrain.data.token_cache import TokenStream

IGNORED = -100  # label of what is no target
FILLER_BLOCK = -1  # an empty row that keeps micro-batches and ranks equal


class MicroBatch(NamedTuple):
    """Which rows one device sees at once.

    blocks (batch,): block numbers, FILLER_BLOCK for an empty row; epochs (batch,): how often the
    block's source has been read before; position: the place in the data that follows, in training.
    """

    blocks: np.ndarray
    epochs: np.ndarray
    position: dict[str, int] | None = None


class Packing(Protocol):
    """How a run of tokens becomes rows: windows of `window` tokens, one every `stride`."""

    @property
    def isolate(self) -> bool:
        """Whether documents of one block are kept apart: they don't see each other."""

    @property
    def stride(self) -> int:
        """New tokens in each block."""

    @property
    def window(self) -> int:
        """Tokens that a block needs, those shared with the next block included."""

    def n_blocks(self, n_tokens: int) -> int:
        """Blocks that hold all of a run of tokens."""

    def rows(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        epochs: np.ndarray,
        blocks: np.ndarray,
        documents: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """A batch from windows (batch, window) of which the first `lengths` (batch,) are real.

        `documents` (batch, window) tells them apart where they are isolated; the batch then has
        `document_ids` (batch, seq), 0, 1, 2, ... in each row.
        """


@dataclass(frozen=True)
class CausalPacking:
    """seq_len inputs and the seq_len tokens that follow them; neighbours share one token.

    So every token but the first is a target exactly once. Labels follow positions, never ids: the
    end token may be the padding token too. Where documents are isolated the first token of each is
    no target: nothing that it could be predicted from is in sight.
    """

    seq_len: int
    filler_id: int
    isolate: bool = False

    @property
    def stride(self) -> int:
        """New tokens in each block."""
        return self.seq_len

    @property
    def window(self) -> int:
        """One more than the inputs: the last one's target."""
        return self.seq_len + 1

    def n_blocks(self, n_tokens: int) -> int:
        """Blocks that make every token but the first a target."""
        return max(0, math.ceil((n_tokens - 1) / self.seq_len))

    def rows(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        epochs: np.ndarray,
        blocks: np.ndarray,
        documents: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """`input_ids`, `labels` and perhaps `document_ids`, all (batch, seq)."""
        is_target = np.arange(1, self.window) < lengths[:, None]
        rows = {
            "input_ids": np.where(is_target, tokens[:, :-1], self.filler_id),
            "labels": np.where(is_target, tokens[:, 1:], IGNORED),
        }
        if documents is not None:
            rows["labels"][documents[:, 1:] != documents[:, :-1]] = IGNORED
            rows["document_ids"] = _numbered(documents[:, :-1])
        return rows


@dataclass(frozen=True)
class MaskedPacking:
    """[CLS] and seq_len - 1 tokens, some of them hidden by the masker.

    Where documents are isolated [CLS] belongs to the first one of the row.
    """

    seq_len: int
    cls_id: int
    filler_id: int
    masker: Masker
    isolate: bool = False

    @property
    def stride(self) -> int:
        """New tokens in each block."""
        return self.seq_len - 1

    @property
    def window(self) -> int:
        """Blocks share nothing."""
        return self.stride

    def n_blocks(self, n_tokens: int) -> int:
        """Blocks that hold every token."""
        return math.ceil(n_tokens / self.stride)

    def rows(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        epochs: np.ndarray,
        blocks: np.ndarray,
        documents: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """The masker's batch, with `attention_mask` (batch, seq) where there is padding."""
        first = np.full((len(tokens), 1), self.cls_id, dtype=np.int64)
        real = np.arange(self.seq_len) < np.where(lengths > 0, lengths + 1, 0)[:, None]
        input_ids = np.where(real, np.concatenate([first, tokens], axis=1), self.filler_id)
        batch = self.masker(input_ids, real, epochs, blocks)
        if documents is not None:
            batch["document_ids"] = _numbered(np.concatenate([documents[:, :1], documents], axis=1))
        return batch if real.all() else {**batch, "attention_mask": real}


def _numbered(documents: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... for the documents of each row, whatever they are called in (batch, seq)."""
    is_next = documents[:, 1:] != documents[:, :-1]
    return np.pad(np.cumsum(is_next, axis=1, dtype=np.int64), ((0, 0), (1, 0)))


class PackedBlocks(Dataset):
    """Micro-batches of blocks over one or more token streams, blocks numbered through.

    An item is a whole micro-batch, built at once from the memory-mapped tokens. It is asked for by
    a `MicroBatch`, or by a number: then it is that one of the unshuffled order.

    Args:
        streams: the cached tokens; several are numbered one after the other.
        packing: how blocks are cut.
        batch_size: rows of a micro-batch that is asked for by number.
    """

    def __init__(self, streams: list[TokenStream], packing: Packing, batch_size: int) -> None:
        self.streams, self.packing, self.batch_size = streams, packing, batch_size
        self.n_blocks_each = [packing.n_blocks(stream.n_tokens) for stream in streams]
        self.n_blocks = sum(self.n_blocks_each)

    def __len__(self) -> int:
        return math.ceil(self.n_blocks / self.batch_size)

    def __getitem__(self, item: MicroBatch | int) -> dict[str, Any]:
        if not isinstance(item, MicroBatch):
            blocks = np.arange(item * self.batch_size, (item + 1) * self.batch_size)
            blocks[blocks >= self.n_blocks] = FILLER_BLOCK
            item = MicroBatch(blocks, np.zeros_like(blocks))
        tokens, lengths, documents, n_bytes = self._gather(item.blocks)
        rows = self.packing.rows(tokens, lengths, item.epochs, item.blocks, documents)
        batch = default_convert(rows)
        batch["n_bytes"] = default_convert(np.float64(n_bytes))
        if item.position is not None:
            batch["position"] = item.position
        return batch

    def _gather(
        self, blocks: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, float]:
        """Windows (batch, window), how much of each is real (batch,), their documents where these
        are isolated (batch, window), and the bytes behind the targets.
        """
        window = self.packing.window
        tokens = np.zeros((len(blocks), window), dtype=np.int64)
        lengths = np.zeros(len(blocks), dtype=np.int64)
        documents = np.zeros_like(tokens) if self.packing.isolate else None
        n_bytes = 0.0
        first_block = 0
        for stream, n_blocks in zip(self.streams, self.n_blocks_each, strict=True):
            rows = np.flatnonzero((blocks >= first_block) & (blocks < first_block + n_blocks))
            starts = (blocks[rows] - first_block) * self.packing.stride
            first_block += n_blocks
            if len(rows) == 0:
                continue
            places = starts[:, None] + np.arange(window)
            tokens[rows] = stream.ids[np.minimum(places, stream.n_tokens - 1)]
            lengths[rows] = np.minimum(window, stream.n_tokens - starts)
            n_bytes += self._bytes_behind_targets(stream, starts)
            if documents is not None:
                documents[rows] = stream.documents_at(np.minimum(places, stream.n_tokens - 1))
                n_bytes -= self._bytes_of_openings(stream, starts, documents[rows])
        return tokens, lengths, documents, n_bytes

    def _bytes_behind_targets(self, stream: TokenStream, starts: np.ndarray) -> float:
        # The shared token belongs to the block where it is a target; the very first token is none,
        # and its bytes go with the block that opens on it, so that the bytes of the split are whole
        shared = self.packing.window - self.packing.stride
        begin = np.where(starts > 0, starts + shared, 0)
        end = np.minimum(starts + self.packing.window, stream.n_tokens)
        return float((stream.bytes_before(end) - stream.bytes_before(begin)).sum())

    def _bytes_of_openings(
        self, stream: TokenStream, starts: np.ndarray, documents: np.ndarray
    ) -> float:
        """Bytes of the first tokens of isolated documents, which are not predicted."""
        if self.packing.window == self.packing.stride:  # masked models predict any token
            return 0.0
        opens = np.empty(documents.shape, dtype=bool)
        opens[:, 0] = starts == 0
        opens[:, 1:] = documents[:, 1:] != documents[:, :-1]
        return float(stream.bytes_per_token(documents[opens]).sum())
