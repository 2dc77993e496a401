"""A model small enough that a whole run takes a moment."""

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, IterableDataset


class Numbers(IterableDataset):
    """An unsized stream."""

    def __iter__(self):
        while True:
            yield torch.ones(2)


class TinyModule(LightningModule):
    """One weight; notes the optimizer steps at which it is validated, and on how many batches."""

    def __init__(self, n_train: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.n_train = n_train
        self.validated: list[tuple[int, int]] = []
        self._batches = 0

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).pow(2).mean()
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self._batches += 1
        self.log("val/loss", self.layer(batch).pow(2).mean())

    def on_validation_epoch_end(self):
        self.validated.append((self.trainer.global_step, self._batches))
        self._batches = 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        if self.n_train is None:
            return DataLoader(Numbers(), batch_size=1)
        return DataLoader(torch.ones(self.n_train, 2), batch_size=1)

    def val_dataloader(self):
        return DataLoader(torch.ones(100, 2), batch_size=1)


@pytest.fixture
def make_trainer(tmp_path):
    def make(**options) -> Trainer:
        defaults = {
            "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
            "enable_model_summary": False, "enable_checkpointing": False,
            "default_root_dir": tmp_path, "log_every_n_steps": 1,
        }  # fmt: skip
        return Trainer(**{**defaults, **options})

    return make


@pytest.fixture
def tiny_module():
    return TinyModule
