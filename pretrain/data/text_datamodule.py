"""What the data modules of all objectives share: from the name of a corpus to packed batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from pretrain.data.files import default_cache_dir
from pretrain.data.loaders import (
    cached_eval_loader,
    cached_train_loader,
    streamed_eval_loader,
    streamed_train_loader,
)
from pretrain.data.packing import Packing
from pretrain.data.prepared import PreparedCorpus, SplitFacts
from pretrain.data.reading_order import ReadingOrder
from pretrain.data.resumable import ResumableDataModule
from pretrain.data.skipped import SkippedRecords
from pretrain.data.source import SourceOptions
from pretrain.data.streaming import StreamLoader, check_workers, furthest, moved, start_of
from pretrain.data.token_cache import TokenStream
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.errors import UserError


class TextDataModule(ResumableDataModule):
    """Packed blocks of a corpus, for training and validation; a subclass says for which objective.

    Args:
        source: the corpus: "builtin", a file, glob, folder, URL or Hugging Face name; or several
            of them with their weights.
        val_source: where validation text comes from; None takes it from the source.
        text_field: the field of a JSONL, CSV, TSV, Parquet or hub row that holds the text.
        document: what a document of plain text is: "line", "paragraph" or "file".
        split: how validation text is held out: "hash" or "tail".
        split_share: how much is held out.
        on_bad_record: "error", or "skip" and count.
        tokenizer: a path, or a rule to train one by.
        seq_len: tokens in a row.
        batch_size: rows in a micro-batch of one device.
        isolate_documents: documents that share a row don't see each other, and count their
            positions anew.
        num_workers: processes that prepare batches.
        cache: tokenize once into a cache (True), or while training (False); None caches local
            files up to 20 GB and streams all else.
        cache_dir: None is ~/.cache/pretrain (XDG_CACHE_HOME is respected).
        seed: of the order of the data and the masks; None takes that of `seed_everything`, or 0.

    Raises UserError, in `prepare_data` and `setup`, for what cannot be trained on.
    """

    def __init__(
        self,
        source: str | dict[str, float] = "builtin",
        val_source: str | None = None,
        text_field: str = "text",
        document: str = "line",
        split: str = "hash",
        split_share: float = 0.05,
        on_bad_record: str = "error",
        *,
        tokenizer: str | TokenizerRule,
        seq_len: int = 128,
        batch_size: int = 32,
        isolate_documents: bool = False,
        num_workers: int = 0,
        cache: bool | None = None,
        cache_dir: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(batch_size, num_workers, seed)
        if source is None:  # how YAML reads ~ or #
            raise UserError("source is empty: give a file, a folder, a URL or a dataset's name.")
        if seq_len < 2:
            raise UserError(f"seq_len is {seq_len}: a row needs at least 2 tokens.")
        self.options = SourceOptions(text_field, document, split, split_share, on_bad_record)  # type: ignore[arg-type]
        self.source, self.val_source, self.tokenizer_spec = source, val_source, tokenizer
        self.seq_len, self.cache = seq_len, cache
        self.isolate_documents = isolate_documents
        self.cache_dir = Path(cache_dir).expanduser() if cache_dir else default_cache_dir()
        self.corpus: PreparedCorpus | None = None
        self._skipped = SkippedRecords()  # on streams

    # ---- what others may ask

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once `setup` has run."""
        return self._ready.tokenizer

    @property
    def uses_cache(self) -> bool:
        """Whether tokens come from a cache, once `setup` has run."""
        return self._ready.uses_cache

    @property
    def notes(self) -> list[str]:
        """What the user should know: the corpus, its size, where its tokens are."""
        return self._ready.notes

    @property
    def bad_records(self) -> dict[str, int]:
        """How many records were skipped, by reason; on a stream, as far as it was read."""
        if self.uses_cache:
            return self._ready.bad_records
        return self._skipped.total(self._ready.sources[0].holds_out)

    def facts(self, split: str) -> SplitFacts | None:
        """How much a split holds; None where that is not known before it is read."""
        return self._ready.facts(split, self._packing(split))

    # ---- Lightning's hooks

    def prepare_data(self) -> None:
        """Train the tokenizer and fill the cache, in one process; the others wait."""
        self._load()

    def setup(self, stage: str | None = None) -> None:
        """Open what `prepare_data` made, in every process, and refuse what cannot be trained on."""
        self._load()
        if stage == "fit":
            self._position = None  # a new run starts afresh, unless a checkpoint is loaded
            self._skipped = SkippedRecords()
            self._check_has_an_end()
            if not self.uses_cache:
                check_workers(self.num_workers, self._world()[0])
            self._check_has_target("train")
        is_test = stage in ("test", "predict")
        self._check_has_target(self._test_split if is_test else "validation")

    def val_dataloader(self) -> DataLoader:
        """Each block of the validation split once, in order, masks fixed."""
        return self._eval_loader("validation")

    def test_dataloader(self) -> DataLoader:
        """The test split where there is one, else the validation split."""
        return self._eval_loader(self._test_split)

    def predict_dataloader(self) -> DataLoader:
        """The blocks of `test_dataloader`."""
        return self.test_dataloader()

    def _eval_loader(self, split: str) -> DataLoader:
        share, packing = self._share(), self._packing(split)
        if self.uses_cache:
            return cached_eval_loader(self._ready, packing, share, split)
        loader = streamed_eval_loader(self._ready, packing, share, split)
        self._skipped.watch(split, loader.dataset)  # type: ignore[arg-type]
        return loader

    @property
    def _test_split(self) -> str:
        return "test" if "test" in self._ready.splits else "validation"

    # ---- the position in the data

    def _train_loader(self) -> DataLoader | StreamLoader:
        share, packing = self._share(), self._packing("train")
        if self.uses_cache:
            return cached_train_loader(self._ready, packing, share, self._position)
        loader = streamed_train_loader(self._ready, packing, share, self._position, self._agree)
        self._skipped.watch("train", loader)
        return loader

    def state_dict(self) -> dict[str, Any]:
        """The position behind the last micro-batch trained on, and what a stream skipped so far."""
        state = super().state_dict()
        if state and not self.uses_cache:
            state["bad_records"] = self._skipped.state()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next `train_dataloader` go on from there, if this run reads the data alike."""
        super().load_state_dict(state_dict)
        self._skipped.load(state_dict.get("bad_records", {}))

    @property
    def _start(self) -> dict[str, Any]:
        return super()._start if self.uses_cache else start_of(0)

    def _moved(self, after: dict[str, Any]) -> dict[str, Any]:
        return after if self.uses_cache else moved(self._position, after)

    def _saved_position(self) -> dict[str, Any] | None:
        if self._position is None or self.uses_cache:
            return self._position
        places = torch.tensor(self._position["shards"])
        return {**self._position, "shards": furthest(self._gathered(places))}

    def _order(self) -> ReadingOrder | None:
        if self.corpus is None:
            return None
        facts = self.facts("train")
        return ReadingOrder(
            uses_cache=self.uses_cache,
            seq_len=self.seq_len,
            seed=self.seed,
            shares=self._ready.shares,
            train_tokens=None if facts is None else facts.n_tokens,
            vocabulary=self.tokenizer.vocabulary_fingerprint,
        )

    # ---- how it is put together

    @property
    def _ready(self) -> PreparedCorpus:
        if self.corpus is None:
            raise UserError("The data module is not ready: call prepare_data() and setup() first.")
        return self.corpus

    def _load(self) -> PreparedCorpus:
        if self.corpus is None:
            self.corpus = PreparedCorpus.open(
                self.source,
                self.val_source,
                self.options,
                tokenizer=self.tokenizer_spec,
                cache=self.cache,
                cache_dir=self.cache_dir,
            )
            self._check_tokenizer(self.corpus.tokenizer)
            self.corpus.fill()
        return self.corpus

    def _check_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer that lacks what the objective needs."""

    def _packing(self, split: str) -> Packing:
        raise NotImplementedError

    def _check_has_target(self, split: str) -> None:
        if not self.uses_cache:
            next(self._ready.sources[0].texts(split), None)  # refuses a split without a document
            return
        streams = self._ready.streams(split)
        empty = [stream for stream in streams if not self._has_target(stream)]
        # Validation joins its sources; training draws from each of them
        if len(empty) == len(streams) or (empty and split == "train"):
            stream = empty[0]
            raise UserError(
                f"The {split} split of {stream.source} has nothing to predict "
                f"({stream.n_documents} documents, {stream.n_tokens} tokens): it needs more text, "
                "or another split_share or val_source."
            )

    def _has_target(self, stream: TokenStream) -> bool:
        raise NotImplementedError

    def _check_has_an_end(self) -> None:
        if self.trainer is None or (self.uses_cache and not self._ready.shares):
            return
        if self.trainer.max_steps == -1:
            endless = "a mixture of sources" if self._ready.shares else "a stream"
            raise UserError(f"The length of {endless} is not known: give the Trainer max_steps.")

    def _agree(self, flags: torch.Tensor) -> torch.Tensor:
        """The maximum over all ranks."""
        return self._gathered(flags).amax(dim=0)
