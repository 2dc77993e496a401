import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pretrain.model.dropout import Dropout


def dropout(x, rate):
    return Dropout(rate).train()(x)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.003])
def test_the_share_that_is_dropped_is_the_rate(rate):
    torch.manual_seed(0)
    n = 20_000_000
    share = float((dropout(torch.ones(n), rate) == 0).float().mean(dtype=torch.float64))
    # 1e-4 for what 16 bits can express, and four standard errors of the draw.
    assert abs(share - rate) < 1e-4 + 4 * math.sqrt(rate * (1 - rate) / n)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.3, 0.999, 0.999999])
def test_survivors_are_scaled_by_the_rate_that_is_really_used(rate):
    torch.manual_seed(0)
    kept = dropout(torch.ones(100_000, dtype=torch.float64), rate)
    scales = kept[kept != 0].unique()
    used = min(round(rate * 65536), 65535) / 65536
    assert abs(used - rate) < 1e-4
    assert all(abs(float(scale) * (1 - used) - 1) < 1e-12 for scale in scales)


def test_a_bf16_survivor_is_rounded_once():
    torch.manual_seed(0)
    x = torch.randn(10_000).bfloat16()
    y = dropout(x, 0.1)
    exact = (x.double() * (65536 / (65536 - 6554))).bfloat16()
    assert y.dtype == torch.bfloat16
    assert torch.equal(y[y != 0], exact[y != 0])


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 7, 64])
def test_elements_are_dropped_independently_of_their_neighbours(apart):
    torch.manual_seed(1)
    n = 4_000_000
    dropped = (dropout(torch.ones(n), 0.1) == 0).double()
    both = float((dropped[apart:] * dropped[:-apart]).mean())
    assert abs(both - 0.01) < 4 * math.sqrt(0.01 * 0.99 / n)


def test_every_call_draws_anew_and_a_seed_brings_it_back():
    x = torch.ones(100_000)
    torch.manual_seed(7)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(7)
    assert torch.equal(dropout(x, 0.5), first)
    assert abs(float((first == second).float().mean()) - 0.5) < 0.01


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 7)])
def test_the_gradient_passes_where_the_value_passed(shape):
    torch.manual_seed(0)
    x = torch.full(shape, 2.0, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert y.shape == x.shape
    torch.testing.assert_close(x.grad * 2, y)


def test_a_checkpointed_layer_drops_the_same_elements_again():
    torch.manual_seed(0)
    x = torch.ones(1000, requires_grad=True)
    y = checkpoint(lambda t: dropout(t, 0.5) * t, x, use_reentrant=False)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * y)


def test_evaluation_and_a_rate_of_zero_change_nothing():
    x = torch.randn(10)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_compiled_the_statistics_are_the_same():
    torch.manual_seed(0)
    layer = torch.compile(Dropout(0.1).train(), backend="eager")
    y = layer(torch.ones(1_000_000))
    assert abs(float((y == 0).float().mean()) - 0.1) < 4 * math.sqrt(0.09 / 1e6)
