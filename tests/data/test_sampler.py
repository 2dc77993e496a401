import itertools

import numpy as np
import pytest
from torch.utils.data import DistributedSampler

from pretrain.data.sampler import InOrder, MicroBatchSampler, Shuffled


def sampler(
    n_blocks=23, batch_size=4, n_ranks=1, rank=0, start=None, order=Shuffled, epoch=None, limit=None
):
    if epoch is not None:
        start = {"epoch": epoch, "micro_batch": 0}
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
    whole = list(sampler(start={"epoch": 5, "micro_batch": 0}))
    cut = whole[2]
    assert cut.position == {"epoch": 5, "micro_batch": 3}
    resumed = sampler(start=cut.position)
    resumed.set_epoch(6)  # as the fit loop does where max_steps ended an epoch in the middle
    assert [m.blocks.tolist() for m in resumed] == [m.blocks.tolist() for m in whole[3:]]
    assert len(resumed) == len(whole)
    fresh = sampler(epoch=6)
    assert [m.blocks.tolist() for m in resumed] == [m.blocks.tolist() for m in fresh]


def test_the_last_position_is_the_start_of_the_next_epoch():
    *_, last = sampler(start={"epoch": 5, "micro_batch": 0})
    assert last.position == {"epoch": 6, "micro_batch": 0}


def test_a_limited_epoch_is_over_at_its_limit():
    micro_batches = list(sampler(start={"epoch": 0, "micro_batch": 0}, limit=2))
    assert micro_batches[0].position == {"epoch": 0, "micro_batch": 1}
    assert micro_batches[1].position == {"epoch": 1, "micro_batch": 0}


def test_evaluation_carries_no_positions():
    assert all(m.position is None for m in sampler(order=InOrder))


def test_is_a_distributed_sampler_which_lightning_leaves_in_place():
    assert isinstance(sampler(), DistributedSampler)
