from pathlib import Path

from pretrain.runs.folder import RunFolder
from pretrain.runs.summary import closing_lines

FOLDER = RunFolder(Path("runs/a"))


def test_the_closing_lines_hold_the_figures_and_where_things_are():
    card = {
        "status": "finished", "steps": 2000, "tokens_seen": 8_192_000, "wall_time_s": 125.4,
        "tokens_per_s": 65000.0, "peak_memory_mib": 812.0, "val_loss_nats": 3.97,
        "val_perplexity": 52.98, "val_masked_accuracy": 0.338, "val_target_tokens": 30000,
    }  # fmt: skip
    text = "\n".join(closing_lines(FOLDER, card, has_wandb=True))
    for figure in ("2,000 steps", "8,192,000 tokens", "2:05 min", "3.9700 nats", "33.8%"):
        assert figure in text
    for place in ("last.ckpt", "best.ckpt", "metrics.csv", "wandb leet"):
        assert place in text


def test_what_was_not_measured_is_left_out():
    text = "\n".join(closing_lines(FOLDER, {"status": "finished", "steps": 3}, has_wandb=False))
    assert "None" not in text
    assert "wandb" not in text
