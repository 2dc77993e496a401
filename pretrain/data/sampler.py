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
    steps and each block is seen exactly once. A place in the data counts blocks, so an epoch may
    go on with another batch size or another number of ranks. A `DistributedSampler`, since
    Lightning replaces any other under DDP.

    Args:
        dataset: what the micro-batches are asked from.
        order: the blocks of each epoch.
        batch_size: blocks in a micro-batch.
        n_ranks, rank: this process among all.
        start: {"epoch": e, "block": n} to go on from, n blocks of the epoch being done; each pass
            after it is the next epoch. None leaves positions out of the micro-batches.
        limit: micro-batches after which an epoch is over, or a share of all.
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
        limit: int | float = 1.0,
    ) -> None:
        super().__init__(dataset, num_replicas=n_ranks, rank=rank, shuffle=False)
        self.order, self.batch_size = order, batch_size
        self.n_limited = limit if isinstance(limit, int) else int(limit * len(self))
        self.with_positions = start is not None
        self.next_start = start or {"epoch": 0, "block": 0}

    def __len__(self) -> int:
        """Micro-batches of a whole epoch on each rank."""
        return self._n_steps(self.order.n_blocks)

    def n_done(self, position: dict[str, int]) -> int:
        """Micro-batches of an epoch on each rank that count as done at a position.

        Those to come are made of the blocks that are left, so this is no number that was ever
        trained if the epoch began with another batch size or number of ranks. Between two epochs
        all are done.
        """
        n_all = min(self.n_limited, len(self))
        if position["block"] == 0:
            return n_all if position["epoch"] else 0
        return n_all - self._n_steps(max(0, self._end - position["block"]))

    def set_epoch(self, epoch: int) -> None:
        """Does nothing, for the passes are counted here.

        Lightning counts one more epoch when max_steps ends it in the middle, and a run that is
        continued from there would miss the rest.
        """

    def __iter__(self) -> Iterator[MicroBatch]:
        epoch, first = self.next_start["epoch"], self.next_start["block"]
        if first >= self._end:  # a lower limit than the one that the epoch began with
            epoch, first = epoch + 1, 0
        blocks, epochs = self.order.blocks(epoch)
        for start in range(first, len(blocks), self._step):
            own = start + self.rank * self.batch_size
            part = slice(own, own + self.batch_size)
            n_missing = self.batch_size - len(blocks[part])
            yield MicroBatch(
                np.pad(blocks[part], (0, n_missing), constant_values=FILLER_BLOCK),
                np.pad(epochs[part], (0, n_missing)),
                self._position_at(epoch, start + self._step) if self.with_positions else None,
            )
        # Only a pass that came to its end counts: a DataLoader with workers calls iter() twice, and
        # a run that goes on behind an epoch begins a pass and leaves it for another
        self.next_start = {"epoch": epoch + 1, "block": 0}

    @property
    def _step(self) -> int:
        """Blocks that all ranks take at once."""
        return self.batch_size * self.num_replicas

    @property
    def _end(self) -> int:
        """Blocks after which an epoch is over."""
        return min(self.order.n_blocks, self.n_limited * self._step)

    def _n_steps(self, n_blocks: int) -> int:
        return math.ceil(n_blocks / self._step)

    def _position_at(self, epoch: int, block: int) -> dict[str, int]:
        if block >= self._end:
            return {"epoch": epoch + 1, "block": 0}
        return {"epoch": epoch, "block": block}
