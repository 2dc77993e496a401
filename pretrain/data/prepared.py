"""A corpus made ready for a run: its sources, their tokenizer and their cached tokens."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pretrain.data.mixing import shares
from pretrain.data.packing import Packing
from pretrain.data.pieces import cut_note
from pretrain.data.source import SourceOptions, TextSource
from pretrain.data.token_cache import TokenStream, fill_cache, read_meta
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, resolve_tokenizer
from pretrain.errors import UserError

MAX_CACHED_BYTES = 20e9  # local files above it are streamed unless a cache is asked for


@dataclass(frozen=True)
class SplitFacts:
    """How much a split holds: documents, tokens, UTF-8 bytes and blocks."""

    n_documents: int
    n_tokens: int
    n_bytes: int
    n_blocks: int


class JoinedSource(TextSource):
    """Several sources as one, to train a tokenizer on all of them."""

    def __init__(self, sources: list[TextSource]) -> None:
        self.sources = sources
        self.name = " + ".join(source.name for source in sources)
        self.splits = sources[0].splits

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over those of the sources, in hex."""
        parts = " ".join(source.fingerprint for source in self.sources)
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def local_bytes(self) -> int | None:
        """Bytes on this machine's disk, None if any of the text is elsewhere."""
        sizes = [source.local_bytes for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def texts(self, split: str) -> Iterator[str]:
        """The texts of one split, source after source."""
        for source in self.sources:
            yield from source.texts(split)


@dataclass
class PreparedCorpus:
    """What `PreparedCorpus.open` found, and after `fill` the cached tokens."""

    sources: list[TextSource]
    shares: list[float]  # of a mixture; empty for a single source
    val_source: str | None
    tokenizer: Tokenizer
    uses_cache: bool
    cache_dir: Path
    folders: list[Path] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        source: str | dict[str, float],
        val_source: str | None,
        options: SourceOptions,
        *,
        tokenizer: str | TokenizerRule,
        cache: bool | None,
        cache_dir: Path,
    ) -> PreparedCorpus:
        """Find the sources and train or load the tokenizer.

        Raises:
            UserError: what was asked for does not go together, or cannot be read.
        """
        weights = shares(source) if isinstance(source, dict) else []
        names = list(source) if isinstance(source, dict) else [source]
        sources = [TextSource(name, val_source, options, cache_dir) for name in names]
        joined = JoinedSource(sources) if weights else sources[0]
        uses_cache = _is_cacheable(sources) if cache is None else cache
        if weights and not uses_cache:
            raise UserError("Sources can be mixed from a token cache only: set cache to true.")
        resolved = resolve_tokenizer(tokenizer, joined, cache_dir)
        return cls(sources, weights, val_source, resolved, uses_cache, cache_dir)

    def fill(self) -> None:
        """Tokenize into the cache what is not there yet."""
        if self.uses_cache:
            self.folders = [
                fill_cache(self.cache_dir, source, self.tokenizer) for source in self.sources
            ]

    @property
    def name(self) -> str:
        """The names of the sources."""
        return " + ".join(source.name for source in self.sources)

    @property
    def splits(self) -> set[str]:
        """The splits that any of the sources has."""
        return {split for source in self.sources for split in source.splits}

    def streams(self, split: str) -> list[TokenStream]:
        """The cached tokens of a split, one stream for each source that has it."""
        folders = self.folders
        if split == "validation" and self.val_source is not None:
            folders = folders[:1]  # the sources share it
        return [TokenStream(folder, split) for folder in folders if _has(folder, split)]

    def facts(self, split: str, packing: Packing) -> SplitFacts | None:
        """How much a split holds; None where that is not known before it is read."""
        streams = self.streams(split)
        if not streams:
            return None
        return SplitFacts(
            n_documents=sum(stream.n_documents for stream in streams),
            n_tokens=sum(stream.n_tokens for stream in streams),
            n_bytes=sum(stream.n_bytes for stream in streams),
            n_blocks=sum(packing.n_blocks(stream.n_tokens) for stream in streams),
        )

    @property
    def bad_records(self) -> dict[str, int]:
        """How many records were skipped when the caches were filled, by reason."""
        counts: Counter[str] = Counter()
        for folder in self.folders:
            counts.update(read_meta(folder)["bad_records"])
        return dict(counts)

    @property
    def notes(self) -> list[str]:
        """Lines for the user: which text, how much of it, where its tokens are."""
        lines = []
        for source in self.sources:
            lines += [source.note] if source.note else []
        if not self.uses_cache:
            return [*lines, f"{self.name}: streamed, tokenized while training"]
        for source, folder in zip(self.sources, self.folders, strict=True):
            meta = read_meta(folder)
            sizes = "; ".join(
                f"{split} {facts['n_documents']:,} documents, {facts['n_tokens']:,} tokens"
                for split, facts in meta["splits"].items()
            )
            lines.append(f"{source.name}: {sizes}; tokens cached in {folder}")
            for reason, count in meta["bad_records"].items():
                lines.append(f"{source.name}: {count:,} records skipped: {reason}")
            n_cut = meta.get("n_cut", 0)  # of a cache that was filled earlier nothing is known
            lines += [cut_note(source.name, n_cut)] if n_cut else []
        return lines


def _has(folder: Path, split: str) -> bool:
    return split in read_meta(folder)["splits"]


def _is_cacheable(sources: list[TextSource]) -> bool:
    sizes = [0 if source.name == "builtin" else source.local_bytes for source in sources]
    return all(size is not None for size in sizes) and sum(filter(None, sizes)) <= MAX_CACHED_BYTES
