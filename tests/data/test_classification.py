from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch

import pretrain
from pretrain.data.classification import ClassificationDataModule
from pretrain.data.labels import Labels
from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.errors import UserError

N_TRAIN, N_VALIDATION = 27, 6
CLS, SEP, PAD, W0 = 2, 3, 1, 5  # ids of the BERT tokenizer


def row(number, n_words):
    """A text that opens with its number; its label is the number modulo 3, counted from 1."""
    text = " ".join([f"w{number}"] + ["w100"] * (n_words - 1))
    return {"text": text, "label": number % 3 + 1, "pair": f"w{100 + number}"}


TRAIN = [row(n, 1 + n * 7 % 20) for n in range(N_TRAIN)]
VALIDATION = [row(60 + n, 1 + n * 5 % 20) for n in range(N_VALIDATION)]


@pytest.fixture
def write(tmp_path):
    def lines(name, rows):
        path = tmp_path / "set" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))
        return str(path.parent)

    return lines


@pytest.fixture
def make(tmp_path, write, bert_tokenizer, gpt_tokenizer):
    def build(frame="bert", train=TRAIN, validation=VALIDATION, **options):
        write("train.jsonl", train)
        folder = write("validation.jsonl", validation)
        tokenizer = {"bert": bert_tokenizer, "gpt": gpt_tokenizer}[frame]
        tokenizer.save(tmp_path / f"{frame}.json")
        given = {
            "source": folder,
            "tokenizer": str(tmp_path / f"{frame}.json"),
            "cache_dir": str(tmp_path / "cache"),
            "max_len": 32,
            "batch_size": 2,
            "seed": 5,
        }
        return ClassificationDataModule(**{**given, **options})

    return build


@pytest.fixture
def ready(make):
    def build(*args, stage="fit", **options):
        data = make(*args, **options)
        data.prepare_data()
        data.setup(stage)
        return data

    return build


def numbers_in(batch, place=1):
    """The number that each real row opens with, behind [CLS]."""
    real = batch["attention_mask"].any(dim=1)
    return (batch["input_ids"][real, place] - W0).tolist()


def test_the_batches_of_single_texts(ready):
    data = ready()
    assert data.labels == Labels("single", ("1", "2", "3"))
    for batch in data.train_dataloader():
        assert set(batch) == {"input_ids", "attention_mask", "labels", "position"}
        ids, mask, labels = batch["input_ids"], batch["attention_mask"], batch["labels"]
        assert (ids.dtype, mask.dtype, labels.dtype) == (torch.int64, torch.bool, torch.int64)
        assert ids.shape == mask.shape
        assert ids.shape[0] == len(labels) == 2
        assert ids.shape[1] % 8 == 0
        assert (ids[~mask] == PAD).all()
        for tokens, real, label in zip(ids, mask, labels, strict=True):
            if label == -100:
                assert not real.any()
                continue
            number = int(tokens[1]) - W0
            words = [int(word[1:]) + W0 for word in TRAIN[number]["text"].split()]
            assert tokens[real].tolist() == [CLS, *words, SEP]
            assert real.tolist() == sorted(real.tolist(), reverse=True)  # padding on the right
            assert label == number % 3


def test_pairs_have_segments_only_between_cls_and_sep(ready):
    for batch in ready(pair_field="pair").train_dataloader():
        for tokens, real, segments in zip(
            batch["input_ids"], batch["attention_mask"], batch["segment_ids"], strict=True
        ):
            second = tokens[segments == 1].tolist()
            if real.any():
                assert second == [tokens[1] + 100, SEP]
                assert not segments[~real].any()
    batch = next(iter(ready("gpt", pair_field="pair").train_dataloader()))
    assert "segment_ids" not in batch


def test_a_padding_token_that_is_the_end_token_changes_nothing(ready):
    """The tokenizer's only special token ends texts and fills rows: id 0."""
    data = ready("gpt", pair_field="pair")
    assert data.framing.filler_id == data.tokenizer.eos_id == 0
    for batch in data.val_dataloader():
        for tokens, real, index in zip(
            batch["input_ids"], batch["attention_mask"], batch["index"].tolist(), strict=True
        ):
            if index >= 0:
                one = VALIDATION[index]
                ids = [int(word[1:]) + 1 for word in one["text"].split()]
                assert tokens[real].tolist() == [*ids, 0, int(one["pair"][1:]) + 1]


