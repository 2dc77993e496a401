"""An epoch that is gone on with under another layout ends where its data ends."""

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tiny import SHAPE

from pretrain import CausalLM, CausalLMDataModule, TokenizerRule

NETWORK = {name: value for name, value in SHAPE.items() if name != "vocab_size"}


class Seen(pl.Callback):
    """The inputs of every micro-batch, with the epoch that the Trainer says it is."""

    def __init__(self):
        self.rows = []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        real = batch["labels"].ne(-100).any(1)
        self.rows += [(trainer.current_epoch, tuple(r)) for r in batch["input_ids"][real].tolist()]


def run(corpus, rows, ckpt_path=None, save_at=None, **options):
    pl.seed_everything(1)
    data = CausalLMDataModule(
        str(corpus), tokenizer=TokenizerRule("char"), seq_len=8, batch_size=rows, cache=True,
        cache_dir=str(corpus.parent / "cache"), seed=1,
    )  # fmt: skip
    seen = Seen()
    keeper = ModelCheckpoint(corpus.parent, filename="kept", every_n_train_steps=save_at)
    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=bool(save_at),
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[seen, keeper] if save_at else [seen], limit_val_batches=0, **options,
    )  # fmt: skip
    trainer.fit(CausalLM(NETWORK), data, ckpt_path=ckpt_path, weights_only=True)
    return seen.rows, trainer


@pytest.mark.parametrize(("before", "after"), [(2, 8), (8, 2), (4, 4), (4, 3)])
def test_each_row_comes_once_an_epoch_when_the_batch_size_changes(tmp_path, before, after):
    corpus = tmp_path / "corpus.txt"
    draw = torch.Generator().manual_seed(3)
    letters = torch.randint(97, 123, (40, 20), generator=draw)
    corpus.write_text("".join("".join(map(chr, line)) + "\n" for line in letters.tolist()))
    steps = 24 // before
    first, _ = run(corpus, before, save_at=steps, max_steps=steps)
    rest, trainer = run(corpus, after, tmp_path / "kept.ckpt", max_epochs=2)
    assert trainer.current_epoch == 2
    rows = first + rest
    by_epoch = [sorted(row for epoch, row in rows if epoch == wanted) for wanted in (0, 1)]
    assert by_epoch[0] == by_epoch[1]
    assert len(set(by_epoch[0])) == len(by_epoch[0]) > 24
