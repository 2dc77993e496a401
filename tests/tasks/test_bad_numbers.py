"""An update that is not finite is never taken, and the run says which and where."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins import MixedPrecision
from tiny import causal_rows, fit, make_task

from pretrain.errors import UserError
from pretrain.tasks import bad_numbers
from pretrain.tasks.bad_numbers import BadNumbers

BATCHES = [causal_rows([9, 12]) for _ in range(6)]
LAYER = "transformer.blocks.1.feed_forward.up.weight"


class Poison(Callback):
    """Makes the gradient of one parameter NaN at some steps, and keeps the weights before each."""

    def __init__(self, steps, name=LAYER, value=math.nan):
        self.steps, self.name, self.value = steps, name, value
        self.before = {}

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        state = pl_module.state_dict()
        self.before[trainer.global_step + 1] = {k: v.clone() for k, v in state.items()}

    def on_after_backward(self, trainer, pl_module):
        if trainer.global_step + 1 in self.steps:
            pl_module.get_parameter(self.name).grad[0, 0] = self.value


def finite(task):
    return all(bool(p.isfinite().all()) for p in task.parameters())


def same(task, state):
    return all(torch.equal(value, state[name]) for name, value in task.state_dict().items())


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_bad_update_stops_the_run_and_no_weight_is_touched(value, clip):
    task, poison = make_task("clm"), Poison([3], value=value)
    with pytest.raises(UserError) as stop:
        fit(task, BATCHES, callbacks=[poison], gradient_clip_val=clip)
    message = str(stop.value)
    assert "Step 3 (epoch 0, micro-batch 2) was not taken" in message
    assert LAYER in message
    assert finite(task)
    assert same(task, poison.before[3])


def test_an_accumulated_window_is_named_whole():
    poison = Poison([2])
    with pytest.raises(UserError, match=r"Step 2 \(epoch 0, micro-batch 3 to 5\)"):
        fit(make_task("clm"), BATCHES, callbacks=[poison], max_steps=2, accumulate_grad_batches=3)


def test_where_the_forward_pass_fails_its_layer_is_named():
    task = make_task("clm")
    calls = []

    def overflow(module, inputs, output):
        calls.append(1)
        return output * math.inf if task.trainer.global_step == 1 else output

    task.transformer.blocks[1].attention.register_forward_hook(overflow)
    with pytest.raises(UserError, match=r"Step 2 .*not finite is that of .*blocks\.1\.attention"):
        fit(task, BATCHES)
    assert finite(task)


def test_all_ranks_say_what_the_one_saw_whose_rows_were_bad(tmp_path):
    script = Path(__file__).with_name("overflowing_ranks.py")
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=300)
    first, second = ((tmp_path / f"{rank}.txt").read_text() for rank in (0, 1))
    assert first == second
    assert "On rank 1: The first output that is not finite is that of" in first
    assert "blocks.1.attention" in first


def test_a_step_is_left_out_where_that_is_asked_for():
    task, poison = make_task("clm"), Poison([2, 4])
    guard = BadNumbers("skip")
    trainer = fit(task, BATCHES, callbacks=[poison, guard])
    assert trainer.global_step == 6
    assert guard.n_skipped == 2
    assert float(trainer.callback_metrics["anomaly/skipped_steps"]) == 2
    assert finite(task)
    for step in (2, 4):
        before, after = poison.before[step], poison.before[step + 1]
        assert all(torch.equal(before[name], after[name]) for name in before)
    assert not same(task, poison.before[5])


def test_a_loss_that_is_not_finite_is_left_out_of_the_mean():
    task = make_task("clm")

    def overflow(module, inputs, output):
        return output * math.nan if task.trainer.global_step == 1 else output

    task.transformer.blocks[0].register_forward_hook(overflow)
    trainer = fit(task, BATCHES[:3], callbacks=[BadNumbers("skip")], log_every_n_steps=3)
    assert math.isfinite(float(trainer.callback_metrics["train/loss"]))


def test_on_other_devices_the_verdict_comes_one_step_later(monkeypatch):
    class Arrived:
        def synchronize(self):
            pass

    send = BadNumbers._send

    def late(norms, trainer, module):
        return send(norms, trainer, module)._replace(arrived=Arrived())

    monkeypatch.setattr(BadNumbers, "_send", staticmethod(late))
    task, poison = make_task("clm"), Poison([3])
    with pytest.raises(UserError, match=r"Step 3 \(epoch 0, micro-batch 2\)"):
        fit(task, BATCHES, callbacks=[poison])
    assert max(poison.before) == 4  # it was under way when the verdict arrived
    assert finite(task)
    assert same(task, poison.before[3])


def test_a_gradient_that_stays_bad_ends_the_run_even_if_skipped(monkeypatch):
    monkeypatch.setattr(bad_numbers, "LONGEST_ROW", 3)
    callbacks = [Poison(range(10)), BadNumbers("skip")]
    with pytest.raises(UserError, match="3 steps in succession"):
        fit(make_task("clm"), BATCHES, callbacks=callbacks)


def test_an_overflow_under_a_gradient_scaler_is_counted_and_no_fault():
    task, guard = make_task("clm"), BadNumbers()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    precision = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    batches = BATCHES * 10
    poison = Poison([])
    fit(task, batches, plugins=[precision], callbacks=[guard, poison])
    assert 0 < guard.n_skipped < len(batches)
    assert scaler.get_scale() < 2.0**60
    assert same(task, poison.before[1]) is False
    assert finite(task)


def test_an_unknown_action_is_refused():
    with pytest.raises(UserError, match="stop or skip"):
        BadNumbers("ignore")
