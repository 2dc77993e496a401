from __future__ import annotations

import lightning.pytorch as pl
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models

from pretrain.data.datamodule import CausalLMDataModule, MaskedLMDataModule
from pretrain.data.masking import MaskingConfig
from pretrain.errors import UserError

N_TRAIN = 20


class Recorder(pl.LightningModule):
    """Trains one weight and notes the inputs of every micro-batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.lr = 0.1
        self.seen: list[tuple[int, list]] = []
        self.validated: list[list] = []
        self.stop_after: int | None = None

    def training_step(self, batch, batch_idx):
        self.seen.append((self.current_epoch, batch["input_ids"].tolist()))
        return self.weight * 0

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.datamodule.trained_on(batch)
        if self.stop_after is not None and len(self.seen) == self.stop_after:
            self.trainer.save_checkpoint(self.checkpoint)
            raise KeyboardInterrupt

    def validation_step(self, batch, batch_idx):
        self.validated.append(batch["input_ids"].tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def corpus(tmp_path, numbered_source):
    for split in ("train", "validation"):
        folder = tmp_path / "corpus"
        folder.mkdir(exist_ok=True)
        texts = [text for other, text in numbered_source.items if other == split]
        (folder / f"{split}.txt").write_text("\n".join(texts) + "\n")
    return folder


@pytest.fixture
def make(tmp_path, corpus, gpt_tokenizer, bert_tokenizer):
    def build(kind=CausalLMDataModule, **options):
        tokenizer = gpt_tokenizer if kind is CausalLMDataModule else bert_tokenizer
        path = tmp_path / f"{kind.__name__}.json"
        tokenizer.save(path)
        options = {"seq_len": 8, "batch_size": 2, "seed": 5, **options}
        return kind(
            **{
                "source": str(corpus),
                "tokenizer": str(path),
                "cache_dir": str(tmp_path / "cache"),
                **options,
            }
        )

    return build


def trainer(**options):
    defaults = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
    }
    return pl.Trainer(**{**defaults, **options})


def train(datamodule, *, ckpt_path=None, stop_after=None, checkpoint=None, **options):
    module = Recorder()
    module.stop_after, module.checkpoint = stop_after, checkpoint
    runner = trainer(limit_val_batches=0, **options)
    try:
        runner.fit(module, datamodule=datamodule, ckpt_path=ckpt_path, weights_only=True)
    except (SystemExit, KeyboardInterrupt):
        assert stop_after is not None
    return module.seen


# 20 documents of 3 to 22 words and an end token: 270 tokens, 34 blocks of 8, 17 micro-batches of 2
# from a cache; on a stream each document is in a shard of its own, 27 micro-batches
CUTS = [  # path, micro-batches before the cut, workers, accumulation
    ("cached", 6, 0, 1),
    ("cached", 6, 2, 2),
    ("cached", 17, 2, 1),
    ("cached", 18, 0, 2),
    ("cached", 20, 2, 2),
    ("streamed", 6, 2, 1),
    ("streamed", 6, 0, 2),
    ("streamed", 27, 2, 1),
    ("streamed", 27, 0, 1),
    ("streamed", 30, 2, 2),
]


@pytest.mark.parametrize(("path", "stop_after", "num_workers", "accumulate"), CUTS)
def test_a_resumed_run_trains_on_the_same_rows(
    make, tmp_path, path, stop_after, num_workers, accumulate
):
    cache = path == "cached"
    options = {"max_steps": 40 // accumulate, "accumulate_grad_batches": accumulate}
    whole = train(make(cache=cache), **options)
    checkpoint = str(tmp_path / "cut.ckpt")

    def cut(**more):
        return train(make(num_workers=num_workers, cache=cache), **options, **more)

    first = cut(stop_after=stop_after, checkpoint=checkpoint)
    rest = cut(ckpt_path=checkpoint)
    assert first == whole[:stop_after]
    assert first + rest == whole


@pytest.mark.parametrize(
    ("cache", "max_steps", "num_workers"),
    [(True, 5, 0), (True, 17, 2), (True, 20, 0), (False, 5, 2), (False, 27, 0)],
)
def test_a_run_that_reached_max_steps_can_be_continued(
    make, tmp_path, cache, max_steps, num_workers
):
    whole = train(make(cache=cache), max_steps=60)
    module, runner = Recorder(), trainer(limit_val_batches=0, max_steps=max_steps)
    runner.fit(module, datamodule=make(cache=cache))
    runner.save_checkpoint(tmp_path / "end.ckpt")
    rest = train(
        make(num_workers=num_workers, cache=cache),
        ckpt_path=str(tmp_path / "end.ckpt"),
        max_steps=60,
    )
    rows = [rows for _, rows in module.seen + rest]
    assert rows == [rows for _, rows in whole]


def test_a_run_of_limited_epochs_is_continued_with_the_next_one(make, tmp_path):
    options = {"limit_train_batches": 4, "max_steps": 20}
    whole = train(make(), **options)
    for stop_after in (6, 8):
        checkpoint = str(tmp_path / "cut.ckpt")
        first = train(make(), stop_after=stop_after, checkpoint=checkpoint, **options)
        assert first + train(make(), ckpt_path=checkpoint, **options) == whole


def test_resuming_twice_in_a_row(make, tmp_path):
    whole = train(make(), max_steps=40)
    seen = []
    checkpoint = None
    for number, stop_after in enumerate((5, 13, 7)):
        after = str(tmp_path / f"{number}.ckpt")
        seen += train(
            make(), ckpt_path=checkpoint, stop_after=stop_after, checkpoint=after, max_steps=40
        )
        checkpoint = after
    seen += train(make(), ckpt_path=checkpoint, max_steps=40)
    assert seen == whole


def test_each_row_once_an_epoch_in_a_new_order(make):
    seen = train(make(), max_epochs=2)
    epochs = [[row for epoch, rows in seen if epoch == e for row in rows] for e in range(2)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert len(epochs[0]) == 34


def test_a_second_fit_begins_at_the_beginning(make):
    datamodule = make()
    assert train(datamodule, max_steps=5) == train(datamodule, max_steps=5)


def test_validation_is_the_same_each_time_and_in_order(make):
    datamodule = make(MaskedLMDataModule)
    module = Recorder()
    for _ in range(2):
        trainer().validate(module, datamodule=datamodule, verbose=False)
    half = len(module.validated) // 2
    assert module.validated[:half] == module.validated[half:]


def test_masks_change_from_epoch_to_epoch_in_training(make):
    datamodule = make(MaskedLMDataModule, masking=MaskingConfig(rate=0.3))
    seen = train(datamodule, max_epochs=2)
    hidden = datamodule.tokenizer.mask_id
    places = [
        sorted([token == hidden for token in row] for e, rows in seen for row in rows if e == epoch)
        for epoch in range(2)
    ]
    assert places[0] != places[1]


def test_facts_and_notes_tell_what_is_there(make, corpus, tmp_path):
    datamodule = make()
    datamodule.prepare_data()
    datamodule.setup("fit")
    facts = datamodule.facts("train")
    text = (corpus / "train.txt").read_text()
    assert facts.n_documents == N_TRAIN
    assert facts.n_tokens == len(text.split()) + N_TRAIN
    assert facts.n_bytes == len(text.replace("\n", "").encode())
    assert facts.n_blocks == 34
    assert datamodule.uses_cache
    assert any(
        "20 documents" in note and str(tmp_path / "cache") in note for note in datamodule.notes
    )


def test_another_length_needs_no_new_tokens(make, monkeypatch):
    make().prepare_data()
    datamodule = make(seq_len=16)
    monkeypatch.setattr(
        "pretrain.data.tokenizer.Tokenizer.encode_documents", lambda *_: pytest.fail("tokenized")
    )
    datamodule.prepare_data()
    datamodule.setup("fit")
    assert next(iter(datamodule.train_dataloader()))["input_ids"].shape == (2, 16)


def test_batch_size_may_change_between_fits(make):
    datamodule = make()
    datamodule.prepare_data()
    datamodule.setup("fit")
    datamodule.batch_size = 5
    batch = next(iter(datamodule.train_dataloader()))
    assert batch["input_ids"].shape == (5, 8)


def test_lightnings_batch_size_finder_works(make):
    datamodule = make()
    runner = trainer(
        max_steps=4,
        limit_val_batches=0,
        callbacks=[pl.callbacks.BatchSizeFinder(max_trials=2, steps_per_trial=1)],
    )
    runner.fit(Recorder(), datamodule=datamodule)
    assert datamodule.batch_size > 2


@pytest.mark.parametrize("cache", [True, False])
def test_training_begins_at_the_first_row_after_the_learning_rate_finder(make, cache):
    rows = []
    for callbacks in ([], [pl.callbacks.LearningRateFinder(num_training_steps=6)]):
        module = Recorder()
        trainer(max_steps=4, limit_val_batches=0, callbacks=callbacks).fit(
            module, datamodule=make(cache=cache)
        )
        rows.append(module.seen[-4:])
    assert rows[0] == rows[1]


def test_a_split_without_a_target_is_refused(make, corpus, tmp_path):
    endless = Backend(models.WordLevel({"[UNK]": 0, "w1": 1}, unk_token="[UNK]"))
    endless.save(str(tmp_path / "endless.json"))
    (corpus / "validation.txt").write_text("w1\n")  # one token, and nothing that follows it
    datamodule = make(tokenizer=str(tmp_path / "endless.json"))
    with pytest.raises(UserError, match="validation split"):
        train(datamodule, max_steps=1)


@pytest.mark.parametrize(
    "bad", [{"seq_len": 1}, {"batch_size": 0}, {"num_workers": -1}, {"source": None}]
)
def test_impossible_shapes_are_refused(make, bad):
    with pytest.raises(UserError, match=next(iter(bad))):
        make(**bad)


def test_masked_training_names_the_tokens_that_a_tokenizer_lacks(make, tmp_path, gpt_tokenizer):
    gpt_tokenizer.save(tmp_path / "gpt.json")
    datamodule = make(MaskedLMDataModule, tokenizer=str(tmp_path / "gpt.json"))
    with pytest.raises(UserError, match=r"\[MASK\], \[CLS\], \[SEP\].*wordpiece"):
        datamodule.prepare_data()


def test_mixed_sources_need_max_steps_and_resume_exactly(make, corpus, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.txt").write_text("\n".join("w7 w8 w9" for _ in range(9)) + "\n")
    (other / "validation.txt").write_text("w9 w9 w9 w9\n")
    mixture = {str(corpus): 1.0, str(other): 2.0}
    with pytest.raises(UserError, match="max_steps"):
        train(make(source=mixture), max_epochs=1)
    whole = train(make(source=mixture), max_steps=50)
    checkpoint = str(tmp_path / "cut.ckpt")
    first = train(make(source=mixture), stop_after=33, checkpoint=checkpoint, max_steps=50)
    assert first + train(make(source=mixture), ckpt_path=checkpoint, max_steps=50) == whole


def test_a_mixture_is_validated_on_all_its_sources(make, corpus, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.txt").write_text("w7 w8 w9\n" * 9)
    (other / "validation.txt").write_text("w9 w9 w9 w9\n")
    facts = []
    for source in (str(corpus), str(other), {str(corpus): 1.0, str(other): 2.0}):
        datamodule = make(source=source)
        datamodule.prepare_data()
        datamodule.setup("validate")
        facts.append(datamodule.facts("validation"))
    assert facts[2].n_tokens == facts[0].n_tokens + facts[1].n_tokens


@pytest.mark.parametrize("options", [{"max_epochs": 2}, {}])
def test_a_stream_asks_for_max_steps(make, options):
    with pytest.raises(UserError, match="max_steps"):
        train(make(cache=False), **options)


def test_a_mixture_is_not_streamed(make, corpus):
    with pytest.raises(UserError, match="cache"):
        make(source={str(corpus): 1.0}, cache=False).prepare_data()


def test_a_stream_refuses_workers_that_cannot_share_its_shards(make):
    with pytest.raises(UserError, match="num_workers"):
        train(make(cache=False, num_workers=5), max_steps=1)


def test_a_checkpoint_of_one_path_is_not_continued_on_the_other(make, tmp_path):
    checkpoint = str(tmp_path / "cut.ckpt")
    train(make(), stop_after=3, checkpoint=checkpoint, max_steps=9)
    with pytest.raises(UserError, match="cache=True"):
        train(make(cache=False), ckpt_path=checkpoint, max_steps=9)


@pytest.mark.parametrize("other", [{"seq_len": 6}, {"seed": 6}])
@pytest.mark.parametrize("cache", [True, False])
def test_another_order_of_rows_in_the_middle_of_an_epoch_is_refused(make, tmp_path, other, cache):
    checkpoint = str(tmp_path / "cut.ckpt")
    train(make(cache=cache), stop_after=3, checkpoint=checkpoint, max_steps=9)
    with pytest.raises(UserError, match=next(iter(other))):
        train(make(cache=cache, **other), ckpt_path=checkpoint, max_steps=9)


def test_a_checkpoint_is_validated_with_any_batch_size_and_path(make, tmp_path):
    checkpoint = str(tmp_path / "cut.ckpt")
    train(make(), stop_after=3, checkpoint=checkpoint, max_steps=9)
    for options in ({"batch_size": 4}, {"cache": False}):
        module = Recorder()
        datamodule = make(**options)
        trainer().validate(module, datamodule=datamodule, ckpt_path=checkpoint, verbose=False)
        assert module.validated


def test_streamed_and_cached_validation_are_the_same(make):
    for kind in (CausalLMDataModule, MaskedLMDataModule):
        rows = []
        for cache in (True, False):
            module = Recorder()
            trainer().validate(module, datamodule=make(kind, cache=cache), verbose=False)
            rows.append(module.validated)
        assert rows[0] == rows[1]


def test_another_corpus_in_the_middle_of_an_epoch_is_refused(make, corpus, tmp_path):
    checkpoint = str(tmp_path / "cut.ckpt")
    train(make(), stop_after=3, checkpoint=checkpoint, max_steps=9)
    with (corpus / "train.txt").open("a") as file:
        file.write("w1 w2 w3\n")
    with pytest.raises(UserError, match=r"270 training tokens, this corpus has 274"):
        train(make(), ckpt_path=checkpoint, max_steps=9)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_records_skipped_on_a_stream_are_counted_once(make, tmp_path, num_workers):
    path = tmp_path / "rows.jsonl"
    rows = [f'{{"text": "w{i} w{i + 1} w{i + 2}"}}\n{{"text": null}}\n' for i in range(60)]
    path.write_text("".join(rows))
    datamodule = make(
        source=str(path), cache=False, on_bad_record="skip", split_share=0.2,
        num_workers=num_workers,
    )  # fmt: skip
    train(datamodule, max_steps=60)
    assert datamodule.bad_records == {'field "text" is null, not text': 60}


def test_the_state_is_loadable_as_plain_data(make, tmp_path):
    for cache in (True, False):
        checkpoint = tmp_path / f"{cache}.ckpt"
        train(make(cache=cache), stop_after=3, checkpoint=str(checkpoint), max_steps=9)
        saved = torch.load(checkpoint, weights_only=True)
        assert saved["CausalLMDataModule"]["uses_cache"] is cache


def test_overfitting_a_few_batches_works(make):
    seen = train(make(), max_epochs=3, overfit_batches=2)
    rows = [rows for _, rows in seen]
    assert rows == rows[:2] * 3
