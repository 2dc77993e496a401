"""Several corpora mixed by weight."""

from __future__ import annotations

import math

import numpy as np

from pretrain.data.seeding import Purpose, generator
from pretrain.errors import UserError

_CHUNK = 65_536  # draws that share a generator: the source of block n is a function of (seed, n)


def shares(weights: dict[str, float]) -> list[float]:
    """The weights, scaled to add up to 1.

    Raises:
        UserError: there is none, or one is not a positive number.
    """
    if not weights:
        raise UserError("source names no corpus: give at least one with its weight.")
    for name, weight in weights.items():
        if not (math.isfinite(weight) and weight > 0):
            raise UserError(f"The weight of source {name!r} must be a positive number: {weight}.")
    total = sum(weights.values())
    return [weight / total for weight in weights.values()]


class Mixed:
    """An endless mixture: the corpus of block n follows from (seed, n).

    Each corpus has its own epochs: all its blocks are used, in an order of their own, before one
    is used again. What is called an epoch of the mixture is as many blocks as all corpora have.

    Args:
        n_blocks_each: blocks of each corpus, which are numbered one corpus after the other.
        shares: the probability of each corpus.
        seed: of the run.
    """

    def __init__(self, n_blocks_each: list[int], shares: list[float], seed: int) -> None:
        self.n_blocks_each, self.seed = n_blocks_each, seed
        self.n_blocks = sum(n_blocks_each)
        self.thresholds = np.cumsum(shares)[:-1]

    def blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Block numbers (n_blocks,), and how often each one's corpus was read before."""
        start = epoch * self.n_blocks
        corpus_of = self._corpora(start, start + self.n_blocks)
        used = self._draws_before(start)
        blocks, epochs = np.empty((2, self.n_blocks), dtype=np.int64)
        first_block = 0
        for corpus, n_blocks in enumerate(self.n_blocks_each):
            turns = np.flatnonzero(corpus_of == corpus)
            own_epochs, places = np.divmod(used[corpus] + np.arange(len(turns)), n_blocks)
            for own_epoch in np.unique(own_epochs):
                order = generator(Purpose.BLOCK_ORDER, self.seed, int(own_epoch), 1 + corpus)
                now = own_epochs == own_epoch
                blocks[turns[now]] = first_block + order.permutation(n_blocks)[places[now]]
            epochs[turns] = own_epochs
            first_block += n_blocks
        return blocks, epochs

    def _corpora(self, start: int, stop: int) -> np.ndarray:
        """The corpus of each of the blocks start, ..., stop - 1 of the mixture."""
        chunks = range(start // _CHUNK, -(-stop // _CHUNK))
        draws = [generator(Purpose.MIXTURE, self.seed, 0, chunk).random(_CHUNK) for chunk in chunks]
        part = np.concatenate(draws)[start - chunks.start * _CHUNK :][: stop - start]
        return np.searchsorted(self.thresholds, part, side="right")

    def _draws_before(self, stop: int) -> np.ndarray:
        counts = np.zeros(len(self.n_blocks_each), dtype=np.int64)
        for start in range(0, stop, _CHUNK):
            corpora = self._corpora(start, min(start + _CHUNK, stop))
            counts += np.bincount(corpora, minlength=len(counts))
        return counts
