import pytest

from pretrain.runs.validation_schedule import ValidationSchedule, whole_split


def _steps(module):
    return [step for step, _ in module.validated]


# Not accumulation in short epochs: there Lightning takes a step at the end of each epoch.
@pytest.mark.parametrize(
    ("accumulate", "n_train"),
    [(1, None), (3, None), (1, 7)],
    ids=["stream", "accumulating stream", "short epochs"],
)
def test_validates_at_step_0_and_20_times_a_run(make_trainer, tiny_module, accumulate, n_train):
    module = tiny_module(n_train)
    trainer = make_trainer(
        max_steps=40, accumulate_grad_batches=accumulate, callbacks=[ValidationSchedule()]
    )
    trainer.fit(module)
    assert _steps(module) == list(range(0, 41, 2))
    assert {n for _, n in module.validated} == {64}


def test_a_short_run_validates_after_each_step(make_trainer, tiny_module):
    module = tiny_module()
    make_trainer(max_steps=3, callbacks=[ValidationSchedule()]).fit(module)
    assert _steps(module) == [0, 1, 2, 3]


def test_without_max_steps_the_epochs_give_the_interval(make_trainer, tiny_module):
    module = tiny_module(n_train=20)
    make_trainer(max_epochs=2, callbacks=[ValidationSchedule()]).fit(module)
    assert _steps(module) == list(range(0, 41, 2))


def test_what_the_user_has_set_is_left(make_trainer, tiny_module):
    module = tiny_module()
    schedule = ValidationSchedule(times_per_run=None, batches=None)
    trainer = make_trainer(
        max_steps=10, val_check_interval=5, check_val_every_n_epoch=None, limit_val_batches=3,
        callbacks=[schedule],
    )  # fmt: skip
    trainer.fit(module)
    assert module.validated == [(0, 3), (5, 3), (10, 3)]


def test_no_validation_at_all_when_it_is_switched_off(make_trainer, tiny_module):
    module = tiny_module()
    make_trainer(
        max_steps=4, limit_val_batches=0, callbacks=[ValidationSchedule(batches=None)]
    ).fit(module)
    assert module.validated == []


def test_a_run_that_goes_on_keeps_the_rhythm(make_trainer, tiny_module, tmp_path):
    path = tmp_path / "half.ckpt"
    first = tiny_module()
    trainer = make_trainer(max_steps=40, callbacks=[ValidationSchedule()])
    trainer.fit_loop.epoch_loop.max_steps = 10
    trainer.fit(first)
    trainer.save_checkpoint(path)
    second = tiny_module()
    trainer = make_trainer(max_steps=40, callbacks=[ValidationSchedule()])
    trainer.fit(second, ckpt_path=path)
    assert _steps(second)[0] > 0
    assert _steps(second)[-1] == 40
    assert len(set(_steps(second))) == len(_steps(second))


def test_the_whole_split_is_measured_once_and_logged_by_none(make_trainer, tiny_module):
    module = tiny_module()
    trainer = make_trainer(max_steps=2, callbacks=[ValidationSchedule()])
    trainer.fit(module)
    with whole_split(trainer):
        trainer.validate(module, verbose=False)
        assert trainer.loggers == []
    assert module.validated[-1] == (2, 100)
    assert trainer.limit_val_batches == 64
