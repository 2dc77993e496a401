"""The token cache: a corpus tokenized once into memory-mapped files.

Folder `tokens/<key>/`, for each split: `<split>.ids` (raw uint16, or uint32 above 65,536 entries),
`<split>.borders` (raw int64: where each document ends in the ids) and `<split>.bytes` (raw int64:
UTF-8 bytes of all documents up to and with each one), plus `meta.json`. No block structure is
stored, so the sequence length may change without tokenizing again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock
from tqdm import tqdm

from pretrain.errors import UserError

if TYPE_CHECKING:
    from pretrain.data.source import Document, TextSource
    from pretrain.data.tokenizer import Tokenizer

FORMAT_VERSION = 1
BATCH_CHARACTERS = 1_000_000  # handed to the tokenizer at once: bounds the memory of a fill
BATCHES_PER_RECORD = 16  # what a killed fill loses at most


class TokenStream:
    """The tokens of one split of a filled cache: its documents, joined, in corpus order.

    Opened lazily, so that an instance is cheap to send to a worker process.

    Args:
        folder: a filled cache.
        split: one of the splits that its `meta.json` names.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.folder, self.split = folder, split
        meta = read_meta(folder)
        self.source: str = meta["source"]
        self._dtype = np.dtype(meta["dtype"])
        facts = meta["splits"][split]
        self.n_documents: int = facts["n_documents"]
        self.n_tokens: int = facts["n_tokens"]
        self.n_bytes: int = facts["n_bytes"]

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenStream, (self.folder, self.split)

    @cached_property
    def ids(self) -> np.ndarray:
        """Token ids (n_tokens,)."""
        return self._open("ids", self._dtype, self.n_tokens)

    @cached_property
    def borders(self) -> np.ndarray:
        """Where each document ends in `ids` (n_documents,)."""
        return self._open("borders", np.dtype(np.int64), self.n_documents)

    @cached_property
    def byte_ends(self) -> np.ndarray:
        """UTF-8 bytes of all documents up to and with each one (n_documents,)."""
        return self._open("bytes", np.dtype(np.int64), self.n_documents)

    def _open(self, kind: str, dtype: np.dtype, length: int) -> np.ndarray:
        if length == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        return np.memmap(self.folder / f"{self.split}.{kind}", dtype, "r", shape=(length,))

    def documents_at(self, positions: np.ndarray) -> np.ndarray:
        """Number of the document that the token at each position belongs to."""
        found = np.searchsorted(self.borders, positions, side="right")
        return np.minimum(found, self.n_documents - 1)

    def bytes_per_token(self, documents: np.ndarray) -> np.ndarray:
        """UTF-8 bytes of documents by number, each spread evenly over its tokens."""
        before = documents - 1
        n_bytes = self.byte_ends[documents] - np.where(documents > 0, self.byte_ends[before], 0)
        n_tokens = self.borders[documents] - np.where(documents > 0, self.borders[before], 0)
        return n_bytes / n_tokens

    def bytes_before(self, positions: np.ndarray) -> np.ndarray:
        """UTF-8 bytes of raw text before each token position, a document's spread over its tokens.

        Differences of it telescope, so the bytes of all blocks add up to those of the split.
        """
        if self.n_documents == 0:
            return np.zeros(positions.shape)
        document = self.documents_at(positions)
        before = document - 1
        start = np.where(document > 0, self.borders[before], 0)
        bytes_start = np.where(document > 0, self.byte_ends[before], 0)
        share = (positions - start) / np.maximum(self.borders[document] - start, 1)
        inside = bytes_start + share * (self.byte_ends[document] - bytes_start)
        return np.where(positions >= self.n_tokens, float(self.n_bytes), inside)


def read_meta(folder: Path) -> dict[str, Any]:
    """What a filled cache says of itself: splits with their counts, dtype, skipped records."""
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))


def cache_folder(cache_dir: Path, source: TextSource, tokenizer: Tokenizer) -> Path:
    """Where the tokens of this source under this tokenizer belong.

    The source's fingerprint covers its files and every rule that makes documents of them.
    """
    inputs = json.dumps([FORMAT_VERSION, source.fingerprint, tokenizer.fingerprint])
    return cache_dir / "tokens" / hashlib.sha256(inputs.encode()).hexdigest()[:32]


