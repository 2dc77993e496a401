"""What the benches of the training step train on: shapes, their useful work, synthetic batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from pretrain.data.masking import Masker, MaskingConfig
from pretrain.data.seeding import Purpose

MASKING = MaskingConfig()
Batch = dict[str, torch.Tensor]
_N_BATCHES = 8  # different ones; then they come again
_SEED = 1


@dataclass(frozen=True)
class Workload:
    """The shape of a network and of its batches.

    Attributes:
        kind: ``bert`` (masked) or ``gpt`` (causal).
        vocab_size, d_model, n_layers, n_heads: Of the network; its feed-forward width is
            ``4 * d_model``.
        seq_len, batch_size: Tokens in a row and rows in a micro-batch.
        accumulate: Micro-batches per optimizer step.
    """

    kind: Literal["bert", "gpt"]
    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    seq_len: int
    batch_size: int
    accumulate: int = 1

    @property
    def tokens_per_step(self) -> int:
        """Input tokens of one optimizer step."""
        return self.batch_size * self.seq_len * self.accumulate

    @property
    def flops_per_token(self) -> float:
        """Useful floating-point operations of training per input token, whoever trains."""
        return self.blocks_flops_per_token + self.head_flops_per_token

    @property
    def blocks_flops_per_token(self) -> float:
        """6 per weight of the blocks' matrices, and attention, of which a causal one needs half."""
        matrices = 72 * self.n_layers * self.d_model**2
        attention = 12 * self.n_layers * self.seq_len * self.d_model
        return matrices + (attention / 2 if self.kind == "gpt" else attention)

    @property
    def head_flops_per_token(self) -> float:
        """6 per weight of the head's matrices, for those tokens that enter the loss."""
        decoder = self.d_model * self.vocab_size
        if self.kind == "gpt":
            return 6 * decoder
        return MASKING.rate * 6 * (decoder + self.d_model**2)


WORKLOADS = {
    "A": Workload("bert", 30_522, 256, 4, 4, seq_len=128, batch_size=32),
    "B": Workload("bert", 30_522, 512, 8, 8, seq_len=128, batch_size=16),
    "C": Workload("gpt", 50_257, 256, 4, 4, seq_len=256, batch_size=16),
    "D": Workload("gpt", 65, 384, 6, 6, seq_len=256, batch_size=16),
}
# So small that what surrounds the network is seen: a few ms a step.
TINY = Workload("gpt", 65, 64, 2, 2, seq_len=32, batch_size=4)


def batches(workload: Workload) -> list[Batch]:
    """Micro-batches of random tokens as our DataModules give them, the same in every process."""
    return [_batch(workload, number) for number in range(_N_BATCHES)]


def _batch(workload: Workload, number: int) -> Batch:
    rows, seq_len = workload.batch_size, workload.seq_len
    # Id 0 stands for [MASK] and is no text.
    draw = np.random.default_rng((_SEED, number))
    tokens = draw.integers(1, workload.vocab_size, (rows, seq_len + 1))
    if workload.kind == "gpt":
        made = {"input_ids": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
    else:
        masker = Masker(
            MASKING, seq_len, mask_id=0, special_ids=(0,), vocab_size=workload.vocab_size,
            seed=_SEED, purpose=Purpose.TRAIN_MASKS,
        )  # fmt: skip
        is_real = np.ones((rows, seq_len), dtype=bool)
        blocks = number * rows + np.arange(rows)
        made = masker(tokens[:, :-1], is_real, np.zeros(rows, dtype=np.int64), blocks)
    return {name: torch.from_numpy(array) for name, array in made.items()}


def loader(given: Sequence[Batch], n_micro_batches: int) -> DataLoader:
    """So many micro-batches, ``given`` over and over."""
    return DataLoader(_Repeated(given, n_micro_batches), batch_size=None)


class _Repeated(Dataset):
    def __init__(self, given: Sequence[Batch], length: int) -> None:
        self._given, self._length = given, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._given[index % len(self._given)]
