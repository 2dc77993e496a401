import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tiny import SHAPE, VOCAB, fit, make_task
from torchmetrics.functional.classification import multiclass_matthews_corrcoef

from pretrain.data.labels import Labels
from pretrain.errors import UserError
from pretrain.model import TransformerConfig
from pretrain.model.pooling import pool
from pretrain.tasks import Classification, FinetuningConfig, ScheduleConfig, load_task, save_task
from pretrain.tasks.classification_score import ClassificationScore
from pretrain.tasks.label_losses import label_loss

ABC = Labels("single", ("a", "b", "c"))


def make(labels=ABC, network=None, **options):
    torch.manual_seed(0)
    options.setdefault("schedule", ScheduleConfig(stable_share=1.0))
    task = Classification({**SHAPE, **(network or {})}, labels=labels.to_dict(), **options)
    task.configure_model()
    return task


def rows(lengths, labels=None, seq=None, side="right"):
    """Random texts of these lengths, padded on one side."""
    generator = torch.Generator().manual_seed(7)
    seq = seq or max(lengths)
    texts = [torch.randint(1, VOCAB, (n,), generator=generator) for n in lengths]
    ids, mask = torch.zeros(len(lengths), seq, dtype=torch.int64), torch.zeros(len(lengths), seq)
    for row, text in enumerate(texts):
        place = slice(0, len(text)) if side == "right" else slice(seq - len(text), seq)
        ids[row, place], mask[row, place] = text, 1
    labels = torch.arange(len(lengths)) % 3 if labels is None else labels
    return {"input_ids": ids, "attention_mask": mask.bool(), "labels": labels}


POSITIONS = ("learned", "rotary", "alibi", "sinusoidal")


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(
    ("causal", "pooling"), [(True, "last"), (True, "mean"), (False, "cls"), (False, "mean")]
)
def test_a_text_has_the_same_logits_alone_and_padded_on_either_side(causal, pooling, position):
    task = make(network={"position": position}, causal=causal, pooling=pooling).eval()
    lengths = [5, 9, 2]
    right = task.logits(rows(lengths, seq=12))
    left = task.logits(rows(lengths, seq=12, side="left"))
    batch = rows(lengths)
    alone = torch.cat(
        [task.logits({k: v[i : i + 1, :n] for k, v in batch.items() if v.ndim == 2})
         for i, n in enumerate(lengths)]
    )  # fmt: skip
    torch.testing.assert_close(right, alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(left, alone, rtol=0, atol=1e-5)


def test_pooling_takes_what_it_says():
    hidden = torch.arange(12.0).view(2, 3, 2)
    mask = torch.tensor([[True, True, False], [False, True, True]])
    assert pool(hidden, mask, "cls").tolist() == [[0, 1], [8, 9]]
    assert pool(hidden, mask, "last").tolist() == [[2, 3], [10, 11]]
    assert pool(hidden, mask, "mean").tolist() == [[1, 2], [9, 10]]


def test_the_loss_is_the_mean_over_labelled_rows_whatever_the_filler():
    task = make().eval()
    batch = rows([4, 6, 3, 5], torch.tensor([0, 2, 1, -100]))
    sums = task.losses(batch)
    logits = task.logits(batch).double()
    expected = -sum(logits[i].log_softmax(0)[c] for i, c in enumerate((0, 2, 1)))
    assert float(sums.nll) == pytest.approx(expected.item(), rel=1e-5)
    assert int(sums.n_targets) == 3


def test_losses_by_hand():
    logits = torch.tensor([[2.0, -1.0], [0.5, 0.25]])
    multi = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    by_hand = sum(
        -math.log(1 / (1 + math.exp(-x))) if y else -math.log(1 - 1 / (1 + math.exp(-x)))
        for x, y in zip(logits.flatten().tolist(), multi.flatten().tolist(), strict=True)
    )
    assert float(label_loss("multi", logits, multi).nll) == pytest.approx(by_hand / 2)
    filler = torch.cat([multi, torch.full((1, 2), torch.nan)])
    padded = label_loss("multi", torch.cat([logits, torch.ones(1, 2)]), filler)
    assert (float(padded.nll), int(padded.n_targets)) == (pytest.approx(by_hand / 2), 2)
    numbers = torch.tensor([1.0, torch.nan, 3.0])
    squared = label_loss("regression", torch.tensor([[0.5], [9.0], [1.0]]), numbers)
    assert (float(squared.nll), int(squared.n_targets)) == (4.25, 2)


def test_class_weights_and_smoothing_change_the_objective_and_not_the_report():
    logits, labels = torch.tensor([[2.0, -1.0], [0.5, 0.25]]), torch.tensor([0, 1])
    plain = label_loss("single", logits, labels)
    weighted = label_loss("single", logits, labels, torch.tensor([3.0, 1.0]))
    rows_alone = [
        float(label_loss("single", logits[i : i + 1], labels[i : i + 1]).nll) for i in (0, 1)
    ]
    assert float(weighted.objective) == pytest.approx(3 * rows_alone[0] + rows_alone[1])
    smooth = label_loss("single", logits, labels, smoothing=0.2)
    assert float(smooth.nll) == float(weighted.nll) == float(plain.nll)
    assert float(smooth.objective) > float(plain.objective)


def test_balanced_weights_make_all_classes_count_alike():
    weights = FinetuningConfig(class_weights="balanced").weights_of("single", [90, 10])
    assert weights[0] * 90 == pytest.approx(weights[1] * 10) == pytest.approx(50)
    with pytest.raises(UserError, match="3 numbers, but there are 2 classes"):
        FinetuningConfig(class_weights=[1, 1, 1]).weights_of("single", [5, 5])


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("regression", {"class_weights": "balanced"}), ("regression", {"label_smoothing": 0.1}),
     ("multi", {"label_smoothing": 0.1})],
)  # fmt: skip
def test_what_labels_of_a_kind_have_no_use_for_is_refused(kind, asked):
    with pytest.raises(UserError, match=next(iter(asked))):
        FinetuningConfig(**asked).weights_of(kind, [5, 5])


