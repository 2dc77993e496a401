import copy
import math

import pytest
import torch
from torch import nn

from pretrain.tasks import MuonAdamW, OptimizerConfig
from pretrain.tasks import optimizer as optimizer_module
from pretrain.tasks.optimizer import orthogonalize
from pretrain.tasks.parameter_groups import parameter_groups


class Net(nn.Module):
    """Named as the model is: two matrices of one shape, a tall one, an embedding, a head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embeddings = nn.Embedding(7, 6)
        self.blocks = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 12))
        self.head = nn.Linear(12, 7)

    def forward(self, ids):
        return self.head(self.blocks(self.embeddings(ids)))


def train(net, optimizer, steps, start=0):
    for step in range(start, start + steps):
        ids = torch.randint(0, 7, (16,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(ids), (ids + 1) % 7).backward()
        optimizer.step()


def our_optimizer(net, lr=0.02, **options):
    return MuonAdamW(parameter_groups(net, OptimizerConfig(**options), lr))


def weights(net):
    return [p.detach().clone() for p in net.parameters()]


def test_adamw_alone_is_torchs_adamw_with_decay_on_matrices_only():
    ours, theirs = Net(), Net()
    options = {"betas": (0.9, 0.98), "eps": 1e-6, "weight_decay": 0.1}
    train(
        ours,
        our_optimizer(ours, matrices="adamw", embedding_lr_ratio=1, head_lr_ratio=1, **options),
        5,
    )
    decay = [p for p in theirs.parameters() if p.ndim == 2]
    plain = [p for p in theirs.parameters() if p.ndim < 2]
    groups = [{"params": decay}, {"params": plain, "weight_decay": 0.0}]
    train(theirs, torch.optim.AdamW(groups, lr=0.02, **options), 5)
    for a, b in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_muon_is_torchs_muon(monkeypatch):
    # torch's own orthogonalises in bf16 whatever the device; both do so here.
    monkeypatch.setattr(optimizer_module, "multiplies_bf16_fast", lambda device: True)
    ours, theirs = Net(), Net()
    train(ours, our_optimizer(ours, head_lr_ratio=0.0, embedding_lr_ratio=0.0), 3)
    matrices = [layer.weight for layer in theirs.blocks]
    muon = torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.0)
    train(theirs, muon, 3)
    for layer, other in zip(ours.blocks, theirs.blocks, strict=True):
        torch.testing.assert_close(layer.weight, other.weight, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("fast_bf16", [True, False])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 4, 10), (2, 12, 5)])
def test_orthogonalised_matrices_have_singular_values_near_one(monkeypatch, fast_bf16, shape):
    monkeypatch.setattr(optimizer_module, "multiplies_bf16_fast", lambda device: fast_bf16)
    torch.manual_seed(0)
    found = orthogonalize(torch.randn(shape)).float()
    assert found.shape == shape
    values = torch.linalg.svdvals(found)
    assert float(values.min()) > 0.3
    assert float(values.max()) < 1.3


def test_orthogonalisation_keeps_the_singular_vectors():
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(6, 6))
    found = orthogonalize((u @ torch.diag(torch.linspace(1, 2, 6)) @ v)[None])[0].float()
    rotated = u.T @ found @ v.T
    off_diagonal = rotated - torch.diag(rotated.diagonal())
    assert float(off_diagonal.abs().max()) < 0.05


def test_ratios_scale_with_the_one_learning_rate():
    net = Net()
    optimizer = our_optimizer(net, lr=0.1, embedding_lr_ratio=0.0, head_lr_ratio=0.5)
    for group in optimizer.param_groups:
        assert group["lr"] == 0.1  # schedulers and the learning-rate finder see one number
        group["lr"] = 0.0
    before = weights(net)
    train(net, optimizer, 1)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(net), strict=True))
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    train(net, optimizer, 1)
    assert torch.equal(net.embeddings.weight, before[0])
    # AdamW's first steps move each weight by about its rate.
    moved = (net.head.weight.detach() - before[-2]).abs().max()
    assert float(moved) == pytest.approx(0.05, rel=0.2)


def test_a_tall_matrix_moves_by_the_root_of_its_ratio():
    net = Net()
    before = net.blocks[2].weight.detach().clone()
    train(net, our_optimizer(net, lr=0.01), 1)
    singular = torch.linalg.svdvals((net.blocks[2].weight.detach() - before) / 0.01)
    assert float(singular.max()) == pytest.approx(math.sqrt(2), rel=0.3)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_fused_queries_keys_and_values_move_alike_for_any_number_of_key_heads(n_kv_heads):
    """They are orthogonalised as one matrix, whose rate makes up for its height."""
    d_model, n_heads = 32, 4
    torch.manual_seed(0)
    net = nn.Module()
    net.blocks = nn.Linear(d_model, d_model + 2 * n_kv_heads * d_model // n_heads, bias=False)
    before = net.blocks.weight.detach().clone()
    net.blocks.weight.grad = torch.randn_like(before)
    our_optimizer(net, lr=0.01).step()
    moved = (net.blocks.weight.detach() - before).square().mean().sqrt()
    assert float(moved) == pytest.approx(0.01 / math.sqrt(d_model), rel=0.2)


def test_a_restored_optimizer_goes_on_to_the_bit():
    whole = Net()
    train(whole, our_optimizer(whole), 6)
    first = Net()
    optimizer = our_optimizer(first)
    train(first, optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    second = Net()
    second.load_state_dict(first.state_dict())
    resumed = our_optimizer(second)
    resumed.load_state_dict(saved)
    train(second, resumed, 3, start=3)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(second), strict=True))


def test_it_declares_no_support_for_scaled_gradients():
    assert not getattr(our_optimizer(Net()), "_step_supports_amp_scaling", False)


def state_tensors(optimizer):
    return [
        value.clone() for state in optimizer.state.values() for _, value in sorted(state.items())
    ]


@pytest.mark.parametrize("matrices", ["muon", "adamw"])
def test_a_closed_gate_leaves_weights_and_states_as_they_are_for_one_step(matrices):
    net = Net()
    optimizer = our_optimizer(net, matrices=matrices, weight_decay=0.1)
    train(net, optimizer, 2)
    before = weights(net), state_tensors(optimizer)
    for p in net.parameters():
        p.grad = torch.full_like(p, math.nan)
    optimizer.gate = torch.tensor(False)
    optimizer.step()
    for group, kept in zip((weights(net), state_tensors(optimizer)), before, strict=True):
        assert all(torch.equal(now, then) for now, then in zip(group, kept, strict=True))
    train(net, optimizer, 1, start=2)  # the next one is taken again
    assert not torch.equal(weights(net)[0], before[0][0])


@pytest.mark.parametrize("matrices", ["muon", "adamw"])
def test_an_open_gate_changes_nothing(matrices):
    plain, gated = Net(), Net()
    options = {"matrices": matrices, "weight_decay": 0.1}
    optimizers = our_optimizer(plain, **options), our_optimizer(gated, **options)
    for step in range(3):
        train(plain, optimizers[0], 1, start=step)
        optimizers[1].gate = torch.tensor(True)
        train(gated, optimizers[1], 1, start=step)
    for a, b in zip(weights(plain), weights(gated), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
