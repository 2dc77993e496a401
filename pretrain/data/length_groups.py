"""Micro-batches of rows of similar length, so that little of them is padding."""

from __future__ import annotations

import numpy as np

from pretrain.data.packing import FILLER_BLOCK
from pretrain.data.seeding import Purpose, generator
from pretrain.errors import UserError

BUCKET = 50  # micro-batches whose rows are sorted by length together


class LengthGroups:
    """An order of rows, for `MicroBatchSampler`: every row once an epoch.

    The rows of an epoch are a permutation that follows from (seed, epoch) alone. It is cut into
    buckets of 50 micro-batches, each bucket is sorted by length and cut into micro-batches, and
    these are shuffled.

    With a token budget, a micro-batch takes as many rows as fit. The number of micro-batches must
    not change from epoch to epoch, so the whole epoch is one bucket there; rows of one padded width
    are in another order each time.

    Args:
        widths: of the rows when padded alone, (n_rows,).
        seed: of the order.
        batch_size: rows in a micro-batch.
        tokens_per_batch: padded tokens in a micro-batch at most, in place of ``batch_size``.
        grouped: False leaves the rows as the permutation has them.

    Attributes:
        slots: places for rows in a micro-batch; those that are left over hold FILLER_BLOCK.
        n_blocks: places in all micro-batches of an epoch.
    """

    def __init__(
        self,
        widths: np.ndarray,
        seed: int,
        *,
        batch_size: int,
        tokens_per_batch: int | None = None,
        grouped: bool = True,
    ) -> None:
        self.widths, self.seed, self.grouped = widths, seed, grouped
        n_rows = len(widths)
        if tokens_per_batch is None:
            self._bucket = BUCKET * batch_size
            self._sizes = np.full(-(-n_rows // batch_size), batch_size)
            self._sizes[-1:] -= self._sizes.sum() - n_rows
            self.slots = batch_size
        else:
            self._bucket = n_rows
            self._sizes = _sizes_within(np.sort(widths)[::-1], tokens_per_batch)
            self.slots = int(self._sizes.max(initial=1))
        self.n_blocks = len(self._sizes) * self.slots

    def blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (n_blocks,), FILLER_BLOCK in a place without a row, and the epoch."""
        random = generator(Purpose.EXAMPLE_ORDER, self.seed, epoch, 0)
        rows = random.permutation(len(self.widths))
        if self.grouped:
            buckets = [rows[at : at + self._bucket] for at in range(0, len(rows), self._bucket)]
            rows = np.concatenate([part[self._by_width(part)] for part in buckets])
        table = np.full((len(self._sizes), self.slots), FILLER_BLOCK)
        table[np.arange(self.slots) < self._sizes[:, None]] = rows
        if self.grouped:
            random.shuffle(table)  # whole micro-batches
        return table.ravel(), np.full(self.n_blocks, epoch)

    def _by_width(self, rows: np.ndarray) -> np.ndarray:
        return np.argsort(-self.widths[rows], kind="stable")


def _sizes_within(descending: np.ndarray, budget: int) -> np.ndarray:
    """Rows of each micro-batch: its first row is its widest."""
    sizes = []
    start = 0
    while start < len(descending):
        sizes.append(min(budget // int(descending[start]), len(descending) - start))
        start += sizes[-1]
    return np.array(sizes, dtype=np.int64)


def check_budget(tokens_per_batch: int | None, max_len: int, grouped: bool) -> None:
    """Refuse a token budget that can't be kept; raises UserError."""
    if tokens_per_batch is None:
        return
    if tokens_per_batch < max_len:
        raise UserError(
            f"tokens_per_batch is {tokens_per_batch}, which holds no row of max_len {max_len}: "
            "raise it, or shorten the rows."
        )
    if not grouped:
        raise UserError("tokens_per_batch needs group_by_length=true: give a batch_size instead.")
