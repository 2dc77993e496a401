"""A corpus by name: documents, each with its split, streamed in one fixed order."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from pretrain.data.corpora import Corpus, open_corpus
from pretrain.data.document import Document, RecordRule, SourceOptions
from pretrain.data.splits import TEST, TRAIN, VALIDATION, hash_side, tail_sides
from pretrain.errors import UserError

__all__ = ["Document", "SourceOptions", "TextSource"]


class TextSource:
    """The documents behind a source string, with their splits.

    Args:
        source: ``builtin``; a file, glob or folder of .txt, .jsonl, .csv, .tsv or .parquet, plain
            or compressed; a URL that fsspec knows (``s3://``, ``https://``, ``hf://``); or a
            dataset of the Hugging Face hub (``org/name``, ``name:config``).
        val_source: validation text of its own. All of ``source`` (its train part, if its files
            are called train, validation, test) is then training text, and of ``val_source`` the
            validation part if it has one, else all. Without it, a part of ``source`` called
            validation is used, else ``options.split`` holds a share of the training text out.
        options: what a document is, and how the split is made.
        cache_dir: where the scan of the built-in corpus is kept.

    Attributes:
        name: the source string.
        note: which files serve as what, in one line, where names decided it.
        splits: those it has, of train, validation and test.
        holds_out: whether validation text is taken out of the training text.

    Raises UserError for a source that can't be found, or a tail split of unknown length.
    """

    rule: type[RecordRule] = RecordRule  # what makes a document of a record

    def __init__(
        self,
        source: str,
        val_source: str | None = None,
        options: SourceOptions | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        self.name = source
        self.options = options or SourceOptions()
        self._rule = self.rule(self.options, Counter())  # of the latest pass that was started
        corpus = self._open(source, cache_dir)
        # split → the corpus that holds it, and the part of it
        self._plan: dict[str, tuple[Corpus, str]] = {TRAIN: (corpus, TRAIN)}
        if val_source is not None:
            held_out = self._open(val_source, cache_dir)
            part = VALIDATION if VALIDATION in held_out.parts else TRAIN
            self._plan[VALIDATION] = held_out, part
        elif VALIDATION in corpus.parts:
            self._plan[VALIDATION] = corpus, VALIDATION
        if TEST in corpus.parts:
            self._plan[TEST] = corpus, TEST
        self.holds_out = VALIDATION not in self._plan
        self.splits = tuple(
            split
            for split in (TRAIN, VALIDATION, TEST)
            if split in self._plan or split == VALIDATION
        )
        self._corpora = list({id(corpus): corpus for corpus, _ in self._plan.values()}.values())
        self.note = "; ".join(filter(None, (corpus.note for corpus in self._corpora))) or None
        if self.holds_out and self.options.split == "tail" and corpus.local_bytes is None:
            raise UserError(
                f"{source} is a stream of unknown length, which has no tail to hold out: "
                "use split=hash or name a val_source"
            )

    def _open(self, source: str, cache_dir: Path | None) -> Corpus:
        return open_corpus(source, cache_dir)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the documents, in hex."""
        plan = {split: [corpus.identity(), part] for split, (corpus, part) in self._plan.items()}
        text = json.dumps([plan, asdict(self.options)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def bad_records(self) -> Counter[str]:
        """Records skipped in the latest pass that was started, by reason."""
        return self._rule.counts

    @property
    def n_cut(self) -> int:
        """Documents of the latest pass so long that they became several."""
        return self._rule.n_cut

    @property
    def local_bytes(self) -> int | None:
        """Bytes on this machine's disk, None if any of the text is elsewhere."""
        sizes = [corpus.local_bytes for corpus in self._corpora]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def documents(self) -> Iterator[tuple[str, Document]]:
        """(split, document) for all splits in one deterministic order, streamed.

        Raises UserError for a bad record (unless those are skipped), for a file that can't be
        read, and at the end for a split without a document.
        """
        return self._stream(self.splits)

    def texts(self, split: str) -> Iterator[str]:
        """The texts of one split; raises UserError as `documents` does."""
        return (document.text for side, document in self._stream((split,)) if side == split)

    def _stream(self, wanted: tuple[str, ...]) -> Iterator[tuple[str, Document]]:
        self._rule = rule = self.rule(self.options, Counter())
        seen: Counter[str] = Counter()
        for split, (corpus, part) in self._plan.items():
            documents = corpus.documents(part, rule)
            if split == TRAIN and self.holds_out:
                if TRAIN in wanted or VALIDATION in wanted:
                    yield from _counted(self._two_sides(documents), seen)
            elif split in wanted:
                yield from _counted(((split, document) for document in documents), seen)
        for split in wanted:
            if not seen[split]:
                raise UserError(self._without(split, seen))

    def _two_sides(self, documents: Iterable[Document]) -> Iterator[tuple[str, Document]]:
        share = self.options.split_share
        if self.options.split == "tail":
            return tail_sides(documents, self._train_characters, share)
        return ((hash_side(document.text, share), document) for document in documents)

    @cached_property
    def _train_characters(self) -> int:
        corpus, part = self._plan[TRAIN]
        rule = RecordRule(self.options, Counter())
        return sum(len(document.text) for document in corpus.documents(part, rule))

    def _without(self, split: str, seen: Counter[str]) -> str:
        if self.holds_out and split != TEST and seen.total():
            advice = "use split=tail, " if self.options.split == "hash" else "use "
            return (
                f"{self.name} is too small for a {self.options.split} split of "
                f"{self.options.split_share}, which leaves no document for {split}: {advice}"
                "another split_share, or name a val_source"
            )
        skipped = ", ".join(f"{reason}: {n}" for reason, n in self.bad_records.items())
        first = f"; the first is {self._rule.first_skipped}"
        aside = f" (all records were skipped: {skipped}{first})" if skipped else " (empty or blank)"
        return f"{self.name} holds no document for {split}{aside}"


def _counted(
    pairs: Iterable[tuple[str, Document]], seen: Counter[str]
) -> Iterator[tuple[str, Document]]:
    for split, document in pairs:
        seen[split] += 1
        yield split, document
