"""Run folders as ``pretrain fit`` leaves them, written by hand: nothing is trained."""

import csv
import json

CARD = {
    "status": "finished", "recipe": "gpt_tiny", "n_parameters": 804_224, "tokens_seen": 1_536_000,
    "steps": 2000, "train_loss_nats": 1.7, "val_loss_nats": 1.9, "best_val_loss_nats": 1.8,
    "val_perplexity": 6.7, "val_bits_per_byte": 2.7, "val_masked_accuracy": None,
    "tokens_per_s": 10_000.0, "peak_memory_mib": 488.8, "wall_time_s": 167.0,
    "warnings": [], "alerts": [],
}  # fmt: skip


def config(model="pretrain.CausalLM", lr=0.001, source="books", tokenizer="bpe", **others):
    """The text of a config.yaml; ``others`` are keys of the data."""
    data = {"source": source, "tokenizer": {"kind": tokenizer}, **others}
    tree = {
        "seed_everything": 1,
        "model": {"class_path": model, "init_args": {"network": {"d_model": 8}, "lr": lr}},
        "data": {"class_path": "pretrain.Data", "init_args": data},
        "run_name": "is ignored",
    }
    return json.dumps(tree)  # JSON is YAML


def curve(start, end, n=5, every=100, tokens=4000):
    """Rows of a metrics.csv whose losses fall from ``start`` to ``end``."""
    rows = []
    for i in range(n + 1):
        loss = start + (end - start) * i / n
        row = {"step": i * every, "val/loss": loss}
        if i:
            row |= {"train/loss": loss - 0.1, "speed/tokens_seen": i * tokens,
                    "speed/tokens_per_s": 1000.0}  # fmt: skip
        rows.append(row)
    return rows


def write_run(path, card=None, settings=None, rows=None):
    """A run folder; what is None is left out. ``card`` changes the figures of ``CARD``."""
    path.mkdir(parents=True)
    if card is not None:
        (path / "summary.json").write_text(json.dumps({**CARD, **card}))
    if settings is not None:
        (path / "config.yaml").write_text(settings)
    if rows is not None:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        with (path / "metrics.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    return path


def finished(path, loss, **settings):
    """A finished run that ended at this validation loss."""
    card = {"val_loss_nats": loss, "best_val_loss_nats": loss - 0.05}
    return write_run(path, card, config(**settings), curve(5.0, loss))
