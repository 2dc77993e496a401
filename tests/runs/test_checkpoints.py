import shutil

import pytest
import torch
from lightning.pytorch import Callback

from pretrain.runs.checkpoints import LastCheckpoint, best_checkpoint
from pretrain.runs.folder import RunFolder
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


class _Terminate(Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        trainer._signal_connector.received_sigterm = trainer.global_step == 2


def test_last_is_written_when_the_process_is_told_to_end(make_trainer, tiny_module, tmp_path):
    callbacks = [_Terminate(), LastCheckpoint(tmp_path / "last.ckpt")]
    trainer = make_trainer(
        max_steps=9, limit_val_batches=0, callbacks=callbacks, enable_checkpointing=True
    )
    with pytest.raises(SystemExit):
        trainer.fit(tiny_module())
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 3


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
