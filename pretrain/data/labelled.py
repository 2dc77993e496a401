"""Examples: texts, or pairs of texts, with a label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pretrain.data.builtin_packages import PackageCorpus
from pretrain.data.corpora import Corpus
from pretrain.data.document import Document, RecordRule, SourceOptions
from pretrain.data.labels import BadLabelError, LabelKind, read_label
from pretrain.data.source import TextSource
from pretrain.data.splits import TRAIN, VALIDATION
from pretrain.errors import UserError


@dataclass(frozen=True)
class Example(Document):
    """A text, the text that it is compared with, and what is to be predicted.

    The label has the form that `read_label` gives; it is None where labels are not read.
    """

    pair: str | None = None
    label: Any = None


@dataclass(frozen=True)
class ExampleOptions(SourceOptions):
    """Which fields of a row hold what.

    Attributes:
        pair_field: the field of the second text; None where there is one text.
        label_field: the field of the label; None reads no labels.
        kind: one class (``single``), a list of classes (``multi``) or a number (``regression``).

    Raises UserError for a value outside these.
    """

    pair_field: str | None = None
    label_field: str | None = "label"
    kind: LabelKind = "single"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in get_args(LabelKind):
            choices = ", ".join(get_args(LabelKind))
            raise UserError(f"kind is {self.kind!r}: choose one of {choices}")


class LabelledRule(RecordRule):
    """Refuses, beside what is no text, an example whose second text or label is missing or bad."""

    options: ExampleOptions

    @property
    def fields(self) -> list[str]:
        """The fields of a row that are read."""
        options = self.options
        named = (options.text_field, options.pair_field, options.label_field)
        return list(dict.fromkeys(field for field in named if field is not None))

    def text(self, text: str, where: str) -> Document:
        """An example without a label; plain text has none."""
        if self.options.label_field is None and self.options.pair_field is None:
            return Example(text, where)
        raise UserError(
            f"{where}: plain text has no labels: use JSONL, CSV, TSV or Parquet with named fields"
        )

    def _documents(self, row: dict[str, Any], where: str) -> Iterator[Document]:
        options = self.options
        pair = None if options.pair_field is None else row[options.pair_field]
        label = None
        if options.label_field is not None:
            label = read_label(options.kind, row[options.label_field])
        yield Example(row[options.text_field], where, pair, label)

    def _wrong(self, row: Any) -> tuple[str, str]:
        wrong = super()._wrong(row)
        if not any(wrong) and self.options.pair_field is not None:
            wrong = self._wrong_text(row, "pair_field")
        if not any(wrong) and self.options.label_field is not None:
            wrong = self._wrong_label(row, self.options.label_field)
        return wrong

    def _wrong_label(self, row: dict[str, Any], name: str) -> tuple[str, str]:
        missing = self._missing(row, "label_field")
        if any(missing):
            return missing
        try:
            read_label(self.options.kind, row[name])
        except BadLabelError as error:
            return f'label "{name}" {error.reason}', error.detail
        return "", ""


class ExampleSource(TextSource):
    """The examples behind a source string: see `TextSource`.

    A ``hash`` split goes by the first text, so that all pairs of a text are on one side; a ``tail``
    split holds out the last examples. The built-in corpus has packages for labels.
    """

    options: ExampleOptions
    rule = LabelledRule

    def examples(self, *splits: str) -> Iterator[tuple[str, Example]]:
        """(split, example) of the splits asked for; raises UserError as `documents` does."""
        for split, document in self._stream(splits):
            if split in splits:
                assert isinstance(document, Example)
                yield split, document

    def texts(self, split: str) -> Iterator[str]:
        """The texts of one split, both of a pair."""
        for _, example in self.examples(split):
            yield example.text
            if example.pair is not None:
                yield example.pair

    def _open(self, source: str, cache_dir: Path | None) -> Corpus:
        return PackageCorpus(cache_dir) if source == "builtin" else super()._open(source, cache_dir)

    def _two_sides(self, documents: Iterable[Document]) -> Iterator[tuple[str, Document]]:
        if self.options.split == "hash":
            yield from super()._two_sides(documents)
            return
        held = list(documents)
        n_train = int(len(held) * (1 - self.options.split_share))
        for number, document in enumerate(held):
            yield TRAIN if number < n_train else VALIDATION, document
