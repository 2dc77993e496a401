import numpy as np
import pytest

from pretrain.data.length_groups import BUCKET, LengthGroups, check_budget
from pretrain.data.sampler import MicroBatchSampler
from pretrain.errors import UserError

WIDTHS = np.random.default_rng(3).integers(1, 17, 1013) * 8


def groups(widths=WIDTHS, seed=1, batch_size=4, **options):
    return LengthGroups(widths, seed, batch_size=batch_size, **options)


def micro_batches(order, epoch=0):
    blocks, epochs = order.blocks(epoch)
    assert set(epochs.tolist()) <= {epoch}
    table = blocks.reshape(-1, order.slots)
    return [row[row >= 0].tolist() for row in table]


VARIANTS = [{}, {"grouped": False}, {"tokens_per_batch": 512}, {"batch_size": 1}]


@pytest.mark.parametrize("options", VARIANTS)
def test_every_row_once_an_epoch_in_an_order_of_seed_and_epoch(options):
    order = groups(**options)
    for epoch in range(3):
        rows = [row for batch in micro_batches(order, epoch) for row in batch]
        assert sorted(rows) == list(range(len(WIDTHS)))
        assert micro_batches(groups(**options), epoch) == micro_batches(order, epoch)
    assert micro_batches(order, 0) != micro_batches(order, 1)
    assert micro_batches(groups(seed=2, **options)) != micro_batches(order)


def test_only_one_micro_batch_is_not_full():
    sizes = [len(batch) for batch in micro_batches(groups())]
    assert sorted(sizes) == [1, *[4] * 253]


def test_rows_of_a_micro_batch_are_of_similar_length():
    def padded(batches):
        return sum(len(batch) * WIDTHS[batch].max() for batch in batches)

    loose, tight = (padded(micro_batches(groups(grouped=g))) for g in (False, True))
    assert WIDTHS.sum() <= tight < 1.03 * WIDTHS.sum() < loose


def test_a_micro_batch_stays_within_its_bucket_and_buckets_are_mixed():
    order = groups(batch_size=2, grouped=True)
    plain = [row for batch in micro_batches(groups(batch_size=2, grouped=False)) for row in batch]
    bucket_of = {row: place // (2 * BUCKET) for place, row in enumerate(plain)}
    touched = [{bucket_of[row] for row in batch} for batch in micro_batches(order)]
    assert {len(one) for one in touched} == {1}
    assert touched != sorted(touched, key=min)


def test_a_budget_of_tokens_is_kept_and_used():
    order = groups(tokens_per_batch=512)
    batches = micro_batches(order)
    spent = [len(batch) * WIDTHS[batch].max() for batch in batches]
    assert max(spent) <= 512
    assert sum(spent) / len(spent) > 0.9 * 512
    assert {len(micro_batches(order, epoch)) for epoch in range(5)} == {len(batches)}
    rows = [frozenset(batch) for epoch in (0, 1) for batch in micro_batches(order, epoch)]
    assert len(set(rows)) > 1.8 * len(batches)  # other company in the next epoch


def test_a_single_row():
    for options in ({}, {"tokens_per_batch": 16}):
        assert micro_batches(groups(np.array([8]), **options)) == [[0]]


@pytest.mark.parametrize("n_ranks", [2, 3])
@pytest.mark.parametrize("options", VARIANTS)
def test_ranks_share_the_rows_in_equal_numbers_of_steps(n_ranks, options):
    order = groups(**options)
    samplers = [
        MicroBatchSampler([], order, order.slots, n_ranks=n_ranks, rank=rank)
        for rank in range(n_ranks)
    ]
    dealt = [[m.blocks for m in sampler] for sampler in samplers]
    assert len({len(part) for part in dealt}) == 1
    rows = np.concatenate([blocks for part in dealt for blocks in part])
    assert sorted(rows[rows >= 0]) == list(range(len(WIDTHS)))


def test_a_budget_that_can_not_be_kept_is_refused():
    check_budget(None, 128, False)
    check_budget(128, 128, True)
    with pytest.raises(UserError, match="tokens_per_batch is 127"):
        check_budget(127, 128, True)
    with pytest.raises(UserError, match="group_by_length=true"):
        check_budget(1000, 128, False)