@pytest.mark.parametrize(
    "options", [{}, {"tokens_per_batch": 64}, {"group_by_length": False}, {"batch_size": 50}]
)
@pytest.mark.parametrize(("n_ranks", "num_workers"), [(1, 0), (1, 2), (2, 0), (3, 0)])
def test_ranks_see_each_example_once_in_equal_numbers_of_steps(make, options, n_ranks, num_workers):
    seen: dict[str, Counter] = {"train": Counter(), "validation": Counter()}
    n_steps: dict[str, set] = {"train": set(), "validation": set()}
    for rank in range(n_ranks):
        data = make(num_workers=num_workers, **options)
        data.trainer = SimpleNamespace(
            world_size=n_ranks, global_rank=rank, limit_train_batches=1.0
        )
        data.setup("fit")
        for split, loader in (
            ("train", data.train_dataloader()),
            ("validation", data.val_dataloader()),
        ):
            batches = list(loader)
            n_steps[split].add(len(batches))
            seen[split].update(n for batch in batches for n in numbers_in(batch))
    assert seen["train"] == Counter(range(N_TRAIN))
    assert seen["validation"] == Counter(range(60, 60 + N_VALIDATION))
    assert {len(steps) for steps in n_steps.values()} == {1}


def test_filler_has_no_target(ready):
    shapes = {"single": (), "multi": (3,), "regression": ()}
    for kind, shape in shapes.items():
        train = [{**one, "label": [one["label"]] if kind == "multi" else one["label"]}
                 for one in TRAIN]  # fmt: skip
        data = ready(train=train, validation=train[:3], kind=kind)
        labels = torch.cat([batch["labels"] for batch in data.val_dataloader()])
        assert labels.shape == (4, *shape)
        index = torch.cat([batch["index"] for batch in data.val_dataloader()])
        filler = labels[index == -1]
        assert (filler == -100).all() if kind == "single" else filler.isnan().all()
        assert sorted(index.tolist()) == [-1, 0, 1, 2]


def test_several_labels_and_numbers(ready):
    train = [{"text": "w0", "label": ["b", "a"]}, {"text": "w1", "label": []},
             {"text": "w2", "label": ["c"]}]  # fmt: skip
    data = ready(train=train, validation=train, kind="multi", batch_size=3)
    (batch,) = data.val_dataloader()
    table = dict(zip(batch["index"].tolist(), batch["labels"], strict=True))
    assert [table[n].tolist() for n in range(3)] == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert batch["labels"].dtype == torch.float32
    assert data.class_counts == [1, 1, 1]

    scored = [{"text": f"w{n}", "label": n / 2} for n in range(4)]
    data = ready(train=scored, validation=scored, kind="regression", batch_size=4)
    (batch,) = data.val_dataloader()
    assert batch["labels"].dtype == torch.float32
    assert dict(zip(batch["index"].tolist(), batch["labels"].tolist(), strict=True)) == {
        n: n / 2 for n in range(4)
    }
    assert data.labels.names == ()
    assert data.class_counts == []


def test_evaluation_is_the_same_each_time_and_whatever_the_seed(ready):
    def validated(data):
        return [(b["index"].tolist(), b["input_ids"].tolist()) for b in data.val_dataloader()]

    data = ready()
    first = validated(data)
    loader = data.val_dataloader()
    passes = [[b["index"].tolist() for b in loader] for _ in range(2)]
    assert passes[0] == passes[1] == [index for index, _ in first]
    assert first == validated(ready(seed=99)) == validated(ready(num_workers=2))


def test_workers_change_nothing(ready):
    def batches(num_workers):
        return [
            (b["input_ids"].tolist(), b["labels"].tolist(), b["position"])
            for b in ready(num_workers=num_workers).train_dataloader()
        ]

    assert batches(0) == batches(2)


