import sys

from pretrain.runs.progress import RunProgress
from pretrain.runs.validation_schedule import ValidationSchedule


def test_without_a_terminal_plain_lines_tell_step_and_losses(make_trainer, tiny_module, capsys):
    progress = RunProgress(line_every_s=0.0)
    trainer = make_trainer(
        max_steps=4, enable_progress_bar=True, callbacks=[ValidationSchedule(2), progress]
    )
    trainer.fit(tiny_module())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("step 0/4")
    assert lines[-1].startswith("step 4/4  loss ")
    assert "val " in lines[-1]
    assert len(lines) == len(set(lines))


def test_on_a_terminal_a_bar_counts_optimizer_steps(make_trainer, tiny_module, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    trainer = make_trainer(
        max_steps=4, accumulate_grad_batches=2, limit_val_batches=0, enable_progress_bar=True,
        callbacks=[RunProgress(every_s=0.0)],
    )  # fmt: skip
    trainer.fit(tiny_module())
    assert "4/4" in capsys.readouterr().err
