import time

import pytest
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from pretrain.diagnostics import Throughput
from pretrain.diagnostics import throughput as module

TOKENS_PER_BATCH = 4 * 8


@pytest.fixture(autouse=True)
def known_peak(monkeypatch):
    monkeypatch.setattr(module, "peak_flops", lambda device, precision: 1e6)


class Sleeper(Callback):
    """Spends time where it is told to."""

    def __init__(self, train=0.0, validation=0.0, checkpoint=0.0, first=0.0):
        self.train, self.validation, self.checkpoint = train, validation, checkpoint
        self.first = first

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        time.sleep(self.first if trainer.global_step == 0 else self.train)

    def on_validation_batch_start(self, *args):
        time.sleep(self.validation)

    def on_save_checkpoint(self, *args):
        time.sleep(self.checkpoint)


def test_series_of_a_run(tiny_task, fit):
    speed = Throughput()
    recorder = fit(tiny_task(), [speed, Sleeper(train=0.02)], 6, log_every_n_steps=2)
    assert recorder.series("speed/tokens_seen") == {
        step: step * TOKENS_PER_BATCH for step in (2, 4, 6)
    }
    for step, seconds in recorder.series("speed/step_seconds").items():
        values = recorder.steps[step]
        assert 0.02 < seconds < 0.2
        assert values["speed/tokens_per_s"] == pytest.approx(TOKENS_PER_BATCH / seconds)
        # 1000 FLOPs per token and position of 8, against a peak of 1e6.
        assert values["speed/mfu"] == pytest.approx(8000 * values["speed/tokens_per_s"] / 1e6)
    assert 5 * TOKENS_PER_BATCH / 1.0 < speed.tokens_per_s < TOKENS_PER_BATCH / 0.02
    assert speed.mfu == pytest.approx(8000 * speed.tokens_per_s / 1e6)


def test_the_first_step_counts_as_tokens_but_not_as_time(tiny_task, fit):
    speed = Throughput()
    recorder = fit(tiny_task(), [speed, Sleeper(first=0.5)], 3)
    assert set(recorder.steps[1]) == {"speed/tokens_seen", "time/seconds"}
    assert max(recorder.series("speed/step_seconds").values()) < 0.4
    assert speed.tokens_per_s > TOKENS_PER_BATCH / 0.4
    assert speed.tokens_seen == 3 * TOKENS_PER_BATCH


def test_validation_and_checkpoints_are_not_training_time(tiny_task, fit, tmp_path):
    speed = Throughput()
    callbacks = [
        speed,
        Sleeper(validation=0.25, checkpoint=0.25),
        ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1),
    ]
    recorder = fit(
        tiny_task(),
        callbacks,
        6,
        enable_checkpointing=True,
        limit_val_batches=1,
        val_check_interval=3,
        num_sanity_val_steps=1,
    )
    assert max(recorder.series("speed/step_seconds").values()) < 0.2
    assert speed.tokens_per_s > TOKENS_PER_BATCH / 0.2


def test_steps_after_the_last_log_are_in_the_figures_of_the_run(tiny_task, fit):
    speed = Throughput()
    fit(tiny_task(), [speed], 4, log_every_n_steps=100)
    assert speed.tokens_per_s > 0


def test_a_run_of_one_step_has_no_speed(tiny_task, fit):
    speed = Throughput()
    fit(tiny_task(), [speed], 1)
    assert speed.tokens_seen == TOKENS_PER_BATCH
    assert speed.tokens_per_s is None


def test_accumulated_micro_batches_are_one_step(tiny_task, fit):
    recorder = fit(tiny_task(), [Throughput()], 3, accumulate_grad_batches=2)
    assert recorder.series("speed/tokens_seen") == {
        step: 2 * step * TOKENS_PER_BATCH for step in (1, 2, 3)
    }
    values = recorder.steps[3]
    assert values["speed/tokens_per_s"] * values["speed/step_seconds"] == pytest.approx(
        2 * TOKENS_PER_BATCH
    )


def test_a_resumed_run_goes_on_counting_tokens(tiny_task, fit, tmp_path, token_blocks):
    rows = token_blocks(20)
    saver = ModelCheckpoint(tmp_path, filename="at", every_n_train_steps=2, save_top_k=1)
    fit(tiny_task(), [Throughput(), saver], 2, dataset=rows, enable_checkpointing=True)
    speed = Throughput()
    recorder = fit(tiny_task(), [speed], 5, dataset=rows, ckpt_path=tmp_path / "at.ckpt")
    assert recorder.series("speed/tokens_seen") == {
        step: step * TOKENS_PER_BATCH for step in (3, 4, 5)
    }
    assert speed.tokens_seen == 5 * TOKENS_PER_BATCH
