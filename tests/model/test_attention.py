import math

import pytest
import torch

from pretrain.model import AttentionMask, ScaledDotProductAttention

CPU = torch.device("cpu")


def reference(query, key, value, mask):
    """Attention by loops in float64, one query at a time; nothing visible gives zeros."""
    query, key, value = query.double(), key.double(), value.double()
    rows = mask.rows(0, query.shape[2]).expand(query.shape[0], 1, -1, -1)
    past = key.shape[2] - query.shape[2]
    context = torch.zeros_like(query)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for i in range(query.shape[2]):
                seen = [j for j in range(key.shape[2]) if rows[b, 0, i, j]]
                scores = [float(query[b, h, i] @ key[b, h, j]) for j in seen]
                scores = [s / math.sqrt(query.shape[3]) for s in scores]
                if mask.slopes is not None:
                    far = [abs(i + past - j) * float(mask.slopes[h]) for j in seen]
                    scores = [s - f for s, f in zip(scores, far, strict=True)]
                weights = [math.exp(s) for s in scores]
                for weight, j in zip(weights, seen, strict=True):
                    context[b, h, i] += weight / sum(weights) * value[b, h, j]
    return context


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_attention_equals_the_loop(causal, padded):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 5, 4)
    padding = torch.tensor([[True] * 3 + [False] * 2, [False, False, True, True, True]])
    mask = AttentionMask(5, 5, causal, padding if padded else None, CPU)
    context = ScaledDotProductAttention(4, 0.0)(query, key, value, mask)
    torch.testing.assert_close(context.double(), reference(query, key, value, mask))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 2])
def test_attention_with_window_and_bias_equals_the_loop(causal, window):
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 2, 3, 4), *torch.randn(2, 2, 2, 6, 4)
    padding = torch.tensor([[True] * 4 + [False] * 2, [False, False] + [True] * 4])
    slopes = torch.tensor([0.5, 0.125])
    mask = AttentionMask(3, 6, causal, padding, CPU, window, slopes)
    context = ScaledDotProductAttention(4, 0.0)(query, key, value, mask)
    torch.testing.assert_close(context.double(), reference(query, key, value, mask))


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_is_computed_in_pieces_with_the_same_result(causal, monkeypatch):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 300, 8)
    mask = AttentionMask(300, 300, causal, None, CPU, 40)
    core = ScaledDotProductAttention(8, 0.0)
    sizes = []
    attend = core._attend

    def counted(*args):
        sizes.append((args[0].shape[2], args[1].shape[2]))
        return attend(*args)

    monkeypatch.setattr(core, "_attend", counted)
    context = core(query, key, value, mask)
    whole = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask.rows(0, 300)
    )
    torch.testing.assert_close(context, whole)
    # r·n and not n²: no piece reads more keys than its rows and a window on either side.
    assert len(sizes) == 3
    assert all(keys <= rows + 2 * 39 for rows, keys in sizes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("slopes", [None, torch.tensor([0.5, 0.25])])
def test_a_query_that_sees_nothing_gives_zeros_and_finite_gradients(dtype, dropout, slopes):
    torch.manual_seed(0)
    inputs = torch.randn(3, 2, 2, 4, 8, dtype=dtype, requires_grad=True)
    # Left padding under a causal mask: the first queries of row 0 see no key at all.
    padding = torch.tensor([[False, False, True, True], [True] * 4])
    mask = AttentionMask(4, 4, True, padding, CPU, None, slopes)
    context = ScaledDotProductAttention(8, dropout).train()(*inputs, mask)
    assert (context[0, :, :2] == 0).all()
    context.square().sum().backward()
    assert torch.isfinite(inputs.grad).all()


def test_keys_and_values_may_come_from_another_sequence():
    query, key, value = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 4)
    mask = AttentionMask(3, 7, False, None, CPU)
    context = ScaledDotProductAttention(4, 0.0)(query, key, value, mask)
    torch.testing.assert_close(context.double(), reference(query, key, value, mask))
