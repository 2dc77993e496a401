"""20 numbered documents in one and in four files, on one and on two ranks, both data paths."""

from __future__ import annotations

import json
import socket
from collections import Counter
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch

from pretrain.data.datamodule import CausalLMDataModule

NUMBERS = range(20)


@pytest.fixture(params=[1, 4], ids=["one file", "four files"])
def corpus(request, tmp_path):
    folder = tmp_path / "corpus" / "train"
    folder.mkdir(parents=True)
    lines = [f"w{i} " + "w100 " * (2 + i) for i in NUMBERS]
    share = 20 // request.param
    for number in range(request.param):
        part = lines[number * share : (number + 1) * share]
        (folder / f"{number}.txt").write_text("\n".join(part) + "\n")
    (tmp_path / "corpus" / "validation").mkdir()
    (tmp_path / "corpus" / "validation" / "0.txt").write_text("w50 w51 w52\n")
    return folder.parent


@pytest.fixture
def make(tmp_path, corpus, gpt_tokenizer):
    gpt_tokenizer.save(tmp_path / "tokenizer.json")

    def build(**options):
        datamodule = CausalLMDataModule(
            source=str(corpus),
            tokenizer=str(tmp_path / "tokenizer.json"),
            cache_dir=str(tmp_path / "cache"),
            seq_len=8,
            batch_size=2,
            seed=1,
            **options,
        )
        datamodule.prepare_data()
        return datamodule

    return build


def numbers_in(batch) -> list[int]:
    """The documents whose first word is an input of the batch; word i has id i + 1."""
    ids = batch["input_ids"][batch["labels"] != -100]
    return [int(token) - 1 for token in ids if 0 < token <= 20]


@pytest.mark.parametrize("cache", [True, False], ids=["cached", "streamed"])
@pytest.mark.parametrize(("n_ranks", "num_workers"), [(1, 0), (1, 3), (2, 0), (2, 2)])
def test_each_document_once_an_epoch(make, monkeypatch, cache, n_ranks, num_workers):
    seen: Counter[int] = Counter()
    n_steps = set()
    for rank in range(n_ranks):
        datamodule = make(cache=cache, num_workers=num_workers)
        datamodule.trainer = SimpleNamespace(
            world_size=n_ranks, global_rank=rank, limit_train_batches=1.0
        )
        rounds = iter(range(9))  # the other rank's, which ends after eight of them
        alone = lambda flags: flags  # noqa: E731
        both = lambda flags: torch.full_like(flags, next(rounds) < 8)  # noqa: E731, B023
        monkeypatch.setattr(datamodule, "_agree", both if n_ranks > 1 else alone)
        batches = list(datamodule.train_dataloader())
        seen.update(number for batch in batches for number in numbers_in(batch))
        n_steps.add(len(batches))
    assert seen == Counter(NUMBERS)
    assert len(n_steps) == 1


class Writer(pl.LightningModule):
    """Writes the documents of each micro-batch to a file of its rank."""

    def __init__(self, folder, checkpoint=None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.folder, self.checkpoint, self.steps = folder, checkpoint, []

    def training_step(self, batch, batch_idx):
        self.steps.append([self.current_epoch, batch["labels"].tolist(), numbers_in(batch)])
        return self.weight * 0

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.datamodule.trained_on(batch)

    def on_train_end(self):
        if self.checkpoint:
            self.trainer.save_checkpoint(self.checkpoint)
        (self.folder / f"{self.global_rank}.json").write_text(json.dumps(self.steps))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit_on_two_ranks(tmp_path, monkeypatch, make):
    def fit(name, *, max_steps, checkpoint=None, ckpt_path=None, **options):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
        folder = tmp_path / name
        folder.mkdir()
        trainer = pl.Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp_fork",
            max_steps=max_steps,
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Writer(folder, checkpoint), datamodule=make(**options), ckpt_path=ckpt_path)
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]

    return fit


@pytest.mark.parametrize("corpus", [1], indirect=True)
@pytest.mark.parametrize("cache", [True, False], ids=["cached", "streamed"])
def test_two_processes_share_every_epoch_and_resume_together(fit_on_two_ranks, tmp_path, cache):
    whole = fit_on_two_ranks("whole", max_steps=45, cache=cache)
    assert len(whole[0]) == len(whole[1]) == 45
    epochs = sorted({epoch for epoch, _, _ in whole[0]})
    for epoch in epochs[:-1]:
        numbers = [n for part in whole for e, _, found in part if e == epoch for n in found]
        assert Counter(numbers) == Counter(NUMBERS)
    assert len(epochs) > 2

    checkpoint = str(tmp_path / "cut.ckpt")
    first = fit_on_two_ranks("first", max_steps=5, cache=cache, checkpoint=checkpoint)
    rest = fit_on_two_ranks("rest", max_steps=45, cache=cache, ckpt_path=checkpoint)
    for rank in range(2):  # the fit loop counts the epoch that max_steps cut short as a whole one
        rows = [step[1:] for step in first[rank] + rest[rank]]
        assert rows == [step[1:] for step in whole[rank]]


@pytest.mark.parametrize("corpus", [1], indirect=True)
@pytest.mark.parametrize("cache", [True, False], ids=["cached", "streamed"])
def test_more_processes_than_documents_end_each_epoch_together(fit_on_two_ranks, corpus, cache):
    """Three documents, the first as long as all others, for two ranks of three workers each."""
    lines = ["w0 " + "w100 " * 60, "w1 w100 w100", "w2 w100"]
    (corpus / "train" / "0.txt").write_text("\n".join(lines) + "\n")
    parts = fit_on_two_ranks("few", max_steps=14, cache=cache, num_workers=3)
    assert len(parts[0]) == len(parts[1]) == 14
    assert [step[0] for step in parts[0]] == [step[0] for step in parts[1]]
    last = parts[0][-1][0]
    assert last > 1
    for epoch in range(last):
        numbers = [n for part in parts for e, _, found in part if e == epoch for n in found]
        assert Counter(numbers) == Counter(range(3))
