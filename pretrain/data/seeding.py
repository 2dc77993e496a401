"""Random numbers that are a function of what they are for, so that none has to be saved."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


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