def test_figures_of_two_classes_by_hand():
    score = ClassificationScore("single", 2)
    truth = torch.tensor([0, 0, 0, 1, 1, -100])
    found = torch.tensor([0, 1, 0, 1, 0, 1])
    logits = torch.nn.functional.one_hot(found, 2).float()
    score.update(logits[:4], truth[:4])
    score.update(logits[4:], truth[4:])
    figures = score.compute()
    assert figures["accuracy"] == pytest.approx(3 / 5)
    assert figures["f1"] == pytest.approx(2 * 1 / (2 * 1 + 1 + 1))  # of class 1
    # Matthews 1975: (TP TN - FP FN) / sqrt of the four margins.
    assert figures["matthews"] == pytest.approx((1 * 2 - 1 * 1) / math.sqrt(2 * 2 * 3 * 3))
    assert figures["loss"] == pytest.approx(
        float(torch.nn.functional.cross_entropy(logits[:5], truth[:5]))
    )
    assert score.confusion_matrix() == [[2, 1], [1, 1]]
    score.reset()
    score.update(logits, truth)
    assert score.compute()["accuracy"] == pytest.approx(3 / 5)


def test_figures_of_the_other_kinds_by_hand():
    regression = ClassificationScore("regression", 1)
    regression.update(
        torch.tensor([[1.0], [2.0], [9.0], [0.0]]), torch.tensor([1.0, 2.0, 3.0, torch.nan])
    )
    figures = regression.compute()
    assert figures["spearman"] == pytest.approx(1.0, abs=1e-5)
    assert figures["pearson"] == pytest.approx(0.917663, abs=1e-5)  # 8 / sqrt(38 · 2)
    multi = ClassificationScore("multi", 2)
    multi.update(torch.tensor([[2.0, -2.0], [2.0, 2.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    assert multi.compute()["accuracy"] == 0.5
    assert multi.compute()["f1"] == pytest.approx(0.8)


def test_dropout_is_active_in_every_step_of_fine_tuning_also_after_a_validation(tmp_path):
    save_task(make_task("mlm", network={"dropout": 0.2}).eval(), tmp_path / "pretrained.ckpt")
    torch.manual_seed(0)
    task = Classification({**SHAPE, "dropout": 0.2}, labels=ABC.to_dict(), lr=1e-3)
    task.init_weights_from(str(tmp_path / "pretrained.ckpt"))
    task.configure_model()
    task.eval()  # as a loaded model is handed over
    modes = []
    task.classifier.register_forward_pre_hook(lambda module, _: modes.append(
        (task.training, all(part.training for part in task.transformer.modules()))
    ))  # fmt: skip
    batch = rows([5, 7, 4])
    fit(task, [batch] * 2, [batch], val_check_interval=1, limit_val_batches=1)
    assert modes == [(True, True), (False, False), (True, True), (False, False)]


def test_dropout_of_the_head_alone_depends_on_no_hidden_state_either():
    def trained(disturb):
        head_alone = FinetuningConfig(head_dropout=0.4)
        task = make(lr=0.01, network={"dropout": 0.0}, finetuning=head_alone)
        if disturb:
            torch.rand(100)
        fit(task, [rows([5, 7, 4])] * 3)
        return task.classifier.weight

    assert torch.equal(trained(False), trained(True))


@pytest.mark.filterwarnings("error")
def test_a_regression_is_scored_without_advice():
    ClassificationScore("regression", 1)


def test_the_head_alone_moves_at_first_when_asked_to():
    task = make(lr=0.1, finetuning=FinetuningConfig(head_only_steps=2, head_dropout=0.0))
    before = {name: p.detach().clone() for name, p in task.named_parameters()}
    fit(task, [rows([5, 7, 4])] * 2)
    moved = {name for name, p in task.named_parameters() if not torch.equal(p, before[name])}
    assert "classifier.weight" in moved
    assert not any(name.startswith("transformer.blocks") for name in moved)
    assert not any("embeddings" in name for name in moved)
    fit(task, [rows([5, 7, 4])] * 3)
    assert not torch.equal(task.transformer.embeddings.token.weight,
                           before["transformer.embeddings.token.weight"])  # fmt: skip


def test_a_checkpoint_brings_labels_and_pooling_back(tmp_path):
    task = make(labels=Labels("single", ("no", "yes")), causal=True).eval()
    save_task(task, tmp_path / "c.ckpt")
    again = load_task(str(tmp_path / "c.ckpt"))
    assert (again.labels, again.pooling, again.causal) == (task.labels, "last", True)
    batch = rows([5, 7, 4])
    assert torch.equal(again.logits(batch), task.logits(batch))
    (first, *_) = again.predictions(torch.tensor([[0.0, math.log(3)]]))
    assert first["label"] == "yes"
    assert first["probabilities"] == pytest.approx({"no": 0.25, "yes": 0.75})


def test_predictions_of_the_other_kinds():
    multi = make(labels=Labels("multi", ("x", "y")))
    (row,) = multi.predictions(torch.tensor([[0.1, -0.1]]))
    assert row["labels"] == ["x"]
    assert make(labels=Labels("regression")).predictions(torch.tensor([[1.5]])) == [{"value": 1.5}]


def test_data_with_other_labels_than_the_models_is_refused():
    task = make()
    other = Labels("single", ("a", "b", "d"))
    tokenizer = SimpleNamespace(vocab_size=VOCAB, to_json=lambda: "{}")
    data = SimpleNamespace(labels=other, class_counts=[1, 1, 1], tokenizer=tokenizer,
                           objective="classification", seq_len=8)  # fmt: skip
    task.trainer = SimpleNamespace(datamodule=data)
    with pytest.raises(UserError, match=r"single \(a, b, c\), the data's single \(a, b, d\)"):
        task.setup("fit")


@pytest.mark.parametrize(
    "wrong",
    [
        {"layer_decay": 0.0},
        {"n_frozen": -1},
        {"head_dropout": 1.0},
        {"label_smoothing": -0.1},
        {"class_weights": [1.0, -2.0]},
        {"class_weights": [0.0, 0.0]},
        {"class_weights": [1.0, math.nan]},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FinetuningConfig(**wrong)


def test_more_frozen_blocks_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"n_frozen \(3\) is more than the 2 blocks"):
        make(finetuning=FinetuningConfig(n_frozen=3))


def test_matthews_of_more_classes_agrees_with_the_functional():
    torch.manual_seed(0)
    logits, truth = torch.randn(50, 3), torch.randint(0, 3, (50,))
    score = ClassificationScore("single", 3)
    for part in range(0, 50, 7):
        score.update(logits[part : part + 7], truth[part : part + 7])
    expected = multiclass_matthews_corrcoef(logits, truth, 3)
    assert score.compute()["matthews"] == pytest.approx(float(expected))


def test_matthews_of_one_class_for_all_is_zero():
    score = ClassificationScore("single", 2)
    truth = torch.tensor([1] * 400 + [0] * 127)
    score.update(torch.tensor([[0.0, 1.0]]).expand(527, 2), truth)
    assert score.compute()["matthews"] == 0.0


def test_xpos_is_refused_for_a_classifier_that_looks_both_ways():
    config = replace(TransformerConfig(**SHAPE), position="xpos")
    Classification(config, causal=True)
    with pytest.raises(ValueError, match="causal"):
        Classification(config)
