"""The LightningDataModule of labelled texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from pretrain.data.document import RecordRule
from pretrain.data.files import default_cache_dir
from pretrain.data.framing import Framing, Rows
from pretrain.data.labelled import Example, ExampleOptions, ExampleSource
from pretrain.data.labelled_rows import LabelledRows, no_targets, targets
from pretrain.data.labels import Labels
from pretrain.data.length_groups import LengthGroups
from pretrain.data.loaders import indexed_loader
from pretrain.data.reading_order import ExampleOrder
from pretrain.data.resumable import ResumableDataModule
from pretrain.data.sampler import Repeated
from pretrain.data.splits import TEST, TRAIN, VALIDATION
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, resolve_tokenizer
from pretrain.errors import UserError

MAX_CHARACTERS = 1_000_000_000  # of the texts of a run, which are held in memory


@dataclass(frozen=True)
class ExampleFacts:
    """How much a split holds: examples, tokens with their frames, and examples that were cut."""

    n_examples: int
    n_tokens: int
    n_cut: int


@dataclass(frozen=True)
class _Split:
    examples: list[Example]
    rows: Rows

    @cached_property
    def facts(self) -> ExampleFacts:
        return ExampleFacts(len(self.rows), int(self.rows.lengths.sum()), self.rows.n_cut)


class ClassificationDataModule(ResumableDataModule):
    """Batches of labelled texts or pairs of texts: see `ClassificationBatch`.

    Examples are held in memory. Every epoch sees each one once, in an order that follows from
    (seed, epoch) alone; evaluation batches carry the `index` of each row in its split.

    Args:
        source: JSONL, CSV, TSV or Parquet with named fields, a folder or URL of such files, a
            Hugging Face name, or "builtin": which package does a documentation text come from?
        val_source: where validation examples come from; None takes them from the source.
        text_field: the field of the text.
        pair_field: the field of the second text, for pairs.
        label_field: the field of the label; None reads no labels (see `use_labels`).
        kind: "single" (one class), "multi" (a list of classes) or "regression" (a number).
        split: how validation examples are held out: "hash" of the text, or "tail".
        split_share: the share held out.
        on_bad_record: "error", or "skip" and count.
        tokenizer: a path, or a rule to train one by on the training texts; None where it comes
            with the pretrained network.
        max_len: tokens in a row at most, special tokens included.
        batch_size: rows in a micro-batch of one device.
        tokens_per_batch: padded tokens in a micro-batch at most, in place of ``batch_size``.
        group_by_length: put texts of similar length into a micro-batch.
        num_workers: processes that prepare batches.
        cache_dir: of trained tokenizers and the built-in corpus; None is ~/.cache/pretrain.
        seed: of the order of the data; None takes that of `seed_everything`, or 0.

    Raises UserError, in `prepare_data` and `setup`, for what cannot be trained on.
    """

    objective = "classification"

    def __init__(
        self,
        source: str = "builtin",
        val_source: str | None = None,
        text_field: str = "text",
        pair_field: str | None = None,
        label_field: str | None = "label",
        kind: str = "single",
        split: str = "hash",
        split_share: float = 0.1,
        on_bad_record: str = "error",
        *,
        tokenizer: str | TokenizerRule | None = None,
        max_len: int = 128,
        batch_size: int = 32,
        tokens_per_batch: int | None = None,
        group_by_length: bool = True,
        num_workers: int = 0,
        cache_dir: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(batch_size, num_workers, seed)
        if source is None:  # how YAML reads ~ or #
            raise UserError("source is empty: give a file, a folder, a URL or a dataset's name.")
        if batch_size < 1:
            raise UserError(f"batch_size is {batch_size}: a micro-batch needs at least 1 row.")
        if num_workers < 0:
            raise UserError(f"num_workers is {num_workers}: 0 prepares batches in this process.")
        _check_budget(tokens_per_batch, max_len, group_by_length)
        self.options = ExampleOptions(
            text_field,
            split=split,  # type: ignore[arg-type]
            split_share=split_share,
            on_bad_record=on_bad_record,  # type: ignore[arg-type]
            pair_field=pair_field,
            label_field=label_field,
            kind=kind,  # type: ignore[arg-type]
        )
        self.source, self.val_source, self.tokenizer_spec = source, val_source, tokenizer
        self.seq_len = self.max_len = max_len
        self.tokens_per_batch, self.group_by_length = tokens_per_batch, group_by_length
        self.cache_dir = Path(cache_dir).expanduser() if cache_dir else default_cache_dir()
        self.corpus: ExampleSource | None = None
        self.bad_records: dict[str, int] = {}
        self._framing: Framing | None = None
        self._labels: Labels | None = None
        self._splits: dict[str, _Split] = {}

    # ---- what others may ask

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once `prepare_data` or `setup` has run."""
        return self.framing.tokenizer

    @property
    def framing(self) -> Framing:
        """How texts become rows, once `prepare_data` or `setup` has run."""
        if self._framing is None:
            raise _not_ready()
        return self._framing

    @property
    def labels(self) -> Labels:
        """The labels of the training examples, or those given to `use_labels`."""
        if self._labels is None:
            raise _not_ready()
        return self._labels

    def use_labels(self, labels: Labels) -> None:
        """Take the labels of a checkpoint in place of those of the training examples.

        Then nothing but the split in use is read, which may have no labels.
        """
        self._labels = labels

    @property
    def class_counts(self) -> list[int]:
        """How many training examples have each label, by id; empty for regression."""
        counts: Counter[int] = Counter()
        if self.labels.kind == "regression":
            return []
        for example in self.examples(TRAIN):
            encoded = self.labels.encode(example)
            counts.update(encoded if isinstance(encoded, list) else [int(encoded)])
        return [counts[index] for index in range(self.labels.n_outputs)]

    def examples(self, split: str) -> list[Example]:
        """The examples of a split, in the order that `index` counts."""
        return self._split(split).examples

    def facts(self, split: str) -> ExampleFacts | None:
        """How much a split holds; None for one that was not read."""
        return self._splits[split].facts if split in self._splits else None

    @property
    def notes(self) -> list[str]:
        """What the user should know: how many examples of which label, what was cut or skipped."""
        if self.corpus is None:
            raise _not_ready()
        name, note = self.corpus.name, self.corpus.note
        sizes = ", ".join(f"{split} {len(held.rows):,}" for split, held in self._splits.items())
        lines = [*([note] if note else []), f"{name}: {sizes} examples{self._listed_labels()}"]
        for split, held in self._splits.items():
            if held.rows.n_cut:
                lines.append(
                    f"{name}: {held.rows.n_cut:,} of {len(held.rows):,} {split} examples are "
                    f"longer than max_len {self.max_len} and were cut"
                )
        for reason, count in self.bad_records.items():
            lines.append(f"{name}: {count:,} records skipped: {reason}")
        return lines

    def _listed_labels(self) -> str:
        names = self.labels.names
        if not names or TRAIN not in self._splits or self.options.label_field is None:
            return ""
        counted = [f"{name} {n:,}" for name, n in zip(names, self.class_counts, strict=True)]
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return f"; {len(names)} labels: {', '.join(counted[:20])}{more}"

    # ---- Lightning's hooks

    def prepare_data(self) -> None:
        """Train the tokenizer and scan the built-in corpus, in one process; the others wait."""
        next(self._open().texts(TRAIN), None)

    def setup(self, stage: str | None = None) -> None:
        """Read the examples, in every process, and refuse what cannot be trained on."""
        self._open()
        fits = stage in ("fit", None)
        if fits:
            self._position = None  # a new run starts afresh, unless a checkpoint is loaded
            if self.options.label_field is None:
                raise UserError("label_field is null: training needs the field of the labels.")
        wanted = [VALIDATION] if fits or stage == "validate" else [self._test_split]
        if fits or self._labels is None:
            wanted.insert(0, TRAIN)
        self._read(*wanted)

    def train_dataloader(self) -> DataLoader:
        """Shuffled micro-batches, from the position in the data on.

        Raises:
            UserError: the loaded checkpoint's run read the data in another way.
        """
        self._check_loaded_state()
        loader = self._loader(TRAIN, self._position or self._start)
        self._passes = loader.sampler
        return loader

    def val_dataloader(self) -> DataLoader:
        """Each example of the validation split once, in one fixed order."""
        return self._loader(VALIDATION, None)

    def test_dataloader(self) -> DataLoader:
        """The test split where there is one, else the validation split."""
        return self._loader(self._test_split, None)

    def predict_dataloader(self) -> DataLoader:
        """The examples of `test_dataloader`."""
        return self.test_dataloader()

    def _loader(self, split: str, start: dict[str, Any] | None) -> DataLoader:
        rows = self._labelled_rows(split)
        order = LengthGroups(
            rows.widths,
            self.seed if start is not None else 0,  # figures must not depend on the seed
            batch_size=self.batch_size,
            tokens_per_batch=self.tokens_per_batch,
            grouped=self.group_by_length,
        )
        share = self._share(order.slots)
        return indexed_loader(rows, order if start is not None else Repeated(order), share, start)

    # ---- how it is put together

    def _labelled_rows(self, split: str) -> LabelledRows:
        held = self._split(split)
        unlabelled = self.options.label_field is None
        return LabelledRows(
            held.rows,
            no_targets(self.labels, len(held.rows))
            if unlabelled
            else targets(self.labels, held.examples),
            no_targets(self.labels, 1)[0],
            self.framing,
            self.batch_size,
            keeps_filler=self.tokens_per_batch is None,
        )

    @property
    def _test_split(self) -> str:
        return TEST if self.corpus is not None and TEST in self.corpus.splits else VALIDATION

    def _open(self) -> ExampleSource:
        if self.corpus is None:
            source = ExampleSource(self.source, self.val_source, self.options, self.cache_dir)
            if self.tokenizer_spec is None:
                raise UserError(
                    "There is no tokenizer: fine-tune a checkpoint (--init_from), whose tokenizer "
                    "is used, or give data.tokenizer."
                )
            tokenizer = resolve_tokenizer(self.tokenizer_spec, source, self.cache_dir)
            self._framing = Framing(tokenizer, self.max_len, self.options.pair_field is not None)
            self.corpus = source
        return self.corpus

    def _split(self, split: str) -> _Split:
        self._read(split)
        return self._splits[split]

    def _read(self, *splits: str) -> None:
        """Hold the examples of these splits, if they are not held yet."""
        source, counts = self._open(), Counter(self.bad_records)
        missing = [split for split in splits if split not in self._splits]
        if not missing:
            return
        held = _collected(source, missing)
        counts.update(source.bad_records)
        rule = RecordRule(self.options, counts)
        for split, examples in held.items():
            self._splits[split] = self._framed(examples, rule)
        self.bad_records = dict(counts)
        if self._labels is None:
            self._labels = Labels.from_examples(self.options.kind, self.examples(TRAIN))
        if self.options.label_field is not None:
            for split in missing:  # a label that training doesn't have is told before it starts
                targets(self._labels, self._splits[split].examples)

    def _framed(self, examples: list[Example], rule: RecordRule) -> _Split:
        rows = self.framing.rows(examples)
        empty = np.flatnonzero(rows.lengths == 0)
        for number in empty:
            rule.refuse(examples[number].where, "the tokenizer makes no token of the text")
        if len(empty):
            examples = [one for one, n in zip(examples, rows.lengths, strict=True) if n]
            rows = self.framing.rows(examples)
        return _Split(examples, rows)

    def _order(self) -> ExampleOrder | None:
        facts = self.facts(TRAIN)
        if facts is None:
            return None
        return ExampleOrder(
            batch_size=self.batch_size,
            tokens_per_batch=self.tokens_per_batch,
            group_by_length=self.group_by_length,
            max_len=self.max_len,
            seed=self.seed,
            devices=self._world()[0],
            train_tokens=facts.n_tokens,
        )


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


def _check_budget(tokens_per_batch: int | None, max_len: int, grouped: bool) -> None:
    if tokens_per_batch is None:
        return
    if tokens_per_batch < max_len:
        raise UserError(
            f"tokens_per_batch is {tokens_per_batch}, which holds no row of max_len {max_len}: "
            "raise it, or shorten the rows."
        )
    if not grouped:
        raise UserError("tokens_per_batch needs group_by_length=true: give a batch_size instead.")


def _not_ready() -> UserError:
    return UserError("The data module is not ready: call prepare_data() and setup() first.")