class Recorder(pl.LightningModule):
    """Trains one weight and notes the inputs of every micro-batch."""

    def __init__(self, stop_after=None, checkpoint=None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list = []
        self.stop_after, self.checkpoint = stop_after, checkpoint

    def training_step(self, batch, batch_idx):
        self.seen.append((self.current_epoch, batch["input_ids"].tolist()))
        return self.weight * 0

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.datamodule.trained_on(batch)
        if len(self.seen) == self.stop_after:
            self.trainer.save_checkpoint(self.checkpoint)
            raise KeyboardInterrupt

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def train(data, *, stop_after=None, checkpoint=None, ckpt_path=None, **options):
    module = Recorder(stop_after, checkpoint)
    runner = pl.Trainer(
        accelerator="cpu",
        logger=False,
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    try:
        runner.fit(module, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    except (SystemExit, KeyboardInterrupt):
        assert stop_after is not None
    return module.seen


# 27 rows are 14 micro-batches of 2
CUTS = [
    (5, 0, {}),
    (5, 2, {}),
    (14, 0, {}),
    (17, 2, {}),
    (28, 0, {}),
    (4, 0, {"tokens_per_batch": 64}),
]


@pytest.mark.parametrize(("stop_after", "num_workers", "options"), CUTS)
def test_a_resumed_run_trains_on_the_very_next_batch(
    make, tmp_path, stop_after, num_workers, options
):
    whole = train(make(**options), max_steps=35)
    assert len({epoch for epoch, _ in whole}) > 2
    checkpoint = str(tmp_path / "cut.ckpt")
    cut = {"num_workers": num_workers, **options}
    first = train(make(**cut), max_steps=35, stop_after=stop_after, checkpoint=checkpoint)
    rest = train(make(**cut), max_steps=35, ckpt_path=checkpoint)
    assert first == whole[:stop_after]
    assert first + rest == whole


def test_each_example_once_an_epoch_in_a_new_order(make):
    seen = train(make(), max_epochs=2)
    orders = [
        [r[1] for epoch, rows in seen if epoch == e for r in rows if r[0] == CLS] for e in range(2)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [W0 + n for n in range(N_TRAIN)]


@pytest.mark.parametrize(
    "changed",
    [{"batch_size": 3}, {"tokens_per_batch": 64}, {"group_by_length": False}, {"max_len": 16},
     {"seed": 6}, {"train": TRAIN[1:]}],
)  # fmt: skip
def test_another_order_inside_an_epoch_is_refused_and_between_epochs_taken(make, tmp_path, changed):
    inside, between = str(tmp_path / "inside.ckpt"), str(tmp_path / "between.ckpt")
    train(make(), max_steps=20, stop_after=3, checkpoint=inside)
    train(make(), max_steps=20, stop_after=14, checkpoint=between)
    name = "training tokens" if "train" in changed else f"data.{next(iter(changed))}"
    with pytest.raises(UserError, match=rf"inside an epoch read with {name}.*keep it"):
        train(make(**changed), max_steps=20, ckpt_path=inside)
    assert train(make(**changed), max_steps=20, ckpt_path=between)


def test_facts_notes_and_counts(ready):
    data = ready(max_len=12)
    facts = data.facts("train")
    lengths = [len(one["text"].split()) + 2 for one in TRAIN]
    assert facts.n_examples == N_TRAIN
    assert facts.n_tokens == sum(min(n, 12) for n in lengths)
    assert facts.n_cut == sum(n > 12 for n in lengths)
    assert data.facts("test") is None
    assert data.class_counts == [9, 9, 9]
    assert data.seq_len == 12
    assert data.bad_records == {}
    notes = "\n".join(data.notes)
    assert "train is train.jsonl, validation is validation.jsonl" in notes
    assert "train 27, validation 6 examples; 3 labels: 1 9, 2 9, 3 9" in notes
    assert f"{facts.n_cut} of 27 train examples are longer than max_len 12" in notes
    assert [one.text for one in data.examples("validation")] == [v["text"] for v in VALIDATION]


def test_skipped_records_are_counted_once(ready):
    bad = [{"text": "w1"}, {"text": "w2", "label": 1.5}, {"text": "", "label": 1}]
    with pytest.raises(UserError, match=r"train\.jsonl:28: no field \"label\""):
        ready(train=[*TRAIN, *bad])
    data = ready(train=[*TRAIN, *bad], validation=[*VALIDATION, bad[0]], on_bad_record="skip")
    assert data.bad_records == {
        'no field "label"': 2, 'label "label" is no class': 1, 'field "text" is empty': 1,
    }  # fmt: skip
    assert data.facts("train").n_examples == N_TRAIN
    assert any('2 records skipped: no field "label"' in note for note in data.notes)


def test_a_class_that_is_only_in_validation_is_refused_before_training(ready):
    odd = {"text": "w1", "label": "odd"}
    with pytest.raises(
        UserError, match=r"validation\.jsonl:7: .* no label 'odd' \('1', '2', '3'\)"
    ):
        ready(validation=[*VALIDATION, odd])
    assert ready(train=[*TRAIN, odd]).labels.names == ("1", "2", "3", "odd")


def test_a_test_split_without_labels_does_not_keep_a_model_from_training(ready, write):
    write("test.jsonl", [{"text": "w1", "label": -1}])
    data = ready()
    assert data.facts("validation").n_examples == N_VALIDATION
    with pytest.raises(UserError, match=r"test\.jsonl:1: .* no label '-1'"):
        data.setup("test")
    write("test.jsonl", TRAIN[:3])
    data = ready(stage="test")
    assert sorted(n for b in data.test_dataloader() for n in numbers_in(b)) == [0, 1, 2]


def test_the_labels_of_a_checkpoint_need_neither_training_text_nor_labels(make, write):
    labels = Labels("single", ("1", "2", "3", "4"))
    data = make(label_field=None)
    with pytest.raises(UserError, match="training needs the field of the labels"):
        data.setup("fit")
    data.use_labels(labels)
    data.setup("predict")
    assert data.labels == labels
    assert data.facts("train") is None
    batches = list(data.predict_dataloader())
    assert all((batch["labels"] == -100).all() for batch in batches)
    assert sorted(n for b in batches for n in numbers_in(b)) == list(range(60, 66))

    labelled = make()
    labelled.use_labels(labels)
    labelled.setup("fit")
    assert labelled.class_counts == [9, 9, 9, 0]
    other = Labels("single", ("0", "1", "2", "3"))
    labelled.use_labels(other)
    labelled.setup("fit")
    assert labelled.class_counts == [0, 9, 9, 9]


def test_a_tokenizer_is_trained_on_both_training_texts(ready):
    data = ready(tokenizer=TokenizerRule("char"), pair_field="pair")
    assert set("w0123456789 ") < set(data.tokenizer.backend.get_vocab())
    batch = next(iter(data.val_dataloader()))
    text, pair = (VALIDATION[int(batch["index"][0])][name] for name in ("text", "pair"))
    shown = data.tokenizer.decode(batch["input_ids"][0][batch["attention_mask"][0]])
    assert f"{text}<|endoftext|>{pair}".startswith(shown[:20])


def test_a_text_without_a_token_is_named_by_its_row_or_skipped(ready, tmp_path):
    from tokenizers import Tokenizer, models

    Tokenizer(models.BPE({"a": 0, "b": 1}, [])).save(str(tmp_path / "ab.json"))
    rows = [{"text": "ab", "label": 0}, {"text": "xyz", "label": 1}, {"text": "b", "label": 1}]
    options = {"train": rows, "validation": rows[:1], "tokenizer": str(tmp_path / "ab.json")}
    with pytest.raises(UserError, match=r"train\.jsonl:2: the tokenizer makes no token"):
        ready(**options)
    data = ready(**options, on_bad_record="skip")
    assert data.facts("train").n_examples == 2
    assert data.bad_records == {"the tokenizer makes no token of the text": 1}
    assert data.class_counts == [1, 1]


def test_a_width_never_passes_max_len(ready):
    widths = {b["input_ids"].shape[1] for b in ready(max_len=13).train_dataloader()}
    assert widths == {8, 13}


def test_the_budget_bounds_padded_tokens(ready):
    data = ready(tokens_per_batch=64)
    batches = list(data.train_dataloader())
    assert max(batch["input_ids"].numel() for batch in batches) <= 64
    assert all((batch["labels"] != -100).all() for batch in batches)
    assert len({len(batch["labels"]) for batch in batches}) > 1


@pytest.mark.parametrize(
    "bad",
    [{"batch_size": 0}, {"num_workers": -1}, {"source": None}, {"kind": "several"},
     {"tokens_per_batch": 8}, {"split": "half"}],
)  # fmt: skip
def test_impossible_options_are_refused(make, bad):
    with pytest.raises(UserError, match=next(iter(bad))):
        make(**bad)


def test_what_is_asked_too_early_is_told_so(make):
    data = make()
    for name in ("tokenizer", "labels", "notes", "bad_records"):
        with pytest.raises(UserError, match="setup"):
            getattr(data, name)
    assert data.state_dict() == {}
    with pytest.raises(UserError, match="There is no tokenizer"):
        make(tokenizer=None).prepare_data()
    with pytest.raises(UserError, match="no room"):
        make(max_len=2).prepare_data()


def test_too_much_text_is_refused(make, monkeypatch):
    monkeypatch.setattr("pretrain.data.prepared_examples.MAX_CHARACTERS", 100)
    with pytest.raises(UserError, match="more than 100 characters of labelled text"):
        make().setup("fit")


def test_it_is_offered_at_the_front_door():
    assert pretrain.ClassificationDataModule is ClassificationDataModule
    assert ClassificationDataModule.objective == "classification"


def test_real_sets_are_read_whole():
    root = os.environ.get("PRETRAIN_TEST_DATA")
    if not root:
        pytest.skip("PRETRAIN_TEST_DATA is not set")
    data = ClassificationDataModule(
        str(Path(root) / "rte"),
        text_field="text_a",
        pair_field="text_b",
        tokenizer=str(Path(root) / "tokenizers" / "bert-base-uncased-tokenizer.json"),
    )
    data.setup("validate")
    assert (data.facts("train").n_examples, data.facts("validation").n_examples) == (2490, 277)
    assert data.labels.names == ("0", "1")
    batches = list(data.val_dataloader())
    assert sum(int((b["labels"] >= 0).sum()) for b in batches) == 277
    share = sum(int(b["attention_mask"].sum()) for b in batches) / sum(
        b["input_ids"].numel() for b in batches
    )
    assert share > 0.85
