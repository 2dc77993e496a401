import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback

from pretrain.diagnostics import ForwardProbe, attention_entropy, count_active
from pretrain.diagnostics.forward_probe import real_tokens, undisturbed
from pretrain.errors import UserError

PER_LAYER = (
    "attention/mean_entropy", "attention/max_logit", "attention/pattern_similarity",
    "attention/query_similarity", "ffn/dead_share", "ffn/activity_p10", "ffn/activity_p50",
    "ffn/activity_p90", "residual/rms",
)  # fmt: skip
NORMS = ("embeddings/norm", "final_norm", *(
    f"layer_{i}/{name}_norm" for i in range(2) for name in ("attention", "feed_forward")
))  # fmt: skip
NAMES = {
    *(f"attention/{kind}/layer_{i}/head_{j}" for kind in ("entropy", "entropy_nats")
      for i in range(2) for j in range(2)),
    *(f"{name}/layer_{i}" for name in PER_LAYER for i in range(2)),
    *(f"norm/min_input_std/{norm}" for norm in NORMS),
    "ffn/dead_window_tokens", "residual/rms/last", "residual/growth", "probe/seconds",
    "probe/time_share",
}  # fmt: skip


TIMES = {
    "probe/seconds", "probe/time_share", "time/seconds", "speed/tokens_per_s",
    "speed/step_seconds", "speed/mfu", "speed/data_wait_share",
}  # fmt: skip


def kill_units(task, n_dead):
    """Make the first units of every layer negative for any input."""
    for block in task.transformer.blocks:
        torch.nn.init.zeros_(block.feed_forward.up.weight)
        torch.nn.init.constant_(block.feed_forward.up.bias, 1.0)
        with torch.no_grad():
            block.feed_forward.up.bias[:n_dead] = -1.0
            block.feed_forward.up.requires_grad_(False)


def dead_shares(recorder):
    return [recorder.series(f"ffn/dead_share/layer_{i}") for i in range(2)]


def test_series_are_logged_at_step_one_and_every_nth_optimizer_step(tiny_task, fit):
    recorder = fit(tiny_task(), [ForwardProbe(every_n_steps=3, n_tokens=16)], 7)
    assert sorted(recorder.steps) == [1, 3, 6]
    assert set(recorder.steps[1]) == NAMES - {"probe/time_share"}  # nothing to compare with yet
    assert set(recorder.steps[3]) == set(recorder.steps[6]) == NAMES
    assert recorder.series("ffn/dead_window_tokens") == {1: 16, 3: 32, 6: 48}
    assert all(0 <= v <= 1 for v in recorder.series("attention/entropy/layer_1/head_0").values())


def test_a_mixture_of_experts_is_probed_without_its_units(tiny_task, fit):
    recorder = fit(tiny_task(n_experts=3), [ForwardProbe(every_n_steps=2)], 3)
    expected = {name for name in NAMES if not name.startswith("ffn/")}
    assert set(recorder.steps[2]) == expected
    assert sorted(recorder.steps) == [1, 2]


def test_with_accumulation_it_probes_once_per_optimizer_step(tiny_task, fit):
    probe = ForwardProbe(every_n_steps=1, n_tokens=16)
    recorder = fit(tiny_task(), [probe], 3, accumulate_grad_batches=4)
    assert recorder.series("ffn/dead_window_tokens") == {1: 16, 2: 32, 3: 48}


@pytest.mark.parametrize(
    "options", [{}, {"accumulate_grad_batches": 2}, {"precision": "bf16-mixed"}]
)
def test_three_of_sixteen_forced_dead_are_reported(tiny_task, fit, options):
    task = tiny_task(linear_bias=True)
    kill_units(task, 3)
    recorder = fit(task, [ForwardProbe(every_n_steps=1)], 2, **options)
    assert dead_shares(recorder) == [{1: 3 / 16, 2: 3 / 16}] * 2


def test_a_compiled_network_is_seen_and_not_compiled_again(tiny_task, fit):
    compilations = []

    def backend(graph, inputs):
        compilations.append(graph)
        return graph.forward

    task = tiny_task(linear_bias=True)
    kill_units(task, 3)
    task.transformer.compile(backend=backend)
    recorder = fit(task, [ForwardProbe(every_n_steps=1)], 3)
    assert dead_shares(recorder) == [{1: 3 / 16, 2: 3 / 16, 3: 3 / 16}] * 2
    assert len(compilations) == 1


def test_a_network_that_bypasses_its_parts_is_an_error(tiny_task, fit):
    class Bypassed(tiny_task):
        def hidden_states(self, batch):
            return self.transformer.embeddings.token(batch["input_ids"])

    with pytest.raises(RuntimeError, match=r"DeadUnitsView at 0, .*EntropyView at 1"):
        fit(Bypassed(), [ForwardProbe()], 1)


