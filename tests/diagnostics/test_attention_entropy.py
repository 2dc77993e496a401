import math
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pretrain.diagnostics import AttentionEntropy, attention_entropy
from pretrain.model import AttentionMask

CPU = torch.device("cpu")


def reference(query, key, visible, scale):
    """The textbook way, in float64, with the whole matrix: ``(batch, n_heads, n_queries)``."""
    scores = query.double() @ key.double().transpose(-1, -2) * scale
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return -torch.where(weights > 0, weights * weights.log(), 0.0).sum(-1)


def random_case(n, causal, padded, spread=3.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(n)
    query, key = spread * torch.randn(2, 2, 3, n, 4, generator=generator).to(dtype)
    padding = None
    if padded:
        padding = torch.ones(2, n, dtype=torch.bool)
        padding[1, n // 2 :] = False
    return query, key, AttentionMask(n, n, causal, padding, CPU)


@pytest.mark.parametrize("spread", [0.1, 3.0, 10.0])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [5, 300])
def test_agrees_with_the_materialised_float64_entropy(n, causal, padded, spread):
    query, key, mask = random_case(n, causal, padded, spread)
    entropy = attention_entropy(query, key, mask, 0.5)
    expected = reference(query, key, mask.rows(0, n), 0.5)
    torch.testing.assert_close(entropy.nats.double(), expected, atol=1e-5, rtol=0)
    assert entropy.nats.dtype == torch.float32
    assert entropy.rows.tolist() == list(range(n))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("stride", [1, 7])
def test_a_bias_and_a_window_count_as_they_do_in_attention(causal, stride):
    n = 300
    query, key, plain = random_case(n, causal, padded=True)
    slopes = torch.tensor([0.5, 0.1, 0.01])
    mask = replace(plain, window=90, slopes=slopes)
    entropy = attention_entropy(query, key, mask, 0.5, row_stride=stride)
    distance = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    scores = query.double() @ key.double().mT * 0.5 - slopes.double()[:, None, None] * distance
    visible = plain.rows(0, n) & (distance < 90)
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num()
    expected = torch.special.entr(weights).sum(-1)[..., entropy.rows]
    torch.testing.assert_close(entropy.nats.double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("stride", [2, 3, 7, 128, 200])
def test_a_subset_of_rows_holds_the_same_values(stride):
    n = 300
    query, key, mask = random_case(n, causal=True, padded=True)
    whole = attention_entropy(query, key, mask, 0.5)
    some = attention_entropy(query, key, mask, 0.5, row_stride=stride)
    assert some.rows.tolist() == list(range(stride // 2, n, stride))
    torch.testing.assert_close(some.nats, whole.nats[..., some.rows])
    assert torch.equal(some.n_visible, whole.n_visible[:, some.rows])


def test_a_stride_beyond_the_end_looks_at_one_row():
    query, key, mask = random_case(5, causal=False, padded=False)
    assert attention_entropy(query, key, mask, 0.5, row_stride=1000).rows.tolist() == [2]


def test_uniform_attention_has_the_log_of_the_visible_keys():
    n = 6
    key = torch.randn(1, 1, n, 4)
    mask = AttentionMask(n, n, True, None, CPU)
    entropy = attention_entropy(torch.zeros(1, 1, n, 4), key, mask, 1.0)
    expected = torch.arange(1.0, n + 1).log()
    torch.testing.assert_close(entropy.nats[0, 0], expected, atol=1e-6, rtol=0)


def test_attention_to_one_token_has_no_entropy_and_never_less_than_none():
    n = 64
    query = 1e3 * torch.eye(n)[None, None]
    mask = AttentionMask(n, n, False, None, CPU)
    assert (attention_entropy(query, query, mask, 1.0).nats == 0).all()


def test_half_precision_around_it_does_not_reach_it():
    n = 40
    query, key, mask = random_case(n, causal=True, padded=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        entropy = attention_entropy(query, key, mask, 0.5)
    expected = reference(query, key, mask.rows(0, n), 0.5)
    torch.testing.assert_close(entropy.nats.double(), expected, atol=1e-5, rtol=0)


class LargestTensor(TorchDispatchMode):
    """Remembers the largest number of elements that any operation returned."""

    def __init__(self):
        super().__init__()
        self.n_elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.n_elements = max(self.n_elements, leaf.numel())
        return result


def test_the_whole_matrix_never_exists():
    n, n_heads = 1024, 2
    query, key = torch.randn(2, 1, n_heads, n, 4)
    with LargestTensor() as largest:
        attention_entropy(query, key, AttentionMask(n, n, True, None, CPU), 0.5)
    assert largest.n_elements <= n_heads * 128 * n


def by_hand(nats, n_visible, counted):
    rows = [(h, v) for h, v, c in zip(nats, n_visible, counted, strict=True) if c and v]
    comparable = [h / math.log(v) for h, v in rows if v > 1]
    return sum(h for h, _ in rows) / len(rows), sum(comparable) / len(comparable)


def test_means_leave_out_padding_and_rows_with_one_visible_key():
    n = 10
    query, key, mask = random_case(n, causal=True, padded=True)
    metric = AttentionEntropy(n_layers=2, n_heads=3)
    metric.update(1, attention_entropy(query, key, mask, 0.5), mask.padding)
    means = metric.compute()
    visible = mask.rows(0, n)
    nats = reference(query, key, visible, 0.5)
    n_visible = visible[:, 0].sum(-1).flatten().tolist()
    counted = mask.padding.flatten().tolist()
    for head in range(3):
        mean, normalised = by_hand(nats[:, head].flatten().tolist(), n_visible, counted)
        assert means["nats"][1, head].item() == pytest.approx(mean, abs=1e-5)
        assert means["normalised"][1, head].item() == pytest.approx(normalised, abs=1e-5)
    assert means["nats"][0].isnan().all()  # a layer that was never seen has no value


def test_a_row_without_any_key_counts_nowhere():
    n = 4
    padding = torch.tensor([[False, False, True, True]])
    mask = AttentionMask(n, n, True, padding, CPU)
    entropy = attention_entropy(torch.zeros(1, 1, n, 2), torch.zeros(1, 1, n, 2), mask, 1.0)
    metric = AttentionEntropy(1, 1)
    metric.update(0, entropy, torch.ones(1, n, dtype=torch.bool))
    # Rows 0 and 1 see nothing, row 2 one key, row 3 two keys.
    assert metric.compute()["nats"].item() == pytest.approx(math.log(2) / 2)
    assert metric.compute()["normalised"].item() == pytest.approx(1.0)
