import copy

import pytest
import torch
import transformers
from transformers.models.mixtral.modeling_mixtral import (
    MixtralSparseMoeBlock,
    load_balancing_loss_func,
)

from pretrain.model import FeedForward, TransformerConfig
from pretrain.model.experts import MixtureOfExperts, load_balance_loss

D, D_FF, EXPERTS = 12, 20, 5


def mixture(n_experts=EXPERTS, per_token=2, activation="swiglu"):
    torch.manual_seed(0)
    return MixtureOfExperts(
        TransformerConfig(
            d_model=D, n_heads=2, d_ff=D_FF, n_experts=n_experts, experts_per_token=per_token,
            activation=activation,
        )
    )  # fmt: skip


def peer_of(ours):
    """Mixtral's block with the same weights."""
    config = transformers.MixtralConfig(
        hidden_size=D, intermediate_size=D_FF, num_local_experts=len(ours.experts),
        num_experts_per_tok=ours.experts_per_token,
    )  # fmt: skip
    peer = MixtralSparseMoeBlock(config)
    with torch.no_grad():
        peer.gate.weight.copy_(ours.router.weight)
        for i, expert in enumerate(ours.experts):
            peer.experts.gate_up_proj[i] = torch.cat((expert.gate.weight, expert.up.weight))
            peer.experts.down_proj[i] = expert.down.weight
    return peer


def test_a_single_chosen_expert_is_weighed_as_in_switch_transformers():
    ours, x = mixture(per_token=1), torch.randn(9, D)
    probabilities = ours.router(x).softmax(-1)
    best = probabilities.argmax(-1)
    expected = [probabilities[i, e] * ours.experts[e](x[i]) for i, e in enumerate(best)]
    torch.testing.assert_close(ours(x[None])[0], torch.stack(expected), rtol=1e-5, atol=1e-6)
    ours(x[None]).square().sum().backward()
    assert float(ours.router.weight.grad.norm()) > 1e-3  # else it could not learn whom to choose


@pytest.mark.parametrize("per_token", [2, EXPERTS])
def test_it_is_mixtrals_block(per_token):
    ours = mixture(per_token=per_token)
    peer = peer_of(ours)
    x = torch.randn(3, 7, D, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    torch.testing.assert_close(ours(x), peer(y), rtol=1e-5, atol=1e-6)
    probe = torch.randn(3, 7, D)
    (ours(x) * probe).sum().backward()
    (peer(y) * probe).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-6)
    router = (ours.router.weight.grad, peer.gate.weight.grad)
    torch.testing.assert_close(*router, rtol=1e-4, atol=1e-6)


def test_its_balance_is_mixtrals_per_assignment():
    """Theirs counts a token once for each of its experts, so it is k at perfect balance."""
    ours, x = mixture(per_token=2), torch.randn(4, 9, D)
    ours(x)
    logits = (x.reshape(-1, D) @ ours.router.weight.T,)
    theirs = load_balancing_loss_func(logits, EXPERTS, top_k=2)
    torch.testing.assert_close(ours.load_balance_loss, theirs / 2)


def test_one_expert_is_the_dense_layer_exactly():
    ours = mixture(n_experts=1, per_token=1, activation="gelu")
    dense = FeedForward(TransformerConfig(d_model=D, n_heads=2, d_ff=D_FF, activation="gelu"))
    dense.load_state_dict(ours.experts[0].state_dict())
    x = torch.randn(2, 6, D)
    assert torch.equal(ours(x), dense(x))
    assert ours.load_balance_loss.item() == 1.0


def test_the_balance_is_one_when_even_and_n_experts_when_one_gets_all():
    even = torch.eye(4).repeat(3, 1) * 9.0  # logits of 12 tokens, three for each expert
    torch.testing.assert_close(load_balance_loss(even, even.topk(1).indices), torch.tensor(1.0))
    one = torch.zeros(6, 4)
    one[:, 2] = 50.0
    torch.testing.assert_close(load_balance_loss(one, one.topk(1).indices), torch.tensor(4.0))


def test_the_balance_pushes_the_router_towards_the_neglected_experts():
    ours = mixture(per_token=1)
    x = torch.randn(1, 64, D)
    with torch.no_grad():  # all tokens prefer expert 0 a little
        ours.router.weight.mul_(0.1)
        x[..., 0], ours.router.weight[:, 0] = 1.0, 0.0
        ours.router.weight[0, 0] = 2.0
    optimizer = torch.optim.SGD([ours.router.weight], lr=1.0)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        ours(x)
        ours.load_balance_loss.backward()
        optimizer.step()
        losses.append(float(ours.load_balance_loss.detach()))
    assert losses[0] > 2
    assert losses[-1] < 1.3


def test_every_expert_has_a_gradient_also_without_tokens():
    ours = mixture(n_experts=8, per_token=1)
    ours(torch.randn(1, 2, D)).sum().backward()
    norms = [float(expert.down.weight.grad.norm()) for expert in ours.experts]
    assert 1 <= sum(norm > 0 for norm in norms) <= 2


def test_it_is_deterministic_and_tokens_do_not_see_each_other():
    ours, x = mixture(), torch.randn(2, 8, D)
    assert torch.equal(ours(x), ours(x))
    torch.testing.assert_close(ours(x[:1, :3]), ours(x)[:1, :3])


def test_under_autocast_the_router_and_its_loss_stay_in_float32():
    ours, x = mixture(), torch.randn(2, 8, D)
    ours(x)
    exact = ours.load_balance_loss
    with torch.autocast("cpu", torch.bfloat16):
        output = ours(x)
    assert output.dtype == torch.bfloat16  # as the dense layer gives
    assert ours.load_balance_loss.dtype == torch.float32
    assert torch.equal(ours.load_balance_loss, exact)


def test_a_model_that_was_used_can_be_copied():
    ours = mixture()
    ours(torch.randn(1, 3, D))
    copied = copy.deepcopy(ours)
    assert torch.equal(copied.load_balance_loss, ours.load_balance_loss)
    assert not copied.load_balance_loss.requires_grad
    assert torch.equal(copied.router.weight, ours.router.weight)
