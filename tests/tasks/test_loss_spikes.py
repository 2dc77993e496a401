"""A step whose loss or gradient stands far above its level: told, left out or rolled back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins import MixedPrecision
from tiny import causal_rows, fit, make_task

from pretrain.errors import UserError
from pretrain.tasks import LossSpikes

BATCH = causal_rows([9, 12])


class Spike(Callback):
    """Blows up the network's output in some micro-batches, and keeps the state after each step."""

    def __init__(self, *places):
        self.places = places  # (step, micro-batch of the step)
        self.after = {}
        self._micro = 0

    def on_train_start(self, trainer, pl_module):
        pl_module.transformer.register_forward_hook(
            lambda part, inputs, output: output * (100.0 if self._is_now(trainer) else 1.0)
        )

    def _is_now(self, trainer):
        return (trainer.global_step + 1, self._micro) in self.places

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self._micro = batch_idx % trainer.accumulate_grad_batches

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.after[trainer.global_step] = state_of(trainer)


def state_of(trainer):
    """Weights and optimizer states."""
    module, states = trainer.lightning_module, trainer.optimizers[0].state
    return [
        value.clone()
        for parameter in module.parameters()
        for value in (parameter.detach(), *states[parameter].values())
    ]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def spikes_of(action, **options):
    return LossSpikes(action, **{"window": 4, "roll_back_steps": 3, **options})


def run(callbacks, n_steps=12, accumulate=1, **options):
    """Fit on equal batches; returns the Trainer."""
    task = make_task("clm", lr=1e-3)
    return fit(
        task, [BATCH] * (n_steps * accumulate), callbacks=callbacks, max_steps=n_steps,
        accumulate_grad_batches=accumulate, **options,
    )  # fmt: skip


def test_a_spike_is_told_and_counted_and_changes_nothing(caplog):
    with caplog.at_level("INFO"):
        watched = run([Spike((6, 0), (8, 0)), spikes_of("warn")])
    assert same(state_of(watched), state_of(run([Spike((6, 0), (8, 0))])))
    assert watched.callback_metrics["anomaly/loss_spikes"] == 2
    lines = [r.getMessage() for r in caplog.records if "Loss spike" in r.getMessage()]
    assert [line[:22] for line in lines] == ["Loss spike in step 6: ", "Loss spike in step 8: "]
    assert lines[0].endswith("trained on all the same.")


def test_several_spikes_between_two_logs_are_told_together(caplog):
    with caplog.at_level("INFO"):
        trainer = run([Spike((6, 0), (8, 0)), spikes_of("warn")], log_every_n_steps=50)
    assert "step 8 (and 1 more since the last log step): loss" in caplog.text
    assert trainer.callback_metrics["anomaly/loss_spikes"] == 2


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_spike_is_left_out_and_training_goes_on(accumulate):
    spike = Spike((6, accumulate - 1))
    trainer = run([spike, spikes_of("skip")], accumulate=accumulate)
    assert trainer.global_step == 12
    assert trainer.callback_metrics["anomaly/loss_spikes"] == 1
    assert same(spike.after[5], spike.after[6])
    assert not same(spike.after[6], spike.after[7])


def test_a_gradient_alone_may_be_the_spike():
    class Steep(Callback):
        def on_after_backward(self, trainer, pl_module):
            if trainer.global_step == 5:
                pl_module.head.decoder.weight.grad.mul_(1e3)

    trainer = run([Steep(), spikes_of("skip")])
    assert trainer.callback_metrics["anomaly/loss_spikes"] == 1


def test_a_spike_rolls_back_to_the_copy_that_is_old_enough(caplog):
    spike, watch = Spike((8, 0)), spikes_of("roll_back")
    with caplog.at_level("INFO"):
        run([watch, spike])  # after[8] is what the step left behind, the roll-back included
    assert same(spike.after[8], spike.after[3])
    assert not same(spike.after[8], spike.after[5])
    # The data are equal in every step, so that step 9 does what step 4 did, at the same rate.
    assert same(spike.after[9], spike.after[4])
    assert "weights and optimizer states are those of step 3 again" in caplog.text


def test_without_a_copy_that_is_old_enough_the_step_is_left_out():
    spike = Spike((5, 0))
    run([spikes_of("roll_back"), spike])
    assert same(spike.after[5], spike.after[4])


@pytest.mark.parametrize("action", ["warn", "skip", "roll_back"])
def test_a_resumed_run_judges_and_acts_as_the_whole_one(action, tmp_path):
    class Save(Callback):
        def on_train_batch_end(self, trainer, *args):
            if trainer.global_step == 7:
                trainer.save_checkpoint(tmp_path / "at_7.ckpt")

    places = [(6, 0), (9, 0)]
    whole = run([spikes_of(action), Spike(*places), Save()])
    resumed = make_task("clm", lr=1e-3)
    trainer = fit(
        resumed, [BATCH] * 12, callbacks=[spikes_of(action), Spike(*places)],
        ckpt_path=tmp_path / "at_7.ckpt",
    )  # fmt: skip
    assert trainer.global_step == 12
    assert trainer.callback_metrics["anomaly/loss_spikes"] == 2
    assert same(state_of(trainer), state_of(whole))


def test_an_overflow_of_the_gradient_scaler_is_no_spike():
    class Overflow(Callback):
        def on_after_backward(self, trainer, pl_module):
            if trainer.global_step in (6, 8):
                pl_module.head.decoder.weight.grad[0, 0] = torch.inf

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    spike, plugin = Spike((11, 0)), MixedPrecision("16-mixed", "cpu", scaler=scaler)
    trainer = run([spike, Overflow(), spikes_of("skip")], n_steps=14, plugins=[plugin])
    assert scaler.get_scale() == 2.0**6
    assert trainer.callback_metrics["anomaly/loss_spikes"] == 1
    assert same(spike.after[10], spike.after[11])
    assert not same(spike.after[11], spike.after[12])


def test_all_ranks_decide_alike_though_one_alone_sees_the_spike(tmp_path):
    script = Path(__file__).with_name("spiking_ranks.py")
    python_path = f"{script.parents[2]}{os.pathsep}{script.parents[1]}{os.pathsep}{script.parent}"
    subprocess.run(
        [sys.executable, script, tmp_path],
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": python_path},
    )
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert first["n_spikes"] == second["n_spikes"] == 1
    for ranks in (first, second):
        assert same(ranks["after"][7], ranks["after"][3])
    assert all(same(first["after"][step], second["after"][step]) for step in first["after"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"action": "explode"}, "warn, skip or roll_back"),
        ({"threshold": 0.0}, r"threshold \(0.0\)"),
        ({"window": 1}, r"window \(1\)"),
        ({"roll_back_steps": 0}, r"roll_back_steps \(0\)"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(options, complaint):
    with pytest.raises(UserError, match=complaint):
        LossSpikes(**options)
