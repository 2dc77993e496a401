import math

import numpy as np
import pytest

from pretrain.data.mixing import Mixed, shares
from pretrain.errors import UserError


def test_each_block_once_per_epoch_of_its_own_corpus():
    mixed = Mixed([7, 100], [0.5, 0.5], seed=3)
    blocks, epochs = (
        np.concatenate(x) for x in zip(*(mixed.blocks(e) for e in range(5)), strict=True)
    )
    for corpus in (blocks[blocks < 7], blocks[blocks >= 7]):
        size = 7 if corpus.max() < 7 else 100
        for start in range(0, len(corpus) - size + 1, size):
            assert len(set(corpus[start : start + size])) == size
    small = blocks < 7
    assert epochs[small].tolist() == [i // 7 for i in range(small.sum())]


def test_shares_are_those_asked_for():
    mixed = Mixed([5000, 5000], [0.3, 0.7], seed=1)
    n_first = int((mixed.blocks(0)[0] < 5000).sum())
    assert abs(n_first - 3000) <= 3 * math.sqrt(10_000 * 0.3 * 0.7)


def test_the_corpus_of_a_block_follows_from_its_number_alone():
    short, long = Mixed([10, 10], [0.5, 0.5], 1), Mixed([5, 95], [0.5, 0.5], 1)
    first = np.concatenate([short.blocks(e)[0] >= 10 for e in range(5)])
    assert first.tolist() == (long.blocks(0)[0] >= 5).tolist()
    # Draws are made in chunks: a range across a border is the same as its parts
    whole = short._corpora(65_000, 66_000)
    parts = [short._corpora(a, a + 100) for a in range(65_000, 66_000, 100)]
    assert whole.tolist() == np.concatenate(parts).tolist()


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0}, {"a": math.nan}])
def test_impossible_weights_are_refused(weights):
    with pytest.raises(UserError, match="source"):
        shares(weights)


def test_weights_are_scaled():
    assert shares({"a": 1, "b": 3}) == [0.25, 0.75]
