"""A small task and a runner, so that observers are tested on the real model in a real Trainer."""

import lightning.pytorch as pl
import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from pretrain.model import Transformer, TransformerConfig

VOCAB_SIZE, SEQ_LEN = 17, 8
SHAPE = {"vocab_size": VOCAB_SIZE, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 16}


class TinyTask(pl.LightningModule):
    """Next-token prediction with what observers ask of a task, and nothing else."""

    def __init__(self, causal: bool = True, **config):
        super().__init__()
        torch.manual_seed(0)
        self.transformer = Transformer(TransformerConfig(**{**SHAPE, **config}), causal)
        self.head = torch.nn.Linear(8, VOCAB_SIZE)

    def hidden_states(self, batch):
        return self.transformer(batch["input_ids"], batch.get("attention_mask"))

    def flops_per_token(self, seq_len):
        return 1000.0 * seq_len

    def training_step(self, batch, batch_idx):
        logits = self.head(self.hidden_states(batch))
        return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    def validation_step(self, batch, batch_idx):
        self.hidden_states(batch)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class TokenBlocks(Dataset):
    """Dict samples of pseudo-random tokens; the last ``n_filler`` labels of each are ignored."""

    def __init__(self, n_blocks, n_filler=0):
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(0, VOCAB_SIZE, (n_blocks, SEQ_LEN + 1), generator=generator)
        self.inputs, self.labels = ids[:, :-1], ids[:, 1:].clone()
        if n_filler:
            self.labels[:, -n_filler:] = -100

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return {"input_ids": self.inputs[index], "labels": self.labels[index]}


class Recorder(pl.loggers.Logger):
    """Keeps what is logged, as ``{step: {name: value}}``."""

    def __init__(self):
        super().__init__()
        self.steps = {}

    name = "recorder"
    version = 0

    def log_hyperparams(self, *args, **kwargs): ...

    def log_metrics(self, metrics, step=None):
        self.steps.setdefault(step, {}).update(metrics)

    def series(self, name):
        return {step: values[name] for step, values in self.steps.items() if name in values}


def train(task, callbacks, n_steps, *, batch_size=4, dataset=None, ckpt_path=None, **options):
    """Fit without shuffling; returns the Recorder."""
    recorder = Recorder()
    dataset = dataset or TokenBlocks(
        n_steps * batch_size * options.get("accumulate_grad_batches", 1)
    )
    settings = {
        "accelerator": "cpu",
        "logger": recorder,
        "max_steps": n_steps,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "log_every_n_steps": 1,
        "limit_val_batches": 0,
    }
    trainer = pl.Trainer(callbacks=callbacks, **{**settings, **options})
    loader = DataLoader(dataset, batch_size=batch_size)
    trainer.fit(task, loader, val_dataloaders=loader, ckpt_path=ckpt_path)
    return recorder


@pytest.fixture
def tiny_task():
    return TinyTask


@pytest.fixture
def token_blocks():
    return TokenBlocks


@pytest.fixture
def fit():
    return train
