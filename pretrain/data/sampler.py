"""The order of the blocks: which micro-batch comes when, on which rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from torch.utils.data import Dataset, DistributedSampler

from pretrain.data.packing import FILLER_BLOCK, MicroBatch
from pretrain.data.seeding import Purpose, generator


class BlockOrder(Protocol):
    """The blocks of an epoch as a function of its number."""

    n_blocks: int

    def blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Block numbers (n_blocks,), and how often each block's source was read before."""


class Shuffled:
    """Every block once, in a new order each epoch, which (seed, epoch) decide."""

    def __init__(self, n_blocks: int, seed: int) -> None:
        self.n_blocks, self.seed = n_blocks, seed

    def blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """A permutation of all blocks, and the epoch."""
        order = generator(Purpose.BLOCK_ORDER, self.seed, epoch, 0).permutation(self.n_blocks)
        return order, np.full(self.n_blocks, epoch)


class InOrder:
    """Every block once, as it stands in the corpus; all epochs alike, as validation needs it."""

    def __init__(self, n_blocks: int) -> None:
        self.n_blocks = n_blocks

    def blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """0, 1, 2, ... and epoch 0."""
        return np.arange(self.n_blocks), np.zeros(self.n_blocks, dtype=np.int64)


class Repeated:
    """The first epoch of another order, again and again, as validation needs it."""

    def __init__(self, order: BlockOrder) -> None:
        self.order, self.n_blocks = order, order.n_blocks

    def blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks of epoch 0."""
        return self.order.blocks(0)


class MicroBatchSampler(DistributedSampler):
    """Deals the blocks of an epoch out as micro-batches: number g to rank g modulo n_ranks.

    The last ones are filled up with empty blocks, so that all ranks make the same number of equal
    steps and each block is seen exactly once. A `DistributedSampler`, since Lightning replaces any
    other under DDP.

    Args:
        dataset: what the micro-batches are asked from.
        order: the blocks of each epoch.
        batch_size: blocks in a micro-batch.
        n_ranks, rank: this process among all.
        start: {"epoch": e, "micro_batch": b} to go on from; each pass after it is the next epoch.
            None leaves positions out of the micro-batches.
        limit: micro-batches after which a pass is over at the latest; None takes all.
    """

    def __init__(
        self,
        dataset: Dataset,
        order: BlockOrder,
        batch_size: int,
        *,
        n_ranks: int = 1,
        rank: int = 0,
        start: dict[str, int] | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(dataset, num_replicas=n_ranks, rank=rank, shuffle=False)
        self.order, self.batch_size, self.limit = order, batch_size, limit
        self.with_positions = start is not None
        self.next_start = start or {"epoch": 0, "micro_batch": 0}

    def __len__(self) -> int:
        """Micro-batches of a whole epoch on each rank."""
        return math.ceil(self.order.n_blocks / (self.batch_size * self.num_replicas))

    def set_epoch(self, epoch: int) -> None:
        """Does nothing, for the passes are counted here.

        Lightning counts one more epoch when max_steps ends it in the middle, and a run that is
        continued from there would miss the rest.
        """

    def __iter__(self) -> Iterator[MicroBatch]:
        # A generator, so that only a pass that is really made counts: a DataLoader with workers
        # calls iter() twice before it asks for the first item
        epoch, first = self.next_start["epoch"], self.next_start["micro_batch"]
        self.next_start = {"epoch": epoch + 1, "micro_batch": 0}
        blocks, epochs = self.order.blocks(epoch)
        for micro_batch in range(first, len(self)):
            start = (micro_batch * self.num_replicas + self.rank) * self.batch_size
            part = slice(start, start + self.batch_size)
            n_missing = self.batch_size - len(blocks[part])
            yield MicroBatch(
                np.pad(blocks[part], (0, n_missing), constant_values=FILLER_BLOCK),
                np.pad(epochs[part], (0, n_missing)),
                self._position_after(epoch, micro_batch) if self.with_positions else None,
            )

    def _position_after(self, epoch: int, micro_batch: int) -> dict[str, int]:
        if micro_batch + 1 in (len(self), self.limit):
            return {"epoch": epoch + 1, "micro_batch": 0}
        return {"epoch": epoch, "micro_batch": micro_batch + 1}
