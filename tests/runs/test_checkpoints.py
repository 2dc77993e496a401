import os
import shutil
import signal

import pytest
import torch
from lightning.pytorch import Callback

from pretrain.errors import UserError
from pretrain.runs.checkpoints import KeptCheckpoints, LastCheckpoint, best_checkpoint
from pretrain.runs.folder import RunFolder
from pretrain.runs.stop_signals import STOPPING, StopSignalError
from pretrain.runs.validation_schedule import ValidationSchedule


class _Saves(Callback):
    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        self.steps.append(checkpoint["global_step"])


def test_last_is_written_before_step_1_at_each_validation_and_at_the_end(
    make_trainer, tiny_module, tmp_path
):
    saves, last = _Saves(), LastCheckpoint(tmp_path / "last.ckpt")
    trainer = make_trainer(
        max_steps=5, val_check_interval=2, check_val_every_n_epoch=None,
        callbacks=[ValidationSchedule(times_per_run=None), saves, last], enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(tiny_module())
    assert saves.steps == [0, 2, 4, 5]
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 5


def test_last_is_written_when_it_has_become_too_old(make_trainer, tiny_module, tmp_path):
    saves, last = _Saves(), LastCheckpoint(tmp_path / "last.ckpt", every_s=0.0)
    trainer = make_trainer(
        max_steps=3, limit_val_batches=0, accumulate_grad_batches=2, callbacks=[saves, last],
        enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(tiny_module())
    assert saves.steps == [0, 1, 2, 3]  # never inside an accumulation window


class _At(Callback):
    """Does something when micro-batch number ``batch`` begins."""

    def __init__(self, batch, act) -> None:
        self.batch, self.act = batch, act

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == self.batch:
            self.act()


def _send(signum):
    return lambda: os.kill(os.getpid(), signum)


def _fail():
    raise ZeroDivisionError("a fault of somebody's callback")


def _step_in(path):
    return torch.load(path, weights_only=True)["global_step"]


@pytest.mark.parametrize("signum", STOPPING)
@pytest.mark.parametrize("batch", [4, 5])
def test_a_signal_waits_for_the_end_of_the_step(make_trainer, tiny_module, tmp_path, signum, batch):
    before = signal.getsignal(signum)
    callbacks = [_At(batch, _send(signum)), LastCheckpoint(tmp_path / "last.ckpt")]
    trainer = make_trainer(
        max_steps=9, limit_val_batches=0, accumulate_grad_batches=2, callbacks=callbacks,
        enable_checkpointing=True,
    )  # fmt: skip
    with pytest.raises(StopSignalError) as stop:
        trainer.fit(tiny_module())
    assert stop.value.signum == signum
    assert _step_in(tmp_path / "last.ckpt") == 3
    assert signal.getsignal(signum) == before


def test_sigusr1_saves_and_goes_on(make_trainer, tiny_module, tmp_path):
    saves = _Saves()
    callbacks = [_At(2, _send(signal.SIGUSR1)), saves, LastCheckpoint(tmp_path / "last.ckpt")]
    trainer = make_trainer(
        max_steps=5, limit_val_batches=0, callbacks=callbacks, enable_checkpointing=True
    )
    trainer.fit(tiny_module())
    assert saves.steps == [0, 3, 5]


class _InValidation(Callback):
    """Does something at the first batch of each validation."""

    def __init__(self, act) -> None:
        self.act, self.n_times = act, 0

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if batch_idx == 0:
            self.n_times += 1
            self.act()


def test_sigusr1_ends_no_validation_before_or_behind_training(make_trainer, tiny_module, tmp_path):
    before, hits = signal.getsignal(signal.SIGUSR1), _InValidation(_send(signal.SIGUSR1))
    module, last = tiny_module(), LastCheckpoint(tmp_path / "last.ckpt")
    trainer = make_trainer(
        max_steps=4, callbacks=[ValidationSchedule(2), hits, last], enable_checkpointing=True
    )
    trainer.fit(module)
    trainer.validate(module, verbose=False)
    assert hits.n_times == 4  # at steps 0, 2 and 4, and of the final model
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_job_of_slurm_is_queued_again_by_a_signal_in_a_validation(
    make_trainer, tiny_module, tmp_path, monkeypatch
):
    monkeypatch.setattr("pretrain.runs.stop_signals.requeue_job", lambda: True)
    before, hits = signal.getsignal(signal.SIGUSR1), _InValidation(_send(signal.SIGUSR1))
    callbacks = [ValidationSchedule(2), hits, LastCheckpoint(tmp_path / "last.ckpt")]
    trainer = make_trainer(max_steps=4, callbacks=callbacks, enable_checkpointing=True)
    with pytest.raises(StopSignalError):
        trainer.fit(tiny_module())
    signal.signal(signal.SIGUSR1, before)
    assert hits.n_times == 1


def test_a_job_of_slurm_is_queued_again(make_trainer, tiny_module, tmp_path, monkeypatch):
    monkeypatch.setattr("pretrain.runs.checkpoints.requeue_job", lambda: True)
    callbacks = [_At(2, _send(signal.SIGUSR1)), LastCheckpoint(tmp_path / "last.ckpt")]
    trainer = make_trainer(
        max_steps=5, limit_val_batches=0, callbacks=callbacks, enable_checkpointing=True
    )
    with pytest.raises(StopSignalError):
        trainer.fit(tiny_module())
    assert _step_in(tmp_path / "last.ckpt") == 3


def test_a_signal_does_not_wait_for_the_end_of_a_validation(make_trainer, tiny_module, tmp_path):
    module, seen = tiny_module(), []

    def validation_step(batch, batch_idx):
        seen.append(batch_idx)
        if module.trainer.global_step == 2 and batch_idx == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    module.validation_step = validation_step
    trainer = make_trainer(
        max_steps=4, val_check_interval=2, check_val_every_n_epoch=None, num_sanity_val_steps=0,
        callbacks=[LastCheckpoint(tmp_path / "last.ckpt")], enable_checkpointing=True,
    )  # fmt: skip
    with pytest.raises(StopSignalError):
        trainer.fit(module)
    assert seen == [0]
    assert _step_in(tmp_path / "last.ckpt") == 2


@pytest.mark.parametrize("batch", [4, 5, 6])
def test_after_an_error_the_run_goes_on_behind_the_last_complete_step(
    make_trainer, tiny_module, tmp_path, batch
):
    options = {
        "max_steps": 4, "limit_val_batches": 0, "accumulate_grad_batches": 3,
        "enable_checkpointing": True,
    }  # fmt: skip
    whole, broken, resumed = tiny_module(), tiny_module(), tiny_module()
    broken.load_state_dict(whole.state_dict())
    make_trainer(callbacks=[LastCheckpoint(tmp_path / "whole.ckpt")], **options).fit(whole)
    last = tmp_path / "last.ckpt"
    with pytest.raises(ZeroDivisionError):
        make_trainer(callbacks=[_At(batch, _fail), LastCheckpoint(last)], **options).fit(broken)
    assert _step_in(last) == batch // 3
    trainer = make_trainer(callbacks=[LastCheckpoint(last)], **options)
    trainer.fit(resumed, ckpt_path=last)
    assert trainer.global_step == 4
    for name, weights in whole.state_dict().items():
        assert torch.equal(weights, resumed.state_dict()[name])


def test_a_validation_inside_an_accumulation_window_saves_the_last_complete_step(
    make_trainer, tiny_module, tmp_path
):
    last, folder = tmp_path / "last.ckpt", RunFolder(tmp_path / "run")

    def places(callbacks, ckpt_path=None):
        seen = []
        module = tiny_module()
        loss = module.training_step

        def training_step(batch, batch_idx):
            seen.append((module.trainer.global_step, batch_idx))
            return loss(batch, batch_idx)

        module.training_step = training_step
        trainer = make_trainer(
            max_steps=4, val_check_interval=5, check_val_every_n_epoch=None,
            accumulate_grad_batches=3, num_sanity_val_steps=0, enable_checkpointing=True,
            callbacks=callbacks,
        )  # fmt: skip
        trainer.fit(module, ckpt_path=ckpt_path)
        return seen

    # Killed between the validation behind micro-batch 5 and the end of that window
    kill = _At(5, lambda: shutil.copy(last, tmp_path / "killed.ckpt"))
    whole = places(callbacks=[kill, best_checkpoint(folder), LastCheckpoint(last)])
    for file in (tmp_path / "killed.ckpt", folder.best):
        state = torch.load(file, weights_only=True)
        counted = state["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]["ready"]
        assert counted == 3 * state["global_step"]
        again = places(callbacks=[LastCheckpoint(tmp_path / "own.ckpt")], ckpt_path=file)
        assert again == whole[counted:]


def test_weights_that_are_not_finite_are_never_written(make_trainer, tiny_module, tmp_path):
    module, last = tiny_module(), tmp_path / "last.ckpt"

    def spoil():
        with torch.no_grad():
            next(module.parameters()).fill_(torch.nan)

    keeper = LastCheckpoint(last, every_s=0.0)
    trainer = make_trainer(
        max_steps=6, limit_val_batches=0, callbacks=[_At(3, spoil), keeper],
        enable_checkpointing=True,
    )  # fmt: skip
    with pytest.raises(UserError, match="is not finite"):
        trainer.fit(module)
    state = torch.load(last, weights_only=True)
    assert state["global_step"] == 3
    assert all(bool(w.isfinite().all()) for w in state["state_dict"].values())


def test_every_nth_checkpoint_is_kept(make_trainer, tiny_module, tmp_path):
    folder = RunFolder(tmp_path / "run")
    trainer = make_trainer(
        max_steps=7, limit_val_batches=0, callbacks=[KeptCheckpoints(folder, 3)],
        enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(tiny_module())
    found = {path.name: _step_in(path) for path in folder.checkpoints.iterdir()}
    assert found == {"step_3.ckpt": 3, "step_6.ckpt": 6}


class _KeepFirst(Callback):
    """Copies the checkpoint that stands when the first step begins."""

    def __init__(self, source, target, step=0) -> None:
        self.source, self.target, self.step = source, target, step

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.step:
            shutil.copy(self.source, self.target)


def test_a_run_can_go_on_from_the_checkpoint_before_step_1(make_trainer, tiny_module, tmp_path):
    last, first = tmp_path / "last.ckpt", tmp_path / "first.ckpt"

    def callbacks():
        return [ValidationSchedule(2), _KeepFirst(last, first), LastCheckpoint(last)]

    whole, resumed = tiny_module(), tiny_module()
    make_trainer(max_steps=4, callbacks=callbacks(), enable_checkpointing=True).fit(whole)
    trainer = make_trainer(max_steps=4, callbacks=callbacks(), enable_checkpointing=True)
    trainer.fit(resumed, ckpt_path=first)
    assert trainer.global_step == 4
    for name, weights in whole.state_dict().items():
        assert torch.equal(weights, resumed.state_dict()[name])


def test_a_run_that_goes_on_from_another_ones_file_has_its_own_at_once(
    make_trainer, tiny_module, tmp_path
):
    first, last, kept = (tmp_path / name for name in ("first.ckpt", "last.ckpt", "kept.ckpt"))
    whole, resumed = tiny_module(), tiny_module()
    saves = [LastCheckpoint(first), _KeepFirst(first, kept, step=2)]
    saves[0].every_s = 0.0
    make_trainer(max_steps=4, limit_val_batches=0, callbacks=saves, enable_checkpointing=True).fit(
        whole
    )
    for source, target in ((kept, last), (tmp_path / "own.ckpt", tmp_path / "later.ckpt")):
        callbacks = [LastCheckpoint(target), _KeepFirst(target, tmp_path / "own.ckpt", step=2)]
        resumed = tiny_module()
        trainer = make_trainer(
            max_steps=4, limit_val_batches=0, callbacks=callbacks, enable_checkpointing=True
        )
        trainer.fit(resumed, ckpt_path=source)
        assert trainer.global_step == 4
        for name, weights in whole.state_dict().items():
            assert torch.equal(weights, resumed.state_dict()[name])


def test_a_run_that_goes_back_to_an_earlier_file_does_not_find_the_later_one_again(
    make_trainer, tiny_module, tmp_path
):
    last, folder = tmp_path / "last.ckpt", RunFolder(tmp_path / "run")
    options = {"max_steps": 4, "limit_val_batches": 0, "enable_checkpointing": True}
    make_trainer(callbacks=[KeptCheckpoints(folder, 2), LastCheckpoint(last)], **options).fit(
        tiny_module()
    )
    assert _step_in(last) == 4
    killed = tmp_path / "killed.ckpt"
    callbacks = [_KeepFirst(last, killed, step=2), LastCheckpoint(last)]
    make_trainer(callbacks=callbacks, **options).fit(
        tiny_module(), ckpt_path=folder.checkpoints / "step_2.ckpt"
    )
    assert _step_in(killed) == 2


def test_best_is_the_lowest_validation_loss(make_trainer, tiny_module, tmp_path):
    losses = iter([3.0, 1.0, 2.0, 4.0])
    module = tiny_module()
    module.validation_step = lambda batch, batch_idx: module.log("val/loss", next(losses))
    folder = RunFolder(tmp_path / "run")
    trainer = make_trainer(
        max_steps=4, val_check_interval=1, check_val_every_n_epoch=None, limit_val_batches=1,
        num_sanity_val_steps=0, callbacks=[best_checkpoint(folder)], enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(module)
    assert torch.load(folder.best, weights_only=True)["global_step"] == 2
    assert [path.name for path in folder.checkpoints.iterdir()] == ["best.ckpt"]
