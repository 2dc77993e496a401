"""The LightningDataModule of labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from pretrain.data.files import default_cache_dir
from pretrain.data.framing import Framing
from pretrain.data.labelled import Example, ExampleOptions, ExampleSource
from pretrain.data.labelled_rows import LabelledRows, no_targets
from pretrain.data.labels import Labels
from pretrain.data.length_groups import LengthGroups, check_budget
from pretrain.data.loaders import indexed_loader
from pretrain.data.prepared_examples import ExampleFacts, HeldSplit, PreparedExamples
from pretrain.data.reading_order import ExampleOrder
from pretrain.data.resumable import ResumableDataModule
from pretrain.data.sampler import Repeated
from pretrain.data.splits import TEST, TRAIN, VALIDATION
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.errors import UserError


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
        tokenizer: a path, or a rule to train one by on the training texts; None only where a
            checkpoint brings its own.
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
        check_budget(tokens_per_batch, max_len, group_by_length)
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
        self.corpus: PreparedExamples | None = None
        self._given_labels: Labels | None = None

    # ---- what others may ask

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once `prepare_data` or `setup` has run."""
        return self.framing.tokenizer

    @property
    def framing(self) -> Framing:
        """How texts become rows, once `prepare_data` or `setup` has run."""
        return self._ready.framing

    @property
    def labels(self) -> Labels:
        """The labels of the training examples, or those given to `use_labels`."""
        labels = self._given_labels or self._ready.labels
        if labels is None:
            raise UserError("The labels are not known yet: call setup() first.")
        return labels

    def use_labels(self, labels: Labels) -> None:
        """Take a checkpoint's labels, before `setup`, in place of those of the training examples.

        Then validation and test read nothing but their split, which may have no labels.
        """
        self._given_labels = labels

    @property
    def class_counts(self) -> list[int]:
        """How many training examples have each label, by id; empty for regression."""
        self._split(TRAIN)
        return self._ready.class_counts

    def examples(self, split: str) -> list[Example]:
        """The examples of a split, in the order that `index` counts."""
        return self._split(split).examples

    def facts(self, split: str) -> ExampleFacts | None:
        """How much a split holds; None for one that was not read."""
        held = self._ready.held.get(split)
        return None if held is None else held.facts

    @property
    def notes(self) -> list[str]:
        """What the user should know: how many examples of which label, what was cut or skipped."""
        return self._ready.notes

    @property
    def bad_records(self) -> dict[str, int]:
        """How many records were skipped, by reason."""
        return dict(self._ready.bad_records)

    # ---- Lightning's hooks

    def prepare_data(self) -> None:
        """Train the tokenizer and scan the built-in corpus, in one process; the others wait."""
        next(self._open().source.texts(TRAIN), None)

    def setup(self, stage: str | None = None) -> None:
        """Read the examples, in every process, and refuse what cannot be trained on."""
        corpus = self._open()
        is_fit = stage in ("fit", None)
        if is_fit:
            self._position = None  # a new run starts afresh, unless a checkpoint is loaded
            if self.options.label_field is None:
                raise UserError("label_field is null: training needs the field of the labels.")
        evaluated = VALIDATION if is_fit or stage == "validate" else self._test_split
        corpus.read((TRAIN, evaluated) if is_fit or corpus.labels is None else (evaluated,))

    def val_dataloader(self) -> DataLoader:
        """Each example of the validation split once, in one fixed order."""
        return self._loader(VALIDATION, None)

    def test_dataloader(self) -> DataLoader:
        """The test split where there is one, else the validation split."""
        return self._loader(self._test_split, None)

    def predict_dataloader(self) -> DataLoader:
        """The examples of `test_dataloader`."""
        return self.test_dataloader()

    def _train_loader(self) -> DataLoader:
        return self._loader(TRAIN, self._position or self._start)

    def _loader(self, split: str, start: dict[str, Any] | None) -> DataLoader:
        held = self._split(split)
        rows = LabelledRows(
            held.rows,
            held.targets,
            no_targets(self.labels, 1)[0],
            self.framing,
            self.batch_size,
            keeps_filler=self.tokens_per_batch is None,
        )
        order = LengthGroups(
            rows.widths,
            0 if start is None else self.seed,  # figures must not depend on the seed
            batch_size=self.batch_size,
            tokens_per_batch=self.tokens_per_batch,
            grouped=self.group_by_length,
        )
        share = self._share(order.slots)
        return indexed_loader(rows, Repeated(order) if start is None else order, share, start)

    # ---- how it is put together

    @property
    def _ready(self) -> PreparedExamples:
        if self.corpus is None:
            raise UserError("The data module is not ready: call prepare_data() and setup() first.")
        return self.corpus

    @property
    def _test_split(self) -> str:
        return TEST if TEST in self._ready.splits else VALIDATION

    def _open(self) -> PreparedExamples:
        if self.corpus is None:
            if self.tokenizer_spec is None:
                raise UserError(
                    "There is no tokenizer: fine-tune a checkpoint (--init_from), whose tokenizer "
                    "is used, or give data.tokenizer."
                )
            self.corpus = PreparedExamples.open(
                ExampleSource(self.source, self.val_source, self.options, self.cache_dir),
                tokenizer=self.tokenizer_spec,
                max_len=self.max_len,
                cache_dir=self.cache_dir,
            )
        if self._given_labels not in (None, self.corpus.labels):
            self.corpus.labels = self._given_labels
            self.corpus.held.clear()
        return self.corpus

    def _split(self, split: str) -> HeldSplit:
        corpus = self._open()
        corpus.read([split])
        return corpus.held[split]

    def _order(self) -> ExampleOrder | None:
        facts = None if self.corpus is None else self.facts(TRAIN)
        if facts is None:
            return None
        return ExampleOrder(
            batch_size=self.batch_size,
            tokens_per_batch=self.tokens_per_batch,
            group_by_length=self.group_by_length,
            max_len=self.max_len,
            seed=self.seed,
            train_tokens=facts.n_tokens,
        )
