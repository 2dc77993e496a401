"""The peer's side of the bench of the data: `datasets.map`, and its collator in a DataLoader.

What the examples run_mlm and run_clm of `transformers` do, with their defaults: tokenize in
batches, join the texts of a batch and cut them into rows, drop what is left of it, save, and mask
while loading.
"""

from __future__ import annotations

import itertools
from typing import Any

import datasets
import transformers
from data_worker import Task
from tokenizers.processors import BertProcessing
from torch.utils.data import DataLoader

from pretrain.data.tokenizer import Tokenizer


def prepare(task: Task) -> int:
    """Tokenize the corpus and keep it grouped; the number of tokens in whole rows."""
    datasets.disable_progress_bars()
    tokenizer = _tokenizer(task)
    is_masked = task.kind == "bert"
    raw = datasets.load_dataset(
        "json", data_files=str(task.corpus), split="train", cache_dir=str(task.folder / "datasets")
    )

    def tokenize(rows: dict[str, Any]) -> Any:
        return tokenizer(rows["text"], return_special_tokens_mask=is_masked)

    def group(rows: dict[str, Any]) -> dict[str, Any]:
        return _grouped(rows, task.seq_len)

    mapped = raw.map(tokenize, batched=True, remove_columns=raw.column_names)
    mapped = mapped.map(group, batched=True)
    mapped.save_to_disk(str(task.folder / "grouped"))
    return len(mapped) * task.seq_len


def loader(task: Task) -> DataLoader:
    """The batches of an epoch of what `prepare` kept."""
    rows = datasets.load_from_disk(str(task.folder / "grouped"))
    collator = transformers.DataCollatorForLanguageModeling(
        _tokenizer(task), mlm=task.kind == "bert"
    )
    return DataLoader(
        rows,
        batch_size=task.batch_size,
        shuffle=True,
        collate_fn=collator,
        num_workers=task.n_workers,
        drop_last=False,
    )


def _grouped(rows: dict[str, Any], seq_len: int) -> dict[str, Any]:
    joined = {name: list(itertools.chain.from_iterable(lists)) for name, lists in rows.items()}
    n_tokens = len(next(iter(joined.values()))) // seq_len * seq_len
    starts = range(0, n_tokens, seq_len)
    return {name: [all_[i : i + seq_len] for i in starts] for name, all_ in joined.items()}


def _tokenizer(task: Task) -> Any:
    """The same tokenizer as ours, around each text what the peer puts there."""
    ours = Tokenizer.load(task.tokenizer)
    if task.kind != "bert":
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=ours.backend, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
        )
    assert ours.cls_id is not None
    assert ours.sep_id is not None
    backend = ours.backend
    backend.post_processor = BertProcessing(("[SEP]", ours.sep_id), ("[CLS]", ours.cls_id))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]", mask_token="[MASK]",
    )  # fmt: skip
