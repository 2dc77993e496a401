import math

import pytest
import torch

from pretrain.model import AttentionMask, ScaledDotProductAttention

CPU = torch.device("cpu")


def reference(query, key, value, mask):
    """Attention by loops in float64, one query at a time; nothing visible gives zeros."""
    query, key, value = query.double(), key.double(), value.double()
    rows = mask.rows(0, query.shape[2]).expand(query.shape[0], 1, -1, -1)
    context = torch.zeros_like(query)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for i in range(query.shape[2]):
                seen = [j for j in range(key.shape[2]) if rows[b, 0, i, j]]
                scores = [float(query[b, h, i] @ key[b, h, j]) for j in seen]
                weights = [math.exp(s / math.sqrt(query.shape[3])) for s in scores]
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_query_that_sees_nothing_gives_zeros_and_finite_gradients(dtype, dropout):
    torch.manual_seed(0)
    inputs = torch.randn(3, 2, 2, 4, 8, dtype=dtype, requires_grad=True)
    # Left padding under a causal mask: the first queries of row 0 see no key at all.
    padding = torch.tensor([[False, False, True, True], [True] * 4])
    mask = AttentionMask(4, 4, True, padding, CPU)
    context = ScaledDotProductAttention(8, dropout).train()(*inputs, mask)
    assert (context[0, :, :2] == 0).all()
    context.square().sum().backward()
    assert torch.isfinite(inputs.grad).all()


def test_keys_and_values_may_come_from_another_sequence():
    query, key, value = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 7, 4), torch.randn(1, 2, 7, 4)
    mask = AttentionMask(3, 7, False, None, CPU)
    context = ScaledDotProductAttention(4, 0.0)(query, key, value, mask)
    torch.testing.assert_close(context.double(), reference(query, key, value, mask))
