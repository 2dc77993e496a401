import torch

from pretrain.model import AttentionMask

CPU = torch.device("cpu")


def visible(mask, batch, query, key):
    """The rule in words: not after the query where causal, and not padding."""
    before = key <= query + mask.n_keys - mask.n_queries
    real = mask.padding is None or bool(mask.padding[batch, key])
    return real and (before or not mask.causal)


def test_rows_follow_the_rule_for_every_combination():
    padding = torch.tensor([[True] * 4 + [False], [False] * 2 + [True] * 3])
    for causal in (True, False):
        for pad in (None, padding):
            for n_queries in (5, 2):
                mask = AttentionMask(n_queries, 5, causal, pad, CPU)
                rows = mask.rows(0, n_queries)
                for batch in range(rows.shape[0]):
                    for query in range(n_queries):
                        for key in range(5):
                            expected = visible(mask, batch, query, key)
                            assert bool(rows[batch, 0, query, key]) == expected


def test_some_rows_are_a_slice_of_all_rows():
    padding = torch.tensor([[True, True, True, False, True, False]])
    mask = AttentionMask(6, 6, True, padding, CPU)
    assert torch.equal(mask.rows(2, 5), mask.rows(0, 6)[:, :, 2:5])


def test_the_kernel_is_told_the_cheapest_equivalent():
    assert AttentionMask(4, 4, False, None, CPU).for_kernel() == (None, False)
    assert AttentionMask(4, 4, True, None, CPU).for_kernel() == (None, True)
    # The newest token sees everything, so it needs no mask at all.
    assert AttentionMask(1, 4, True, None, CPU).for_kernel() == (None, False)
    rows, is_causal = AttentionMask(2, 4, True, None, CPU).for_kernel()
    assert rows is not None
    assert not is_causal
    assert rows.shape == (1, 1, 2, 4)
