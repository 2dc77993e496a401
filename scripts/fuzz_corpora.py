"""Corpora that `prove_fuzz.py` reads: every format, with good and bad records, whole or damaged."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pretrain.data.corpora import FileCorpus, open_corpus
from pretrain.data.document import RecordRule, SourceOptions
from pretrain.data.labelled import ExampleOptions, LabelledRule

FORMATS = ("txt", "jsonl", "csv", "tsv", "parquet")
_PIECES = ("a", "the cat", "naïve", "日本語", "🙂", "<|endoftext|>", "[MASK]", "\u2028", "\x0b",
           "\x85", "\ufeff", '"', "'", ",", "\t", "\\", "{}", "1", "  ",
           "\u0301", "ß" * 9)  # fmt: skip


class SilentLossError(Exception):
    """Documents that are neither read nor counted as skipped, or a damage that nobody was told."""


@dataclass
class Corpus:
    """A file, what makes a document of it, and what it holds.

    texts and n_bad are None where a damage leaves nobody to know.
    """

    path: Path
    rule: RecordRule
    texts: list[str] | None
    n_bad: int | None
    n_records: int | None  # both together
    is_cut: bool = False  # a compressed file without its end


def read_corpus(rng: Random, folder: Path, kind: str) -> None:
    """Make a corpus and read it.

    Raises:
        UserError: It is refused, for a reason.
        SilentLossError: It should have been, or something is missing.
    """
    corpus = _make(rng, folder, kind)
    source = open_corpus(str(corpus.path))
    assert isinstance(source, FileCorpus)
    documents = [one for part in source.parts for one in source.documents(part, corpus.rule)]
    n_skipped = corpus.rule.counts.total()
    if corpus.is_cut:
        raise SilentLossError(f"{corpus.path.name} has no end, and nobody was told")
    if corpus.n_bad and corpus.rule.options.on_bad_record == "error":
        raise SilentLossError(f"{corpus.n_bad} bad records, and nobody was told")
    if corpus.texts is not None and [one.text for one in documents] != corpus.texts:
        raise SilentLossError(f"{len(documents)} texts differ from {len(corpus.texts)} written")
    if corpus.n_records is not None and len(documents) + n_skipped != corpus.n_records:
        raise SilentLossError(f"{len(documents)} + {n_skipped} of {corpus.n_records} records")


def damaged(rng: Random, content: bytes) -> bytes:
    """``content`` with some bits flipped, bytes put in, taken out or set to zero."""
    held = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        place, length = rng.randrange(len(held) + 1), rng.choice((1, 1, 4, 64))
        how = rng.randrange(6)
        if how == 0 and place < len(held):
            held[place] ^= 1 << rng.randrange(8)
        elif how > 3:
            held[place : place + 1] = bytes(rng.choices(range(32, 127), k=rng.randrange(3)))
        elif how == 1:
            held[place:place] = rng.randbytes(length)
        elif how == 2:
            del held[place : place + length]
        else:
            held[place : place + length] = bytes(length)
    return bytes(held)


def _make(rng: Random, folder: Path, kind: str) -> Corpus:
    labelled = kind != "txt" and rng.random() < 0.4
    on_bad = rng.choice(("error", "skip"))
    document = rng.choice(("line", "line", "paragraph", "file")) if kind == "txt" else "line"
    with_bad = rng.random() < 0.5
    texts = [_text(rng, kind, document) for _ in range(rng.randrange(0, 12))]
    records = [(text, with_bad and rng.random() < 0.3) for text in texts]
    if document == "file":
        records = records[:1]
    content = _WRITERS[kind](rng, records, document, labelled)
    suffix = rng.choice(("", "", ".gz", ".bz2", ".xz", ".zst")) if kind != "parquet" else ""
    plain_before = content
    packed = _compressed(content, suffix)
    fate = rng.choice(("whole", "whole", "damaged", "cut"))
    if fate == "damaged":
        packed = damaged(rng, packed)
    elif fate == "cut":
        packed = packed[: rng.randrange(len(packed))] if packed else packed
    path = folder / f"corpus.{kind}{suffix}"
    path.write_bytes(packed)
    rule = _rule(labelled, document, on_bad)
    if fate == "whole" or packed == _compressed(plain_before, suffix):
        good = [text for text, is_bad in records if not is_bad]
        return Corpus(path, rule, good, len(records) - len(good), len(records))
    if suffix:
        return Corpus(path, rule, None, None, None, is_cut=fate == "cut")
    lines_tell = kind == "jsonl" or (kind == "txt" and document == "line")
    n_records = _count_lines(packed) if lines_tell else None
    return Corpus(path, rule, None, None, n_records)


def _rule(labelled: bool, document: Any, on_bad: Any) -> RecordRule:
    if labelled:
        return LabelledRule(ExampleOptions(on_bad_record=on_bad), Counter())
    return RecordRule(SourceOptions(document=document, on_bad_record=on_bad), Counter())


def _text(rng: Random, kind: str, document: str) -> str:
    text = "x" + "".join(rng.choices(_PIECES, k=rng.randrange(1, 8))) + "y"
    if kind != "txt" and rng.random() < 0.3:
        text += rng.choice(("\n", "\r\n", "\n\n")) + "z"
    if kind == "txt" and document != "line" and rng.random() < 0.5:
        text += "\nz"
    return text


def _write_txt(rng: Random, records: list[Any], document: str, labelled: bool) -> bytes:
    flaws = (b"\0", b"\xff", b"\xed\xa0\x80")
    rows = [text.encode() + (rng.choice(flaws) if is_bad else b"") for text, is_bad in records]
    if document == "file":
        return b"".join(rows)
    between = (b"\n", b"\r\n", b"\n\n", b"\n \t\n") if document == "line" else (b"\n\n", b"\n \n\n")
    content = b"".join(row + rng.choice(between) for row in rows)
    return rng.choice((b"", b"\xef\xbb\xbf")) + rng.choice((content, content.rstrip(b"\r\n \t")))


def _write_jsonl(rng: Random, records: list[Any], document: str, labelled: bool) -> bytes:
    flaws: tuple[bytes, ...] = (
        b'{"text": null}', b'{"text": ""}', b'{"text": 3}', b'{"other": "x"}', b"[1]", b"{", b"nul",
        b'{"text": "\\ud800"}', b'{"text": "\\u0000"}', b'{"text": "\xff"}', b'{"text": {"a": 1}}',
        b"[" * 99_999, b'"x', b"NaN", b"1" * 5_000,
    )  # fmt: skip
    label = {"label": "a"} if labelled else {}
    escaped = rng.random() < 0.5
    rows = [
        rng.choice(flaws) if is_bad
        else json.dumps({"text": text, **label}, ensure_ascii=escaped).encode()
        for text, is_bad in records
    ]  # fmt: skip
    content = b"".join(row + rng.choice((b"\n", b"\r\n", b"\n\n")) for row in rows)
    return rng.choice((b"", b"\xef\xbb\xbf")) + content


def _write_table(delimiter: str, rng: Random, records: list[Any], labelled: bool) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=rng.choice((0, 1)))
    names = ["text", "label"] if labelled else ["text", "number"]
    writer.writerow(names)
    for text, is_bad in records:
        bad: list[list[str]] = [["", "1"], [text, "1", "2"], [text], [f"{text}\0", "1"]]
        writer.writerow(rng.choice(bad) if is_bad else [text, "1"])
    return out.getvalue().encode()


def _write_csv(rng: Random, records: list[Any], document: str, labelled: bool) -> bytes:
    return _write_table(",", rng, records, labelled)


def _write_tsv(rng: Random, records: list[Any], document: str, labelled: bool) -> bytes:
    return _write_table("\t", rng, records, labelled)


def _write_parquet(rng: Random, records: list[Any], document: str, labelled: bool) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    texts = [rng.choice((None, "", " ", "\0")) if is_bad else text for text, is_bad in records]
    columns = {"text": pa.array(texts, pa.string()), "label": pa.array([1] * len(texts))}
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, row_group_size=4)
    return out.getvalue()


def _compressed(content: bytes, suffix: str) -> bytes:
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=True).compress(content)
    known = {".gz": lambda b: gzip.compress(b, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress}
    return known[suffix](content) if suffix else content


def _count_lines(content: bytes) -> int:
    if codecs.BOM_UTF8.startswith(content):  # a byte order mark that is cut off holds no text
        return 0
    text = content.decode("utf-8-sig", errors="surrogateescape")
    return sum(1 for line in re.split("\r\n|\n|\r", text) if line.strip())


_WRITERS = {
    "txt": _write_txt,
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "tsv": _write_tsv,
    "parquet": _write_parquet,
}
