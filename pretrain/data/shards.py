"""One virtual shard of a stream: windows of documents, shuffled, tokenized and packed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import default_convert

from pretrain.data.packing import FILLER_BLOCK, Packing
from pretrain.data.seeding import Purpose, generator
from pretrain.data.tokenizer import Tokenizer

N_SHARDS = 48  # divided evenly by 1, 2, 3, 4, 6, 8, 12, 16, 24 and 48 workers

_BATCH_CHARACTERS = 32_000  # handed to the tokenizer at once: all shards wait for the first turn


class ShardPosition(NamedTuple):
    """A place in a shard: the next token to read, and how many blocks were made before it.

    document counts within the window, in the shuffled order; token within the document.
    """

    window: int = 0
    document: int = 0
    token: int = 0
    block: int = 0


@dataclass(frozen=True)
class StreamRules:
    """What decides the content of each block of a stream, workers and ranks aside.

    Args:
        packing: how blocks are cut.
        batch_size: rows in a micro-batch.
        seed: of the run.
        n_shards: virtual shards; document i belongs to shard i modulo n_shards.
        window_documents: documents that are shuffled among themselves.
        window_characters: a window ends early at so much text: it bounds the memory.
        shuffle: whether documents are shuffled inside their window.
    """

    packing: Packing
    batch_size: int
    seed: int
    n_shards: int = N_SHARDS
    window_documents: int = 64
    window_characters: int = 128_000
    shuffle: bool = True


class _Text(NamedTuple):
    """A document that waits for the tokenizer."""

    window: int
    number: int
    text: str


class _Document(NamedTuple):
    """The tokens of a document, and the UTF-8 bytes that each of them stands for."""

    window: int
    number: int
    ids: np.ndarray
    bytes_per_token: float


class Shard:
    """Takes the documents of a shard in corpus order and gives its micro-batches.

    Args:
        number: of the shard, which with seed, epoch and window decides the order.
        tokenizer: for documents.
        rules: of the stream.
        epoch: of the order and the masks.
        start: where to go on; windows before it are passed over without tokenizing.
    """

    def __init__(
        self,
        number: int,
        tokenizer: Tokenizer,
        rules: StreamRules,
        epoch: int = 0,
        start: ShardPosition | None = None,
    ) -> None:
        self.number, self.tokenizer, self.rules, self.epoch = number, tokenizer, rules, epoch
        self.start = self.position = start or ShardPosition()
        self.finished = False
        self._window = 0  # the one that is being collected
        self._collected: list[str] = []
        self._n_collected, self._n_characters = 0, 0
        self._waiting: deque[_Text] = deque()  # of complete windows, in the order to read
        self._documents: deque[_Document] = deque()  # tokenized; the first may be partly used
        self._n_tokens = 0  # in them and not used

    def add(self, text: str) -> None:
        """Take the next document of the shard."""
        if self._window >= self.start.window:
            self._collected.append(text)
        self._n_collected += 1
        self._n_characters += len(text)
        is_full = self._n_collected >= self.rules.window_documents
        if is_full or self._n_characters >= self.rules.window_characters:
            self._close_window()

    def finish(self) -> None:
        """There are no more documents."""
        if self._n_collected:
            self._close_window()
        self.finished = True

    def has_micro_batch(self) -> bool:
        """Whether the documents taken so far fill a micro-batch; tokenizes no more than that."""
        packing = self.rules.packing
        wanted = (self.rules.batch_size - 1) * packing.stride + packing.window
        while self._n_tokens < wanted and self._waiting:
            self._tokenize_some()
        return self._n_tokens >= wanted

    def micro_batch(self) -> dict[str, Any] | None:
        """The next micro-batch with the place behind it; the last one may hold fewer rows.

        None when the shard is dry. Ask only for a full one, or after the last document.
        """
        self.has_micro_batch()  # tokenizes what waits
        packing, batch_size = self.rules.packing, self.rules.batch_size
        n_rows = min(batch_size, packing.n_blocks(self._n_tokens))
        if n_rows == 0:
            return None
        shared = packing.window - packing.stride
        n_taken = min(n_rows * packing.stride + shared, self._n_tokens)
        run, documents, n_bytes = self._look_ahead(n_taken, shared)
        starts = np.arange(batch_size) * packing.stride
        lengths = np.clip(n_taken - starts, 0, packing.window)
        lengths[n_rows:] = 0
        places = np.minimum(starts[:, None] + np.arange(packing.window), n_taken - 1)
        numbers = np.full(batch_size, FILLER_BLOCK, dtype=np.int64)
        numbers[:n_rows] = (
            self.position.block + np.arange(n_rows)
        ) * self.rules.n_shards + self.number
        apart = documents[places] if packing.isolate else None
        rows = packing.rows(run[places], lengths, np.full(batch_size, self.epoch), numbers, apart)
        self._advance(min(n_rows * packing.stride, n_taken), n_rows)
        batch = default_convert(rows)
        batch["n_bytes"] = default_convert(np.float64(n_bytes))
        batch["position"] = {"shard": self.number, "place": list(self.position)}
        return batch

    def _close_window(self) -> None:
        window, texts, rules = self._window, self._collected, self.rules
        self._window += 1
        self._collected, self._n_collected, self._n_characters = [], 0, 0
        order: Iterable[int] = range(len(texts))
        if rules.shuffle:
            index = window * rules.n_shards + self.number
            draw = generator(Purpose.DOCUMENT_ORDER, rules.seed, self.epoch, index)
            order = draw.permutation(len(texts)).tolist()
        first = self.start.document if window == self.start.window else 0
        in_order = [_Text(window, number, texts[i]) for number, i in enumerate(order)]
        self._waiting.extend(in_order[first:])

    def _tokenize_some(self) -> None:
        batch: list[_Text] = []
        n_characters = 0
        while self._waiting and n_characters < _BATCH_CHARACTERS:
            batch.append(self._waiting.popleft())
            n_characters += len(batch[-1].text)
        end = [] if self.tokenizer.end_id is None else [self.tokenizer.end_id]
        all_ids = self.tokenizer.encode_documents([waiting.text for waiting in batch])
        for (window, number, text), ids in zip(batch, all_ids, strict=True):
            ids = np.concatenate([ids, np.array(end, dtype=ids.dtype)])
            if len(ids) == 0:
                continue
            share = len(text.encode()) / len(ids)
            self._documents.append(_Document(window, number, ids, share))
            self._n_tokens += len(ids)
            if (window, number) == self.start[:2]:
                self._n_tokens -= self.start.token

    def _look_ahead(self, n_tokens: int, shared: int) -> tuple[np.ndarray, np.ndarray, float]:
        """The next tokens, not used up, their documents, and the bytes behind the targets.

        The first `shared` tokens were targets of the micro-batch before, if there was one. The
        first token of an isolated document is none.
        """
        parts: list[np.ndarray] = []
        n_bytes, used, missing = 0.0, self._used_of_first(), n_tokens
        skipped = shared if self.position.block else 0
        opening = shared if self.rules.packing.isolate else 0
        for document in self._documents:
            part = document.ids[used : used + missing]
            parts.append(part)
            uncounted = min(max(skipped, opening if used == 0 else 0), len(part))
            n_bytes += document.bytes_per_token * (len(part) - uncounted)
            skipped -= min(skipped, len(part))
            missing, used = missing - len(part), 0
            if missing == 0:
                break
        documents = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return np.concatenate(parts).astype(np.int64), documents, n_bytes

    def _used_of_first(self) -> int:
        first = self._documents[0]
        at_start = (first.window, first.number) == self.position[:2]
        return self.position.token if at_start else 0

    def _advance(self, n_tokens: int, n_blocks: int) -> None:
        """Use tokens up; a shared one stays, to be the first input of the next block."""
        used = self._used_of_first() + n_tokens
        while len(self._documents) > 1 and used >= len(self._documents[0].ids):
            used -= len(self._documents.popleft().ids)
        self._n_tokens -= n_tokens
        first = self._documents[0]
        self.position = ShardPosition(
            first.window, first.number, used, self.position.block + n_blocks
        )
