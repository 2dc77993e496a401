import pytest

from pretrain.runs.log_rhythm import LogRhythm, log_interval


@pytest.mark.parametrize(("n_steps", "interval"), [(3, 1), (40, 2), (500, 25), (100_000, 50)])
def test_a_short_run_has_twenty_points_too(n_steps, interval):
    assert log_interval(n_steps) == interval


def test_a_run_of_epochs_finds_its_interval(make_trainer, tiny_module):
    trainer = make_trainer(max_epochs=2, callbacks=[LogRhythm()])
    trainer.fit(tiny_module(n_train=30))
    assert trainer.log_every_n_steps == 3