def fill_cache(cache_dir: Path, source: TextSource, tokenizer: Tokenizer) -> Path:
    """Tokenize the source unless that is done already; gives the folder of the filled cache.

    A fill that was killed goes on where it stopped; a second run that wants the same tokens waits.

    Raises:
        UserError: the folder cannot be written (a full disk, no permission).
    """
    folder = cache_folder(cache_dir, source, tokenizer)
    with _writing_to(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{folder}.lock")
        lock.acquire()
    with lock:
        if not (folder / "meta.json").exists():
            partial = folder.with_name(folder.name + ".partial")
            with _Writer(partial, source.splits, tokenizer) as writer:
                _tokenize(source, writer)
                writer.finish(source)
            with _writing_to(folder):
                partial.rename(folder)
    return folder


def document_batches(
    documents: Iterable[tuple[str, Document]],
) -> Iterator[list[tuple[str, Document]]]:
    """Consecutive documents in lists of at most BATCH_CHARACTERS characters, or of one."""
    batch: list[tuple[str, Document]] = []
    n_characters = 0
    for item in documents:
        if batch and n_characters + len(item[1].text) > BATCH_CHARACTERS:
            yield batch
            batch, n_characters = [], 0
        batch.append(item)
        n_characters += len(item[1].text)
    if batch:
        yield batch


def _tokenize(source: TextSource, writer: _Writer) -> None:
    documents = iter(source.documents())
    done = writer.n_read
    for _ in range(done):
        next(documents, None)
    bar = tqdm(
        desc=f"Tokenizing {source.name}",
        total=source.local_bytes,
        initial=writer.n_bytes_read,
        unit="B",
        unit_scale=True,
        disable=None,
    )
    with bar:
        for count, batch in enumerate(document_batches(documents), start=1):
            bar.update(writer.append(batch))
            if count % BATCHES_PER_RECORD == 0:
                writer.record()


class _Writer:
    """Appends to the files of a cache in the making and keeps a record to continue from."""

    def __init__(self, folder: Path, splits: tuple[str, ...], tokenizer: Tokenizer) -> None:
        self.folder, self.tokenizer = folder, tokenizer
        self.dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 65_536 else np.uint32)
        self.counts = {split: {"n_documents": 0, "n_tokens": 0, "n_bytes": 0} for split in splits}
        self.files: dict[tuple[str, str], Any] = {}

    @property
    def n_read(self) -> int:
        return sum(count["n_documents"] for count in self.counts.values())

    @property
    def n_bytes_read(self) -> int:
        return sum(count["n_bytes"] for count in self.counts.values())

    def __enter__(self) -> _Writer:
        with _writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            record = self.folder / "progress.json"
            if record.exists():
                self.counts = json.loads(record.read_text(encoding="utf-8"))
            for split, count in self.counts.items():
                # Whatever was written after the last record is written again.
                for kind, size in self._sizes(count).items():
                    file = (self.folder / f"{split}.{kind}").open("ab")
                    file.truncate(size)
                    self.files[split, kind] = file
        return self

    def __exit__(self, *exc_info: object) -> None:
        with _writing_to(self.folder):
            for file in self.files.values():
                file.close()

    def _sizes(self, count: dict[str, int]) -> dict[str, int]:
        return {
            "ids": count["n_tokens"] * self.dtype.itemsize,
            "borders": count["n_documents"] * 8,
            "bytes": count["n_documents"] * 8,
        }

    def append(self, batch: list[tuple[str, Document]]) -> int:
        """Tokenize and write a list of (split, document); gives its UTF-8 bytes."""
        all_ids = self.tokenizer.encode_documents([document.text for _, document in batch])
        end = [] if self.tokenizer.end_id is None else [self.tokenizer.end_id]
        new_bytes = 0
        for split, count in self.counts.items():
            members = [i for i, (other, _) in enumerate(batch) if other == split]
            if not members:
                continue
            lengths = np.array([len(all_ids[i]) + len(end) for i in members], dtype=np.int64)
            n_bytes = np.array([len(batch[i][1].text.encode()) for i in members], dtype=np.int64)
            joined = np.concatenate([part for i in members for part in (all_ids[i], end)])
            with _writing_to(self.folder):
                self.files[split, "ids"].write(joined.astype(self.dtype).tobytes())
                borders = count["n_tokens"] + np.cumsum(lengths)
                self.files[split, "borders"].write(borders.tobytes())
                byte_ends = count["n_bytes"] + np.cumsum(n_bytes)
                self.files[split, "bytes"].write(byte_ends.tobytes())
            count["n_documents"] += len(members)
            count["n_tokens"] += int(lengths.sum())
            count["n_bytes"] += int(n_bytes.sum())
            new_bytes += int(n_bytes.sum())
        return new_bytes

    def record(self) -> None:
        """Make what was written so far the place to continue from."""
        with _writing_to(self.folder):
            for file in self.files.values():
                file.flush()
                os.fsync(file.fileno())
        self._write_json("progress.json", self.counts)

    def finish(self, source: TextSource) -> None:
        """Write `meta.json`, the last file of a complete cache."""
        self.record()
        meta = {
            "format_version": FORMAT_VERSION,
            "source": source.name,
            "dtype": self.dtype.name,
            "splits": self.counts,
            "bad_records": dict(Counter(source.bad_records)),
            "n_cut": source.n_cut,
        }
        self._write_json("meta.json", meta)
        with _writing_to(self.folder):
            (self.folder / "progress.json").unlink()

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        with _writing_to(self.folder):
            temporary = self.folder / f"{name}.tmp"
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / name)


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"The token cache cannot be written to {folder} ({error.strerror or error}): "
            "free space there or name another folder with cache_dir."
        ) from error
