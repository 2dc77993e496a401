import itertools

import pytest
import torch

from pretrain.model import AttentionMask

CPU = torch.device("cpu")


def visible(mask, batch, query, key):
    """The rule in words: not after the query where causal, in the window, and not padding."""
    position = query + mask.n_keys - mask.n_queries
    real = mask.padding is None or bool(mask.padding[batch, key])
    near = mask.window is None or abs(position - key) < mask.window
    return real and near and (key <= position or not mask.causal)


def test_rows_follow_the_rule_for_every_combination():
    padding = torch.tensor([[True] * 4 + [False], [False] * 2 + [True] * 3])
    for causal, pad, n_queries, window in itertools.product(
        (True, False), (None, padding), (5, 2), (None, 1, 2, 9)
    ):
        mask = AttentionMask(n_queries, 5, causal, pad, CPU, window)
        rows = mask.rows(0, n_queries)
        for batch in range(rows.shape[0]):
            for query in range(n_queries):
                for key in range(5):
                    assert bool(rows[batch, 0, query, key]) == visible(mask, batch, query, key)


def test_the_keys_in_reach_are_all_that_any_of_the_queries_sees_and_no_more():
    for causal, window, n_queries in itertools.product((True, False), (1, 3, 20), (9, 4)):
        mask = AttentionMask(n_queries, 9, causal, None, CPU, window)
        for start, stop in ((0, 2), (1, 4), (3, 4)):
            seen = mask.rows(start, stop)[0, 0].any(0).nonzero()[:, 0].tolist()
            first, last = mask.keys_in_reach(start, stop)
            assert seen == list(range(first, last))


def test_the_bias_is_the_slope_times_the_distance():
    slopes = torch.tensor([0.5, 0.25])
    for causal in (True, False):
        mask = AttentionMask(3, 4, causal, None, CPU, None, slopes)
        bias = mask.bias(0, 3)
        assert bias.shape == (1, 2, 3, 4)
        for head, query, key in itertools.product(range(2), range(3), range(4)):
            assert bias[0, head, query, key] == -slopes[head] * abs(query + 1 - key)
        assert torch.equal(mask.bias(1, 3, 1, 3), bias[..., 1:3, 1:3])
    assert AttentionMask(3, 4, True, None, CPU).bias(0, 3) is None


def test_some_rows_are_a_slice_of_all_rows():
    padding = torch.tensor([[True, True, True, False, True, False]])
    mask = AttentionMask(6, 6, True, padding, CPU)
    assert torch.equal(mask.rows(2, 5), mask.rows(0, 6)[:, :, 2:5])


def test_the_kernel_is_told_the_cheapest_equivalent():
    dtype = torch.float64
    assert AttentionMask(4, 4, False, None, CPU).for_kernel(dtype) == (None, False)
    assert AttentionMask(4, 4, True, None, CPU).for_kernel(dtype) == (None, True)
    # The newest token sees everything, so it needs no mask at all.
    assert AttentionMask(1, 4, True, None, CPU).for_kernel(dtype) == (None, False)
    rows, is_causal = AttentionMask(2, 4, True, None, CPU).for_kernel(dtype)
    assert rows is not None
    assert rows.dtype == dtype
    assert not is_causal
    assert rows.shape == (1, 1, 2, 4)


def test_what_is_added_to_the_scores_is_made_once_for_all_layers():
    mask = AttentionMask(4, 4, True, torch.ones(2, 4, dtype=torch.bool), CPU)
    assert mask.for_kernel(torch.float32)[0] is mask.for_kernel(torch.float32)[0]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 2])
def test_documents_hide_each_other_whatever_else_hides(causal, window):
    documents = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 2, 2, 3]])
    padding = torch.tensor([[True] * 5, [True] * 4 + [False]])
    mask = AttentionMask(3, 5, causal, padding, CPU, window, None, documents)
    together = AttentionMask(3, 5, causal, padding, CPU, window)
    for row, query, key in itertools.product(range(2), range(3), range(5)):
        is_own = bool(documents[row, query + 2] == documents[row, key])
        expected = is_own and bool(together.rows(0, 3)[row, 0, query, key])
        assert bool(mask.rows(0, 3)[row, 0, query, key]) == expected
