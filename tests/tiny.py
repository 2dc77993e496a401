"""Tiny tasks, batches without a corpus, and a quiet Trainer."""

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from pretrain.tasks import CausalLM, MaskedLM, ScheduleConfig

VOCAB = 29
SHAPE = {"vocab_size": VOCAB, "d_model": 16, "n_layers": 2, "n_heads": 2, "init": "normal"}


def make_task(kind, **options):
    """A CausalLM ("clm") or MaskedLM ("mlm") with random weights everywhere."""
    torch.manual_seed(0)
    network = {**SHAPE, **options.pop("network", {})}
    options.setdefault("schedule", ScheduleConfig(stable_share=1.0))
    task = {"clm": CausalLM, "mlm": MaskedLM}[kind](network=network, **options)
    task.configure_model()
    return task


def causal_rows(lengths, seq=None):
    """One batch of padded documents; only real next tokens are targets."""
    generator = torch.Generator().manual_seed(7)
    seq = seq or max(lengths)
    ids = torch.randint(1, VOCAB, (len(lengths), seq + 1), generator=generator)
    labels = ids[:, 1:].clone()
    for row, length in enumerate(lengths):
        labels[row, max(length - 1, 0) :] = -100
    return {"input_ids": ids[:, :-1], "labels": labels}


def masked_rows(lengths, seq=None, capacity=4):
    """The same for masked language models: ``capacity`` slots a row, few used in short rows."""
    generator = torch.Generator().manual_seed(7)
    seq = seq or max(lengths)
    ids = torch.randint(1, VOCAB, (len(lengths), seq), generator=generator)
    attention = torch.arange(seq)[None] < torch.tensor(lengths)[:, None]
    positions = torch.zeros(len(lengths), capacity, dtype=torch.int64)
    labels = torch.full((len(lengths), capacity), -100)
    for row, length in enumerate(lengths):
        for slot in range(max(min(capacity, length // 4), int(length > 0))):
            positions[row, slot] = row * seq + slot * 2
            labels[row, slot] = ids[row, slot * 2]
            ids[row, slot * 2] = 0
    return {
        "input_ids": ids,
        "attention_mask": attention,
        "masked_positions": positions.flatten(),
        "labels": labels.flatten(),
    }


def one_row(batch, row):
    """Row ``row`` of a batch as a batch of its own."""
    seq = batch["input_ids"].shape[1]
    single = {k: batch[k][row : row + 1] for k in ("input_ids", "attention_mask") if k in batch}
    if "masked_positions" not in batch:
        return {**single, "labels": batch["labels"][row : row + 1]}
    capacity = len(batch["labels"]) // len(batch["input_ids"])
    slots = slice(row * capacity, (row + 1) * capacity)
    positions = batch["masked_positions"][slots] - row * seq
    labels = batch["labels"][slots]
    return {**single, "masked_positions": positions.clamp(min=0), "labels": labels}


def fit(task, batches, val_batches=None, ckpt_path=None, **options):
    """Train on ready-made batches, in order; returns the Trainer."""
    settings = {
        "accelerator": "cpu",
        "logger": False,
        "max_steps": len(batches),
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "log_every_n_steps": 1,
        "limit_val_batches": None if val_batches else 0,
        "num_sanity_val_steps": 0,
    }
    trainer = pl.Trainer(**{**settings, **options})
    loaders = [DataLoader(b, batch_size=None) if b else None for b in (batches, val_batches)]
    trainer.fit(task, *loaders, ckpt_path=ckpt_path)
    return trainer


ROWS = {"clm": causal_rows, "mlm": masked_rows}
KINDS = tuple(ROWS)
