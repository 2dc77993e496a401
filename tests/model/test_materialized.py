import pytest
import torch
import torch.nn.functional as F

from pretrain.model import AttentionMask, ScaledDotProductAttention
from pretrain.model import attention as attention_module
from pretrain.model.materialized import is_better_materialized, materialized_attention

CPU = torch.device("cpu")


def masks():
    padding = torch.tensor([[True] * 6 + [False] * 2, [False] * 3 + [True] * 5])
    slopes = torch.tensor([0.5, 0.125])
    return {
        "none": AttentionMask(8, 8, False, None, CPU),
        "causal": AttentionMask(8, 8, True, None, CPU),
        "padded": AttentionMask(8, 8, False, padding, CPU),
        "blind rows": AttentionMask(8, 8, True, padding, CPU),
        "alibi": AttentionMask(8, 8, True, padding, CPU, None, slopes),
        "window": AttentionMask(8, 8, True, padding, CPU, 3),
    }


@pytest.mark.parametrize("kind", masks())
def test_it_equals_the_fused_kernel_forward_and_backward(kind, monkeypatch):
    results = []
    for better in (False, True):
        monkeypatch.setattr(attention_module, "is_better_materialized", lambda *_, b=better: b)
        torch.manual_seed(0)
        inputs = torch.randn(3, 2, 2, 8, 4, dtype=torch.float64, requires_grad=True)
        context = ScaledDotProductAttention(4, 0.0)(*inputs, masks()[kind])
        context.sin().sum().backward()
        results.append((context.detach(), inputs.grad))
    torch.testing.assert_close(results[0], results[1])


def test_in_bf16_it_is_as_near_to_the_truth_as_two_roundings_are():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 32, 16)
    exact = F.scaled_dot_product_attention(*(t.double() for t in (query, key, value)))
    rounded = (t.bfloat16() for t in (query, key, value))
    found = materialized_attention(*rounded, None, False, 0.0, 0.25)
    assert found.dtype == torch.bfloat16
    assert float((found.double() - exact).abs().max()) < 0.03


def test_dropped_weights_leave_the_mean_and_give_another_context_each_time():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 8, 4)
    core = ScaledDotProductAttention(4, 0.3).train()
    mask = AttentionMask(8, 8, True, None, CPU)
    contexts = torch.stack([core(query, key, value, mask) for _ in range(4000)])
    whole = core.eval()(query, key, value, mask)
    assert float((contexts.mean(0) - whole).abs().max()) < 0.1
    assert not torch.equal(contexts[0], contexts[1])


def test_it_is_chosen_by_device_precision_length_and_dropout():
    def choose(n_keys=128, dtype=torch.bfloat16, rate=0.0, device="cpu"):
        key = torch.empty(1, 1, n_keys, 8, dtype=dtype, device=device)
        return is_better_materialized(key, key, rate)

    assert choose()
    assert choose(n_keys=256)
    assert not choose(n_keys=512)
    assert not choose(dtype=torch.float32)
    assert choose(dtype=torch.float32, rate=0.1)
    assert not choose(device="meta", rate=0.1)
    with torch.no_grad():
        assert not choose()