class DrawAfterProbe(Callback):
    """Draws in every step, so that a disturbed random state would show in the weights."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        with torch.no_grad():
            pl_module.head.bias.add_(1e-3 * torch.randn(pl_module.head.bias.shape))


@pytest.mark.parametrize("config", [{"dropout": 0.2}, {"dropout": 0.0, "activation": "swiglu"}])
def test_weights_are_bit_equal_with_and_without_it(tiny_task, fit, config):
    weights = []
    for callbacks in ([], [ForwardProbe(every_n_steps=2)]):
        task = tiny_task(**config)
        torch.manual_seed(5)
        fit(task, [*callbacks, DrawAfterProbe()], 20)
        weights.append(task.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_each_module_gets_its_own_mode_back(tiny_task):
    task = tiny_task(dropout=0.5).train()
    task.transformer.blocks[1].eval()
    modes = [module.training for module in task.modules()]
    with contextlib.suppress(KeyError), undisturbed(task):
        assert not any(module.training for module in task.modules())
        raise KeyError
    assert [module.training for module in task.modules()] == modes


def test_no_hook_is_left_behind(tiny_task, fit):
    task = tiny_task()
    fit(task, [ForwardProbe()], 1)
    assert not any(module._forward_pre_hooks for module in task.modules())


def test_values_are_those_of_the_probed_rows(tiny_task, fit, token_blocks):
    """Filler, known by its ignored labels, is left out of both; weights do not move (lr 0)."""

    class Still(tiny_task):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    task, data = Still(), token_blocks(4, n_filler=3)
    recorder = fit(task, [ForwardProbe(n_tokens=16)], 1, dataset=data)
    seen = {}
    block = task.transformer.blocks[0]
    block.attention.core.register_forward_pre_hook(lambda _, inputs: seen.update(core=inputs))
    block.feed_forward.activation.register_forward_pre_hook(lambda _, x: seen.update(units=x[0]))
    task.hidden_states({"input_ids": data.inputs[:2]})
    query, key, _, mask = seen["core"]
    nats = attention_entropy(query, key, mask, block.attention.core.scale).nats[:, :, :-3]
    for head in range(2):
        expected = nats[:, head].mean().item()
        logged = recorder.series(f"attention/entropy_nats/layer_0/head_{head}")[1]
        assert logged == pytest.approx(expected, abs=1e-6)
    dead = count_active(seen["units"], data.labels[:2] != -100) == 0
    assert recorder.series("ffn/dead_share/layer_0")[1] == dead.float().mean().item()
    assert recorder.series("ffn/dead_window_tokens") == {1: 2 * 5}


def test_padding_of_a_masked_batch_is_left_out(tiny_task, fit, token_blocks):
    """Positions of targets point into the whole batch, and must not reach the smaller probe."""

    class MaskedBlocks(token_blocks):
        def __getitem__(self, index):
            real = torch.arange(8) < 8 - index
            return {**super().__getitem__(index), "attention_mask": real, "masked_positions": 31}

    task = tiny_task(causal=False)
    recorder = fit(task, [ForwardProbe(n_tokens=16)], 1, dataset=MaskedBlocks(4))
    assert recorder.series("ffn/dead_window_tokens") == {1: 8 + 7}
    assert all(0 < v <= 1 for k, v in recorder.steps[1].items() if "attention/entropy/" in k)


def test_one_layer_with_one_head_has_names_too(tiny_task, fit):
    recorder = fit(tiny_task(n_layers=1, n_heads=1), [ForwardProbe()], 1)
    assert "attention/entropy/layer_0/head_0" in recorder.steps[1]
    assert "ffn/dead_share/layer_0" in recorder.steps[1]


def test_real_tokens_of_each_kind_of_batch():
    ids = torch.zeros(2, 3, dtype=torch.int64)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    causal = torch.tensor([[1, 2, -100], [1, 2, 3]])
    masked_labels = torch.tensor([5, -100])
    assert torch.equal(real_tokens({"input_ids": ids, "attention_mask": mask}), mask)
    assert torch.equal(real_tokens({"input_ids": ids, "labels": causal}), mask)
    assert real_tokens({"input_ids": ids, "labels": masked_labels}).all()


def test_numbers_below_one_are_refused():
    with pytest.raises(UserError, match=r"every_n_steps \(0\)"):
        ForwardProbe(every_n_steps=0)


def test_two_ranks_together_report_what_one_process_reports(tmp_path):
    """Batches of 4 on two ranks are together the batches of 8 on one."""
    script = Path(__file__).with_name("two_ranks.py")
    python_path = f"{script.parents[2]}{os.pathsep}{script.parent}"
    subprocess.run(
        [sys.executable, script, tmp_path],
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": python_path},
    )
    written = ("rank_0", "rank_1", "one_process")
    both, nothing, one_process = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in written
    )
    assert nothing == {}  # only rank 0 logs
    for step in ("1", "2"):
        assert both[step].keys() == one_process[step].keys()
        for name in both[step].keys() - TIMES:
            assert both[step][name] == pytest.approx(one_process[step][name], rel=1e-5), name
