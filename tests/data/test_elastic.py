"""An epoch goes on with another number of ranks and workers, and another batch size."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch

from pretrain.data.classification import ClassificationDataModule
from pretrain.data.datamodule import CausalLMDataModule

N_DOCUMENTS = 20
LAYOUTS = [  # (ranks, workers, batch size) before and after the cut
    ((1, 0, 2), (2, 0, 2)),
    ((2, 0, 2), (1, 2, 2)),
    ((2, 0, 2), (1, 0, 3)),
    ((1, 2, 2), (1, 0, 5)),
    ((3, 0, 1), (2, 0, 3)),
]


class Ranks:
    """Runs the same code for every rank in a thread of its own; they can gather tensors."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks, self.barrier = n_ranks, threading.Barrier(n_ranks, timeout=60)
        self.board: list = [None] * n_ranks

    def gathered(self, rank, tensor):
        self.board[rank] = tensor
        self.barrier.wait()
        found = torch.stack(self.board)
        self.barrier.wait()
        return found

    def each(self, work):
        if self.n_ranks == 1:  # not in a thread: workers are forked
            return [work(0)]
        with ThreadPoolExecutor(self.n_ranks) as pool:
            return list(pool.map(work, range(self.n_ranks)))


@pytest.fixture
def corpus(tmp_path):
    lines = [f"w{n} " + "w100 " * (2 + n) for n in range(N_DOCUMENTS)]
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    (folder / "validation.txt").write_text("w50 w51 w52\n")
    rows = [{"text": line, "label": n % 3} for n, line in enumerate(lines)]
    labelled = tmp_path / "labelled"
    labelled.mkdir()
    for split in ("train", "validation"):
        (labelled / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.fixture
def make(corpus, gpt_tokenizer):
    gpt_tokenizer.save(corpus / "tokenizer.json")

    def build(path, layout, ranks=None, rank=0, limit=1.0):
        n_ranks, num_workers, batch_size = layout
        given = {
            "tokenizer": str(corpus / "tokenizer.json"),
            "cache_dir": str(corpus / "cache"),
            "batch_size": batch_size,
            "num_workers": num_workers,
            "seed": 5,
        }
        if path == "labelled":
            data = ClassificationDataModule(str(corpus / "labelled"), max_len=32, **given)
        else:
            source = str(corpus / "corpus")
            data = CausalLMDataModule(source, seq_len=8, cache=path == "cached", **given)
        data.trainer = SimpleNamespace(
            world_size=n_ranks, global_rank=rank, limit_train_batches=limit, max_steps=99
        )
        data.prepare_data()
        data.setup("fit")
        if ranks is not None and n_ranks > 1:
            data._gathered = lambda tensor: ranks.gathered(rank, tensor)
        return data

    return build


def numbers_in(batches) -> list[int]:
    """The documents whose first word is an input; word i has id i + 1."""
    found = []
    for batch in batches:
        tokens = batch["input_ids"].ravel()
        found += [int(token) - 1 for token in tokens if 0 < token <= N_DOCUMENTS]
    return found


@pytest.fixture
def go_on(make):
    """Train a number of steps from a state on (None: all of the pass), on every rank."""

    def run(path, layout, n_steps, state=None, limit=1.0):
        ranks = Ranks(layout[0])

        def work(rank):
            data = make(path, layout, ranks, rank, limit)
            if state is not None:
                data.load_state_dict(state)
            n_done = data.batches_done()
            batches = []
            for batch in itertools.islice(data.train_dataloader(), n_steps):
                data.trained_on(batch)
                batches.append(batch)
            return batches, data.state_dict(), n_done

        parts = ranks.each(work)
        assert len({len(batches) for batches, _, _ in parts}) == 1
        assert all(state == parts[0][1] for _, state, _ in parts)
        return [numbers_in(batches) for batches, _, _ in parts], *parts[0][1:], len(parts[0][0])

    return run


@pytest.mark.parametrize(("before", "after"), LAYOUTS)
@pytest.mark.parametrize("path", ["cached", "streamed", "labelled"])
def test_each_document_once_an_epoch_whatever_the_layouts(go_on, path, before, after):
    if path == "labelled":
        after = (*after[:2], before[2])  # its rows are grouped into micro-batches for an epoch
    first, state, _, _ = go_on(path, before, 3)
    rest, state, _, _ = go_on(path, after, None, state)
    assert Counter(itertools.chain(*first, *rest)) == Counter(range(N_DOCUMENTS))
    assert state["position"]["epoch"] == 1
    again, state, _, _ = go_on(path, before, None, state)
    assert Counter(itertools.chain(*again)) == Counter(range(N_DOCUMENTS))
    assert state["position"]["epoch"] == 2


@pytest.mark.parametrize(("before", "after"), LAYOUTS)
def test_what_counts_as_done_and_what_comes_make_an_epoch_of_the_new_layout(go_on, before, after):
    _, state, n_done, _ = go_on("cached", before, 3)
    assert n_done == 0
    _, _, n_done, n_left = go_on("cached", after, None, state)
    _, end, _, n_all = go_on("cached", after, None)
    assert n_done + n_left == n_all
    assert go_on("cached", before, 3, state)[2] == 3  # what was trained, where nothing changed
    assert go_on("cached", after, 0, end)[2] == n_all


def test_a_stream_counts_no_batches(go_on):
    assert go_on("streamed", (1, 0, 2), 3)[2] is None


def test_a_limit_that_was_passed_already_ends_the_epoch(go_on):
    _, state, _, _ = go_on("cached", (1, 0, 2), 6)
    _, state, n_done, _ = go_on("cached", (1, 0, 2), 1, state, limit=4)
    assert n_done == 4
    assert state["position"] == {"epoch": 1, "block": 2}


class Counting(pl.LightningModule):
    """Notes the rows it trains on; has the fit loop count on from what counts as done."""

    def __init__(self, stop_after=None, checkpoint=None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list = []
        self.stop_after, self.checkpoint = stop_after, checkpoint

    def on_load_checkpoint(self, checkpoint):
        counts = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]
        shift = self.trainer.datamodule.batches_done() - counts["processed"]
        counts.update({name: count + shift for name, count in counts.items()})

    def training_step(self, batch, batch_idx):
        rows = batch["labels"][(batch["labels"] >= 0).any(dim=-1)]
        self.seen += [(self.current_epoch, row.tolist()) for row in rows]
        return self.weight * 0

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.datamodule.trained_on(batch)
        if self.trainer.global_step == self.stop_after:
            self.trainer.save_checkpoint(self.checkpoint)
            raise KeyboardInterrupt

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize("stop_after", [5, 9, 12])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (4, 1)])
def test_the_fit_loop_ends_its_epochs_where_the_data_does(
    make, tmp_path, before, after, stop_after
):
    """34 blocks are 17 micro-batches of 2, or 9 of 4 (and so on in the second epoch)."""

    def fit(module, batch_size, ckpt_path=None):
        runner = pl.Trainer(
            accelerator="cpu",
            max_epochs=2,
            logger=False,
            limit_val_batches=0,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        data = make("cached", (1, 0, batch_size))
        data.trainer = None
        try:
            runner.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
        except (SystemExit, KeyboardInterrupt):
            assert ckpt_path is None

    first = Counting(stop_after, str(tmp_path / "cut.ckpt"))
    fit(first, before)
    rest = Counting()
    fit(rest, after, str(tmp_path / "cut.ckpt"))
    rows = [sorted(row for e, row in first.seen + rest.seen if e == epoch) for epoch in range(2)]
    assert len(rows[0]) == 34
    assert rows[0] == rows[1]
