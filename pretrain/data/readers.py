"""Files to documents: text, JSONL and tables line by line, Parquet and hub rows by `datasets`.

Only LF, CRLF and CR end a line; U+2028, VT or U+0085 are text. A byte order mark is dropped and
blank lines are ignored. Memory is bounded by the longest row; plain text is read in pieces.
"""

import glob
import io
import json
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from pretrain.data.document import Document, RecordRule, flaw
from pretrain.data.pieces import line_ends, text_records
from pretrain.data.tables import DELIMITERS, read_table
from pretrain.errors import UserError

TEXT_EXTENSIONS = (".txt", ".text", ".md")
JSON_EXTENSIONS = (".jsonl", ".ndjson", ".json")
PARQUET_EXTENSIONS = (".parquet",)
EXTENSIONS = (*TEXT_EXTENSIONS, *JSON_EXTENSIONS, *DELIMITERS, *PARQUET_EXTENSIONS)
# extension → fsspec's name of it; None where this module reads it itself
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": None}

_CHUNK_BYTES = 1 << 17
ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class DataFile:
    """A file in a file system of fsspec, and the name that messages give it."""

    filesystem: Any
    path: str
    name: str


def extension(path: str) -> str:
    """The lower-case extension that tells the format, without that of a compression."""
    pure = _without_query(path)
    return PurePosixPath(pure.stem).suffix if pure.suffix in COMPRESSIONS else pure.suffix


def read_documents(file: DataFile, rule: RecordRule) -> Iterator[Document]:
    """The documents of one file, in order.

    Raises UserError naming the file, and the line or row, for a file that can't be read to its
    end or a bad record (unless those are skipped).
    """
    kind = extension(file.path)
    if kind in PARQUET_EXTENSIONS:
        yield from _read_parquet(file, rule)
        return
    # A document that is the whole file keeps its line ends, and so does a quoted field.
    whole = kind in DELIMITERS or (kind in TEXT_EXTENSIONS and rule.options.document == "file")
    with told_by_name(file.name), _opened(file) as raw:
        stream = io.TextIOWrapper(
            # Bytes that are no UTF-8 become lone surrogates, which a decoded text can't hold.
            raw,
            encoding="utf-8-sig",
            errors="surrogateescape",
            newline="" if whole else None,
        )
        if kind in JSON_EXTENSIONS:
            yield from _read_json_lines(stream, file.name, rule)
        elif kind in DELIMITERS:
            yield from read_table(stream, file.name, rule, DELIMITERS[kind])
        else:
            yield from _read_text(stream, file.name, rule)


def read_rows(dataset: Any, name: str, rule: RecordRule) -> Iterator[Document]:
    """The documents of a streaming ``datasets.IterableDataset``; rows are counted from 1."""
    first = next(iter(dataset), None)
    if first is not None and all(field in first for field in rule.fields):
        dataset = dataset.select_columns(rule.fields)
    number = 0
    for batch in dataset.iter(batch_size=ROWS_AT_ONCE):
        columns = list(batch)
        for values in zip(*batch.values(), strict=True):
            number += 1
            row = dict(zip(columns, values, strict=True))
            yield from rule.row(row, f"{name}, row {number}")


def _read_parquet(file: DataFile, rule: RecordRule) -> Iterator[Document]:
    from datasets import load_dataset
    from pyarrow import ArrowException

    address = file.filesystem.unstrip_protocol(glob.escape(file.path))
    with told_by_name(file.name):
        try:
            dataset = load_dataset(
                "parquet",
                data_files=address,
                split="train",
                streaming=True,
                batch_size=ROWS_AT_ONCE,  # else as many as the first row group has: none is refused
            )
            yield from read_rows(dataset, file.name, rule)
        # pyarrow's and datasets' errors for a damaged file share no base class.
        except (ValueError, ArrowException) as error:
            raise OSError(str(error)) from error


def _read_json_lines(stream: IO[str], name: str, rule: RecordRule) -> Iterator[Document]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        if flaw(line) == "a lone surrogate":
            rule.refuse(where, "not UTF-8")
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            cut = "" if line.endswith("\n") else "; the last line may be cut off"
            rule.refuse(where, "not JSON", f" ({_json_fault(error)}{cut})")
            continue
        yield from rule.row(row, where)


def _json_fault(error: Exception) -> str:
    # The decoder's own message counts lines within the row.
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return str(error)


def _read_text(stream: IO[str], name: str, rule: RecordRule) -> Iterator[Document]:
    for number, text in text_records(stream, rule.options.document, rule.note_cut):
        reason = flaw(text)
        if reason is None:
            yield rule.text(text, f"{name}:{number}")
            continue
        reason = "not UTF-8" if reason == "a lone surrogate" else reason
        rule.refuse(f"{name}:{number + _lines_before_flaw(text)}", reason)


def _lines_before_flaw(text: str) -> int:
    bad = next(i for i, char in enumerate(text) if char == "\0" or "\ud800" <= char <= "\udfff")
    return line_ends(text[:bad])


@contextmanager
def told_by_name(name: str) -> Iterator[None]:
    """Turn what a damaged or unreachable file raises into one sentence."""
    try:
        yield
    except UserError:
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise UserError(f"{name} can't be read ({error.strerror or error})") from error
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{name} can't be read to its end, it may be cut off or damaged ({reason})"
        ) from error


@contextmanager
def _opened(file: DataFile) -> Iterator[IO[bytes]]:
    suffix = _without_query(file.path).suffix
    if suffix in COMPRESSIONS and file.filesystem.size(file.path) == 0:
        raise EOFError("it is empty, which no compressed file is")  # gzip says nothing
    with file.filesystem.open(file.path, "rb", compression=COMPRESSIONS.get(suffix)) as raw:
        yield io.BufferedReader(_ZstandardReader(raw, file.name)) if suffix == ".zst" else raw


def _without_query(path: str) -> PurePosixPath:
    """The path in lower case; only a URL can have a query, a file may be called ``what?.txt``."""
    path = path.partition("?")[0] if "://" in path else path
    return PurePosixPath(path.lower())


class _ZstandardReader(io.RawIOBase):
    """All frames of a .zst file; a cut one raises EOFError (fsspec's reader says nothing)."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise UserError(
                f"{name} is compressed with Zstandard: pip install zstandard"
            ) from error
        self._raw = raw
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._failure = zstandard.ZstdError
        self._frame = self._new_frame()
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._frame.unused_data or self._raw.read(_CHUNK_BYTES)
            if not compressed:
                if not self._frame.eof:
                    raise EOFError("the last frame has no end")
                return 0
            if self._frame.eof:
                self._frame = self._new_frame()
            try:
                self._ready = self._frame.decompress(compressed)
            except self._failure as error:
                raise EOFError(str(error)) from error
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size
