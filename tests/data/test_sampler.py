import itertools

import numpy as np
import pytest
from torch.utils.data import DistributedSampler

from pretrain.data.length_groups import LengthGroups
from pretrain.data.mixing import Mixed
from pretrain.data.sampler import InOrder, MicroBatchSampler, Shuffled


def sampler(
    n_blocks=23, batch_size=4, n_ranks=1, rank=0, start=None, order=Shuffled, epoch=None, limit=1.0
):
    if epoch is not None:
        start = {"epoch": epoch, "block": 0}
    return MicroBatchSampler(
        [],
        order(n_blocks, 7) if order is Shuffled else order(n_blocks),
        batch_size,
        n_ranks=n_ranks,
        rank=rank,
        start=start,
        limit=limit,
    )


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
@pytest.mark.parametrize("n_blocks", [1, 5, 23, 24])
@pytest.mark.parametrize("order", [Shuffled, InOrder])
def test_each_block_is_dealt_out_once_in_equal_shares(n_blocks, n_ranks, order):
    dealt = [
        list(sampler(n_blocks, 4, n_ranks, rank, order=order, epoch=3)) for rank in range(n_ranks)
    ]
    assert {len(part) for part in dealt} == {len(sampler(n_blocks, 4, n_ranks))}
    assert {len(m.blocks) for part in dealt for m in part} == {4}
    blocks = np.concatenate([m.blocks for part in dealt for m in part])
    assert sorted(blocks[blocks >= 0]) == list(range(n_blocks))


def test_ranks_split_the_very_micro_batches_of_one_process():
    alone = [m.blocks.tolist() for m in sampler()]
    two = [[m.blocks.tolist() for m in sampler(n_ranks=2, rank=rank)] for rank in range(2)]
    dealt = list(itertools.chain.from_iterable(zip(*two, strict=True)))
    assert dealt == alone


def test_order_is_a_function_of_seed_and_epoch():
    def blocks(**kwargs):
        return [m.blocks.tolist() for m in sampler(**kwargs)]

    assert blocks(epoch=2) == blocks(epoch=2)
    assert blocks(epoch=2) != blocks(epoch=3)
    assert blocks(order=InOrder, epoch=0) == blocks(order=InOrder, epoch=5)


def test_goes_on_behind_a_position_and_then_begins_anew():
    whole = list(sampler(start={"epoch": 5, "block": 0}))
    cut = whole[2]
    assert cut.position == {"epoch": 5, "block": 12}
    resumed = sampler(start=cut.position)
    resumed.set_epoch(6)  # as the fit loop does where max_steps ended an epoch in the middle
    assert [m.blocks.tolist() for m in resumed] == [m.blocks.tolist() for m in whole[3:]]
    assert len(resumed) == len(whole)
    fresh = sampler(epoch=6)
    assert [m.blocks.tolist() for m in resumed] == [m.blocks.tolist() for m in fresh]


def test_the_last_position_is_the_start_of_the_next_epoch():
    *_, last = sampler(start={"epoch": 5, "block": 0})
    assert last.position == {"epoch": 6, "block": 0}


def test_a_limited_epoch_is_over_at_its_limit():
    micro_batches = list(sampler(start={"epoch": 0, "block": 0}, limit=2))
    assert micro_batches[0].position == {"epoch": 0, "block": 4}
    assert micro_batches[1].position == {"epoch": 1, "block": 0}


def test_evaluation_carries_no_positions():
    assert all(m.position is None for m in sampler(order=InOrder))


def test_is_a_distributed_sampler_which_lightning_leaves_in_place():
    assert isinstance(sampler(), DistributedSampler)


def dealt_out(order, start, layout, n_steps=None):
    """The blocks of an epoch from a place on, in order, and the place behind them."""
    n_ranks, batch_size = layout
    passes = [
        MicroBatchSampler([], order, batch_size, n_ranks=n_ranks, rank=rank, start=start)
        for rank in range(n_ranks)
    ]
    steps = list(itertools.islice(zip(*passes, strict=True), n_steps))
    blocks = np.concatenate([m.blocks for step in steps for m in step])
    return blocks[blocks >= 0].tolist(), steps[-1][0].position


@pytest.mark.parametrize("after", [(1, 2), (2, 2), (3, 2), (1, 5), (2, 3), (1, 1), (2, 40)])
@pytest.mark.parametrize(
    "order",
    [Shuffled(23, 7), Mixed([7, 16], [0.5, 0.5], 7), LengthGroups(np.arange(23), 7, batch_size=2)],
)
def test_another_layout_goes_on_with_the_same_blocks(order, after):
    whole = order.blocks(3)[0]
    start = {"epoch": 3, "block": 0}
    first, place = dealt_out(order, start, (2, 2), n_steps=2)
    assert place == {"epoch": 3, "block": 8}
    rest, end = dealt_out(order, place, after)
    assert first + rest == whole[whole >= 0].tolist()
    assert end == {"epoch": 4, "block": 0}
