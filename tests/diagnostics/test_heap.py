import ctypes

import pytest

from pretrain.diagnostics.heap import heap_peak

MIB = 2**20

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc"
)


def test_a_heap_holds_at_least_what_lives_at_one_time():
    events = [(1, 40 * MIB), (2, 50 * MIB), (1, 0), (3, 30 * MIB), (2, 0), (3, 0)]
    assert 90 * MIB <= heap_peak(events) <= 130 * MIB


def test_large_blocks_are_given_back_at_once():
    one_by_one = [event for key in range(20) for event in ((key, 64 * MIB), (key, 0))]
    assert heap_peak(one_by_one) <= 66 * MIB


def test_holes_that_are_too_small_cost_more_than_what_lives():
    # After a large block has gone, glibc takes smaller ones from its heap. Every second one stays:
    # holes of 1 MiB, which blocks of 2 MiB do not fit in.
    events = [(-1, 31 * MIB), (-1, 0)]
    events += [(key, MIB) for key in range(200)]
    events += [(key, 0) for key in range(0, 200, 2)]
    events += [(key, 2 * MIB) for key in range(1000, 1050)]
    assert heap_peak(events) >= 280 * MIB


def test_the_same_blocks_give_the_same_figure_and_none_gives_nothing():
    events = [(1, 3 * MIB), (2, 5 * MIB), (1, 0), (3, 4 * MIB)]
    assert heap_peak(events) == pytest.approx(heap_peak(events), abs=MIB)
    assert heap_peak([]) == 0
