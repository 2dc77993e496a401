"""A task and a batch as training would have them, made without a Trainer."""

import copy
import math
from types import SimpleNamespace

import torch

from pretrain.data.classification import ClassificationDataModule
from pretrain.data.labels import Labels
from pretrain.data.text_datamodule import TextDataModule
from pretrain.hardware import device_of
from pretrain.tasks import Classification, TransformerTask

Data = TextDataModule | ClassificationDataModule
_KINDS = {"bf16": torch.bfloat16, "16": torch.float16, "64": torch.float64}


def fresh_copy(task: TransformerTask, data: Data, vocab_size: int | None) -> TransformerTask:
    """``task`` without its network, which will be neither compiled nor warm-started."""
    task = copy.deepcopy(task)
    task.compile_network, task._init_from = False, None
    task.trainer = SimpleNamespace(datamodule=data)  # type: ignore[assignment]  # the masking rate
    if vocab_size is not None:
        task._set_vocab_size(vocab_size)
    if isinstance(task, Classification) and task.labels is None:
        kind = data.options.kind  # type: ignore[attr-defined]
        task.labels = Labels(kind, () if kind == "regression" else ("0", "1"))
    return task


def build(task: TransformerTask, accelerator: str, precision: str) -> None:
    """Build the network where, and in what, it would be trained."""
    kind, _, rule = precision.partition("-")
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(_KINDS.get(kind, torch.float32) if rule == "true" else default)
        with torch.device(device_of(accelerator)):
            task.configure_model()
    finally:
        torch.set_default_dtype(default)


def autocast_dtype(precision: str) -> torch.dtype | None:
    """What a mixed ``precision`` multiplies in; None for others."""
    kind, _, rule = precision.partition("-")
    return _KINDS[kind] if rule == "mixed" else None


def example_batch(task: TransformerTask, data: Data, rows: int) -> dict[str, torch.Tensor]:
    """Zeros in the shape of the largest micro-batch of so many rows: see ``data/batch.py``."""
    seq_len = data.seq_len
    batch: dict[str, torch.Tensor] = {}
    if isinstance(data, ClassificationDataModule):
        batch["attention_mask"] = torch.ones((rows, seq_len), dtype=torch.bool)
        if data.options.pair_field is not None and not task.causal:
            batch["segment_ids"] = torch.zeros((rows, seq_len), dtype=torch.int64)
        batch["labels"] = _labels(rows, data.options.kind, task.labels)  # type: ignore[arg-type]
    else:
        rate = getattr(getattr(data, "masking", None), "rate", None)
        n_targets = rows * (seq_len if rate is None else math.ceil(rate * seq_len))
        if rate is not None:
            batch["masked_positions"] = torch.zeros(n_targets, dtype=torch.int64)
        shape = (rows, seq_len) if rate is None else (n_targets,)
        batch["labels"] = torch.zeros(shape, dtype=torch.int64)
    return {"input_ids": torch.zeros((rows, seq_len), dtype=torch.int64), **batch}


def largest_rows(data: Data) -> int:
    """Of the largest micro-batch, whose rows are all as long as they may be."""
    budget = getattr(data, "tokens_per_batch", None)
    return data.batch_size if budget is None else max(1, budget // data.seq_len)


def _labels(rows: int, kind: str, labels: Labels) -> torch.Tensor:
    if kind == "single":
        return torch.zeros(rows, dtype=torch.int64)
    return torch.zeros((rows, labels.n_outputs) if kind == "multi" else rows, dtype=torch.float32)
