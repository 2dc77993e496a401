"""Random numbers that are a function of what they are for, so that none has to be saved."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64: the golden ratio, odd


class Purpose(IntEnum):
    """What the numbers are drawn for: different purposes never share a sequence."""

    BLOCK_ORDER = 0
    TRAIN_MASKS = 1
    VALIDATION_MASKS = 2
    MIXTURE = 3
    DOCUMENT_ORDER = 4
    EXAMPLE_ORDER = 5


def generator(purpose: Purpose, seed: int, epoch: int, index: int) -> np.random.Generator:
    """The generator that belongs to (purpose, seed, epoch, index), the same wherever it is asked.

    Philox is counter-based (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), so
    any key is as good as any other. seed counts modulo 2³², epoch modulo 2²⁴.
    """
    high = (seed & 0xFFFFFFFF) << 32 | (epoch & 0xFFFFFF) << 8 | purpose
    return np.random.Generator(np.random.Philox(key=np.array([high, index], dtype=np.uint64)))


def uniform_rows(
    purpose: Purpose, seed: int, epochs: np.ndarray, indices: np.ndarray, n_numbers: int
) -> np.ndarray:
    """Uniform numbers in [0, 1) for many short rows at once, float64 (rows, n_numbers).

    Row i is a function of (purpose, seed, epochs[i], indices[i]) alone, with the same periods as
    `generator`. A generator for each row would cost several times what is done with its numbers.
    They are those of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number
    generators"), whose state is a counter, started at a hash of what the row is for.
    """
    run = np.uint64((seed & 0xFFFFFFFF) << 32 | purpose)
    rows = run | (epochs.astype(np.uint64) & np.uint64(0xFFFFFF)) << np.uint64(8)
    start = _mixed(_mixed(rows) + indices.astype(np.uint64))
    counter = np.arange(1, n_numbers + 1, dtype=np.uint64) * _GAMMA
    bits = _mixed(start[:, None] + counter)
    return (bits >> np.uint64(11)) * 2.0**-53


def _mixed(bits: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer: a bijection in which each bit hangs on every other."""
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)
