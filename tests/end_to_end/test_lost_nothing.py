"""What goes wrong on a machine ends a run with one sentence, and costs nothing that was saved."""

import pytest
import torch
from disks import full_disk

from pretrain.cli import main
from pretrain.runs.card_reader import read_card

RECIPE = """
model:
  class_path: CausalLM
  init_args: {network: {d_model: 64, n_layers: 2, n_heads: 2, max_len: 32}}
data:
  class_path: CausalLMDataModule
  init_args: {tokenizer: {kind: char}, seq_len: 16, batch_size: 4, split: tail}
trainer: {max_steps: 4, accelerator: cpu, precision: 32-true, logger: false}
"""


@pytest.fixture
def fit(tmp_path, monkeypatch):
    """Trains the run of this test, or goes on with it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "gpt.yaml").write_text(RECIPE)
    (tmp_path / "corpus.txt").write_text("a small stone and an old ship\nthe river\n" * 50)
    place = ["--run_name", "run", "--runs_dir", str(tmp_path / "runs"), "--ckpt_path", "last"]
    source = ["--data.source", str(tmp_path / "corpus.txt")]
    return lambda *options: main(
        ["fit", "--config", str(tmp_path / "gpt.yaml"), *place, *source, *options]
    )


def test_a_disk_that_is_full_costs_nothing_that_was_saved(fit, tmp_path, capsys):
    fit("--trainer.max_steps", "2")
    run = tmp_path / "runs" / "run"
    last = run / "checkpoints" / "last.ckpt"
    before = last.read_bytes()
    with full_disk(len(before) // 2), pytest.raises(SystemExit) as stop:
        fit()
    assert stop.value.code == 1
    # The best or the last one, whichever comes first.
    assert "can't be written" in capsys.readouterr().err
    assert last.read_bytes() == before
    assert read_card(run)["status"] == "failed"
    assert not list(last.parent.glob(".*"))
    fit()
    assert torch.load(last, weights_only=True)["global_step"] == 4


def test_every_nth_step_is_kept_where_that_is_asked_for(fit, tmp_path, capsys):
    fit("--keep_every", "2")
    kept = sorted(path.name for path in (tmp_path / "runs/run/checkpoints").iterdir())
    assert kept == ["best.ckpt", "last.ckpt", "step_2.ckpt", "step_4.ckpt"]
    with pytest.raises(SystemExit):
        fit("--keep_every", "0", "--trainer.max_steps", "9")
    assert "--keep_every is 0" in capsys.readouterr().err
