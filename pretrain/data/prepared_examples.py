"""Labelled examples made ready for a run: read, tokenized, and held in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretrain.data.document import RecordRule
from pretrain.data.framing import Framing, Rows
from pretrain.data.labelled import Example, ExampleSource
from pretrain.data.labelled_rows import no_targets, targets
from pretrain.data.labels import Labels
from pretrain.data.splits import TRAIN
from pretrain.data.tokenizer_training import TokenizerRule, resolve_tokenizer
from pretrain.errors import UserError

MAX_CHARACTERS = 1_000_000_000  # of the texts of a run
_LABELS_SHOWN = 20


@dataclass(frozen=True)
class ExampleFacts:
    """How much a split holds: examples, tokens with their frames, and examples that were cut."""

    n_examples: int
    n_tokens: int
    n_cut: int


@dataclass(frozen=True)
class HeldSplit:
    """The examples of a split, their rows and what is to be predicted of them."""

    examples: list[Example]
    rows: Rows
    targets: np.ndarray

    @property
    def facts(self) -> ExampleFacts:
        """How much it holds."""
        return ExampleFacts(len(self.rows), int(self.rows.lengths.sum()), self.rows.n_cut)


class PreparedExamples:
    """A source of examples, its tokenizer, and the splits that were read.

    Args:
        source: where the examples are.
        framing: how they become rows.

    Attributes:
        labels: of the training examples, once these were read, or those of a checkpoint.
        bad_records: how many records were skipped in the splits that were read, by reason.
    """

    def __init__(self, source: ExampleSource, framing: Framing) -> None:
        self.source, self.framing = source, framing
        self.options = source.options
        self.labels: Labels | None = None
        self.bad_records: Counter[str] = Counter()
        self.held: dict[str, HeldSplit] = {}

    @classmethod
    def open(
        cls,
        source: ExampleSource,
        *,
        tokenizer: str | TokenizerRule,
        max_len: int,
        cache_dir: Path,
    ) -> PreparedExamples:
        """Train or load the tokenizer.

        Raises:
            UserError: what was asked for does not go together, or cannot be read.
        """
        resolved = resolve_tokenizer(tokenizer, source, cache_dir)
        return cls(source, Framing(resolved, max_len, source.options.pair_field is not None))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the source has."""
        return self.source.splits

    def read(self, splits: Sequence[str]) -> None:
        """Hold these splits, if they are not held yet; labels come with the training split.

        Raises:
            UserError: a bad record or label, or one that training does not have.
        """
        missing = [split for split in splits if split not in self.held]
        if not missing:
            return
        found = _collected(self.source, missing)
        counts = Counter(self.source.bad_records)
        framed = {split: self._framed(examples, counts) for split, examples in found.items()}
        if self.labels is None:
            self.labels = Labels.from_examples(self.options.kind, framed[TRAIN][0])
        for split, (examples, rows) in framed.items():
            self.held[split] = HeldSplit(examples, rows, self._targets(self.labels, examples))
        self.bad_records.update(counts)

    def _framed(self, examples: list[Example], counts: Counter[str]) -> tuple[list[Example], Rows]:
        rows = self.framing.rows(examples)
        empty = np.flatnonzero(rows.lengths == 0)
        for number in empty:
            rule = RecordRule(self.options, counts)
            rule.refuse(examples[number].where, "the tokenizer makes no token of the text")
        if len(empty):
            examples = [one for one, n in zip(examples, rows.lengths, strict=True) if n]
            rows = self.framing.rows(examples)
        if not examples:
            raise UserError(f"{self.source.name} holds no text that the tokenizer knows a token of")
        return examples, rows

    def _targets(self, labels: Labels, examples: list[Example]) -> np.ndarray:
        if self.options.label_field is None:
            return no_targets(labels, len(examples))
        return targets(labels, examples)

    @property
    def class_counts(self) -> list[int]:
        """How many training examples have each label, by id; empty for regression."""
        assert self.labels is not None
        if self.labels.kind == "regression":
            return []
        numbers = self.held[TRAIN].targets
        if self.labels.kind == "multi":
            return [int(count) for count in numbers.sum(axis=0)]
        return np.bincount(numbers[numbers >= 0], minlength=self.labels.n_outputs).tolist()

    @property
    def notes(self) -> list[str]:
        """Lines for the user: how many examples of which label, what was cut or skipped."""
        name = self.source.name
        sizes = ", ".join(f"{split} {len(held.rows):,}" for split, held in self.held.items())
        lines = [self.source.note] if self.source.note else []
        lines.append(f"{name}: {sizes} examples{self._listed_labels()}")
        for split, held in self.held.items():
            if held.rows.n_cut:
                lines.append(
                    f"{name}: {held.rows.n_cut:,} of {len(held.rows):,} {split} examples are "
                    f"longer than max_len {self.framing.max_len} and were cut"
                )
        for reason, count in self.bad_records.items():
            lines.append(f"{name}: {count:,} records skipped: {reason}")
        return lines

    def _listed_labels(self) -> str:
        if self.labels is None or not self.labels.names or TRAIN not in self.held:
            return ""
        names = self.labels.names
        counts = zip(names, self.class_counts, strict=True)
        listed = ", ".join(f"{name} {count:,}" for name, count in list(counts)[:_LABELS_SHOWN])
        more = f" and {len(names) - _LABELS_SHOWN} more" if len(names) > _LABELS_SHOWN else ""
        return f"; {len(names)} labels: {listed}{more}"


def _collected(source: ExampleSource, splits: list[str]) -> dict[str, list[Example]]:
    held: dict[str, list[Example]] = {split: [] for split in splits}
    n_characters = 0
    for split, example in source.examples(*splits):
        held[split].append(example)
        n_characters += len(example.text) + len(example.pair or "")
        if n_characters > MAX_CHARACTERS:
            raise UserError(
                f"{source.name} has more than {MAX_CHARACTERS:,} characters of labelled text, "
                "which are held in memory: take a part of it."
            )
    return held
