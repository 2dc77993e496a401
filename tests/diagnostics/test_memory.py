import pytest
import torch
from tiny import SHAPE, causal_rows, make_task
from torch._subclasses.fake_tensor import FakeTensorMode

from pretrain.diagnostics.memory import (
    ACTIVATIONS,
    BUCKETS,
    COPIES,
    GRADIENTS,
    HEAD,
    STATES,
    TEMPORARY,
    WEIGHTS,
    MemoryTracker,
    step_memory,
)
from pretrain.tasks import CausalLM, OptimizerConfig
from pretrain.tasks.optimizer import MuonAdamW

LONG = {"lengths": [64] * 8}  # enough tokens for activations to outweigh the weights


def memory_of(task, batch, **options):
    return step_memory(task, batch, MuonAdamW(task.parameter_groups()), **options)


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_a_storage_counts_once_and_as_long_as_it_lives():
    with MemoryTracker() as tracker:
        tracker.part = ACTIVATIONS
        a = torch.zeros(1000)
        view = a.view(10, 100)
        assert tracker.held[ACTIVATIONS] == 4000
        del a
        assert tracker.held[ACTIVATIONS] == 4000
        b = view + 1
        assert tracker.held[ACTIVATIONS] == 8000
        tracker.assign([b], GRADIENTS)
        assert tracker.held[GRADIENTS] == 4000
        del view, b
        assert not any(tracker.held.values())
        assert sum(tracker.peak.values()) == 8000


@pytest.mark.parametrize("matrices", ["adamw", "muon"])
def test_weights_gradients_and_states_are_those_of_the_optimizer(matrices):
    task = make_task("clm", optimizer=OptimizerConfig(matrices=matrices))
    optimizer = MuonAdamW(task.parameter_groups())
    memory = step_memory(task, causal_rows(**LONG), optimizer)
    weights = bytes_of(task.parameters())
    states = bytes_of(value for state in optimizer.state.values() for value in state.values())
    assert memory.parts[WEIGHTS] == weights
    assert memory.parts.get(GRADIENTS, 0) <= weights
    assert memory.parts[STATES] == states
    assert memory.kept == weights + states


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_what_the_backward_pass_needs_is_held_at_the_peak(autocast):
    task, batch = make_task("clm"), causal_rows(**LONG)
    own = {p.untyped_storage().data_ptr() for p in task.parameters()}
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", autocast, enabled=autocast is not None),
    ):
        loss = task.losses(batch).objective
    assert loss.requires_grad
    memory = memory_of(task, batch, autocast=autocast)
    beyond = memory.peak - memory.kept
    assert sum(saved.values()) <= beyond <= 1.5 * sum(saved.values())
    assert (COPIES in memory.parts) == (autocast is not None)


@pytest.mark.parametrize(
    "network", [{}, {"dropout": 0.1}, {"position": "learned"}, {"sliding_window": 8}]
)
def test_tensors_without_content_tell_the_same_as_real_ones(network):
    batch = causal_rows(**LONG)
    real = memory_of(make_task("clm", network=network), batch)
    task = CausalLM(network={**SHAPE, **network})
    with FakeTensorMode() as mode:
        task.configure_model()
        fake = memory_of(task, {name: mode.from_tensor(one) for name, one in batch.items()})
    assert fake == real


def test_experts_without_content_share_the_tokens_evenly():
    network = {"n_experts": 4, "experts_per_token": 2}
    batch = causal_rows(**LONG)
    real = memory_of(make_task("clm", network=network), batch)
    task = CausalLM(network={**SHAPE, **network})
    with FakeTensorMode() as mode:
        task.configure_model()
        fake = memory_of(task, {name: mode.from_tensor(one) for name, one in batch.items()})
    assert fake.peak == pytest.approx(real.peak, rel=0.05)


def test_activations_grow_with_the_rows_and_nothing_else_does():
    small, double, triple = (
        memory_of(make_task("clm"), causal_rows([64] * n)).parts for n in (8, 16, 24)
    )
    for name in (WEIGHTS, STATES):
        assert small[name] == double[name] == triple[name]
    grows = double[ACTIVATIONS] - small[ACTIVATIONS]
    assert triple[ACTIVATIONS] - double[ACTIVATIONS] == grows
    assert grows > 0.9 * small[ACTIVATIONS]


def test_several_processes_hold_gradients_a_second_time():
    task = make_task("clm")
    parts = memory_of(task, causal_rows(**LONG), n_processes=2).parts
    assert parts[BUCKETS] == bytes_of(task.parameters())


def test_scratch_memory_inside_an_operation_of_torch_is_seen():
    # The chunked loss hides its logits, (1024, vocabulary), behind one operation.
    vocab = 20_000
    task = make_task("clm", network={"vocab_size": vocab, "n_layers": 1})
    batch = causal_rows([64] * 16)
    parts = memory_of(task, batch).parts
    chunk = 4 * vocab * 1024
    assert chunk <= parts.get(HEAD, 0) + parts.get(TEMPORARY, 0) + parts[ACTIVATIONS]
