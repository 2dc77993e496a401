import time

import pytest
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.profilers import Profiler
from torch.utils.data import IterableDataset

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


class Clock(Callback):
    """Stands still but for what the loader, the steps, validation and checkpoints are to take."""

    def __init__(self, monkeypatch, step=3.0):
        self.time, self.step = 0.0, step
        monkeypatch.setattr(time, "perf_counter", lambda: self.time)

    def on_train_batch_start(self, *args):
        self.time += self.step

    def on_validation_batch_start(self, *args):
        self.time += 50.0

    def on_save_checkpoint(self, *args):
        self.time += 50.0


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def slow_rows(clock, token_blocks):
    """Rows of which a batch of four takes one second to read, sized or as a stream."""

    class Slow(type(token_blocks(1))):
        def __getitem__(self, index):
            clock.time += 0.25
            return super().__getitem__(index)

    class Stream(IterableDataset):
        def __init__(self, n_rows):
            self.rows = Slow(n_rows)

        def __iter__(self):
            return map(self.rows.__getitem__, range(len(self.rows)))

    return {"sized": Slow, "stream": Stream}


@pytest.mark.parametrize("kind", ["sized", "stream"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_share_of_waiting_is_that_of_the_fetches(
    tiny_task, fit, clock, slow_rows, kind, accumulate
):
    speed = Throughput()
    recorder = fit(
        tiny_task(),
        [speed, clock],
        6,
        dataset=slow_rows[kind](4 * 6 * accumulate + 8),
        accumulate_grad_batches=accumulate,
        log_every_n_steps=2,
    )
    waits = recorder.series("speed/data_wait_share")
    assert waits == dict.fromkeys((2, 4, 6), pytest.approx(1 / (1 + clock.step)))
    assert speed.data_wait_share == pytest.approx(1 / (1 + clock.step))
    seconds = accumulate * (1 + clock.step)
    assert recorder.series("speed/step_seconds") == dict.fromkeys((2, 4, 6), seconds)


def test_a_loader_that_costs_nothing_is_not_waited_for(tiny_task, fit, clock):
    speed = Throughput()
    fit(tiny_task(), [speed, clock], 4)
    assert speed.data_wait_share == 0


def test_validation_checkpoints_and_new_epochs_are_no_waiting(
    tiny_task, fit, clock, slow_rows, tmp_path
):
    """Validation reads the same slow rows, and the next fetch follows it directly."""
    saver = ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1)
    speed = Throughput()
    recorder = fit(
        tiny_task(),
        [speed, clock, saver],
        9,
        dataset=slow_rows["sized"](4 * 4),  # an epoch of four steps
        enable_checkpointing=True,
        limit_val_batches=2,
        val_check_interval=2,
    )
    shares = recorder.series("speed/data_wait_share")
    assert shares == dict.fromkeys(range(2, 10), pytest.approx(1 / (1 + clock.step)))
    assert speed.data_wait_share == pytest.approx(1 / (1 + clock.step))


def test_the_profiler_that_a_user_chose_hears_of_every_action(tiny_task, fit):
    class Listener(Profiler):
        def __init__(self):
            super().__init__()
            self.started, self.stopped = [], []

        def start(self, action_name):
            self.started.append(action_name)

        def stop(self, action_name):
            self.stopped.append(action_name)

    heard = []
    for callbacks in ([], [Throughput()]):
        listener = Listener()
        fit(tiny_task(), callbacks, 3, profiler=listener)
        heard.append([a for a in listener.started if not a.startswith("[Callback]Throughput.")])
        assert sorted(listener.started) == sorted(listener.stopped)
    assert heard[0] == heard[1]
    assert sum(action.endswith("train_dataloader_next") for action in heard[1]) == 3


class Breaks(Callback):
    """Keeps the profiler that the Trainer came with, and breaks the run after a step."""

    def __init__(self, after):
        self.after = after

    def setup(self, trainer, pl_module, stage):
        self.trainer, self.profiler = trainer, trainer.profiler

    def on_train_batch_end(self, trainer, *args):
        if trainer.global_step == self.after:
            raise ValueError("broken")


def test_a_finished_trainer_has_its_own_profiler_again(tiny_task, fit):
    watcher = Breaks(after=None)
    fit(tiny_task(), [Throughput(), watcher], 3)
    assert watcher.trainer.profiler is watcher.profiler


def test_a_broken_trainer_has_its_own_profiler_again(tiny_task, fit):
    watcher = Breaks(after=2)
    with pytest.raises(ValueError, match="broken"):
        fit(tiny_task(), [Throughput(), watcher], 3)
    assert watcher.trainer.profiler is watcher.profiler
