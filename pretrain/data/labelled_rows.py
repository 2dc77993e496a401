"""Micro-batches of labelled rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Dataset, default_convert

from pretrain.data.framing import Framing, Rows, padded_width
from pretrain.data.labelled import Example
from pretrain.data.labels import Labels
from pretrain.data.packing import FILLER_BLOCK, IGNORED, MicroBatch


def targets(labels: Labels, examples: Sequence[Example]) -> np.ndarray:
    """What is to be predicted: ids (n,) int64, 0 and 1 (n, n_labels) float32, or numbers (n,)."""
    if labels.kind == "single":
        return np.array([labels.encode(example) for example in examples], dtype=np.int64)
    if labels.kind == "regression":
        return np.array([labels.encode(example) for example in examples], dtype=np.float32)
    table = np.zeros((len(examples), labels.n_outputs), dtype=np.float32)
    for row, example in zip(table, examples, strict=True):
        row[np.array(labels.encode(example), dtype=np.int64)] = 1
    return table


def no_targets(labels: Labels, n_rows: int) -> np.ndarray:
    """The targets of rows that have none."""
    if labels.kind == "single":
        return np.full(n_rows, IGNORED, dtype=np.int64)
    shape = (n_rows, labels.n_outputs) if labels.kind == "multi" else (n_rows,)
    return np.full(shape, np.nan, dtype=np.float32)


@dataclass(frozen=True)
class LabelledRows(Dataset):
    """Rows with their targets; an item is a whole micro-batch (see `ClassificationBatch`).

    It is asked for by a `MicroBatch`, or by a number: then it is that one of the unshuffled order.

    Args:
        rows: the framed texts.
        targets: of each row.
        missing: a target that stands for none, as `no_targets` gives it for one row.
        framing: how the rows are framed and padded.
        batch_size: rows of a micro-batch that is asked for by number.
        keeps_filler: whether empty places of a `MicroBatch` become rows, so that all have the same
            number; else only a micro-batch without any row has one.
    """

    rows: Rows
    targets: np.ndarray
    missing: np.ndarray
    framing: Framing
    batch_size: int
    keeps_filler: bool = True

    @property
    def widths(self) -> np.ndarray:
        """The width of each row when padded alone, (n_rows,)."""
        max_len = self.framing.max_len
        lengths, inverse = np.unique(self.rows.lengths, return_inverse=True)
        return np.array([padded_width(int(one), max_len) for one in lengths], np.int64)[inverse]

    def __len__(self) -> int:
        return math.ceil(len(self.rows) / self.batch_size)

    def __getitem__(self, item: MicroBatch | int) -> dict[str, Any]:
        if not isinstance(item, MicroBatch):
            numbers = np.arange(item * self.batch_size, (item + 1) * self.batch_size)
            item = MicroBatch(numbers[numbers < len(self.rows)], np.zeros(0))
        numbers = item.blocks
        if not self.keeps_filler:
            numbers = numbers[numbers != FILLER_BLOCK]
            numbers = numbers if len(numbers) else np.array([FILLER_BLOCK])
        return self._batch(numbers, item.position)

    def _batch(self, numbers: np.ndarray, position: dict[str, int] | None) -> dict[str, Any]:
        is_filler = numbers == FILLER_BLOCK
        longest = int(np.where(is_filler, 0, self.rows.lengths[numbers]).max())
        width = padded_width(longest, self.framing.max_len)
        batch = self.rows.padded(numbers, width, self.framing.filler_id)
        if not (self.framing.pairs and self.framing.has_frame):
            del batch["segment_ids"]
        labels = self.targets[numbers]
        labels[is_filler] = self.missing
        batch["labels"] = labels
        if position is None:
            batch["index"] = numbers
        tensors = default_convert(batch)
        return tensors if position is None else {**tensors, "position": position}
