import math

import pytest
import torch
import torch.nn.functional as F
from tiny import KINDS, ROWS, fit, make_task, one_row

from pretrain.tasks.metrics import AccuracyByMasking

LENGTHS = [2, 5, 9, 17, 30, 44, 60]


def validate(kind, batches):
    task = make_task(kind)
    trainer = fit(task, [batches[0]], batches, val_check_interval=1, max_steps=1)
    first = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("val/")}
    second = trainer.validate(task, torch.utils.data.DataLoader(batches, batch_size=None),
                              verbose=False)[0]  # fmt: skip
    for name, value in first.items():
        assert second[name] == pytest.approx(value, rel=1e-6), name
    return task, first


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_size_of_the_evaluation_changes_nothing(kind):
    full = ROWS[kind](LENGTHS)
    rows = [one_row(full, i) for i in range(len(LENGTHS))]
    # The weights move in the one training step, the same way for the same first batch.
    task = make_task(kind, lr=1e-9)
    losses, targets = [], []
    for row in rows:
        hidden, labels = task.target_states(row)
        kept = labels != -100
        logits = task.head(hidden).double()[kept]
        losses.append(float(F.cross_entropy(logits, labels[kept], reduction="sum").detach()))
        targets.append(int(kept.sum()))
    expected = sum(losses) / sum(targets)

    for batches in (rows, [full]):
        task = make_task(kind, lr=1e-9)
        trainer = fit(task, [full], batches, val_check_interval=1, max_steps=1)
        found = trainer.callback_metrics
        assert float(found["val/loss"]) == pytest.approx(expected, rel=1e-6)
        assert float(found["val/perplexity"]) == pytest.approx(math.exp(expected), rel=1e-5)
        assert int(found["val/target_tokens"]) == sum(targets)


def test_bits_per_byte_divides_all_nats_by_the_bytes_of_the_text():
    batch = {**ROWS["clm"]([9, 6]), "n_bytes": torch.tensor(40.0, dtype=torch.float64)}
    _, figures = validate("clm", [batch, batch])
    nats = figures["val/loss"] * figures["val/target_tokens"]
    assert figures["val/bits_per_byte"] == pytest.approx(nats / (math.log(2) * 80), rel=1e-6)
    assert "val/masked_accuracy" not in figures


def test_masked_language_models_report_accuracy_and_no_bits_per_byte():
    batch = ROWS["mlm"]([20, 30])
    task, figures = validate("mlm", [batch])
    assert "val/bits_per_byte" not in figures
    hidden, labels = task.target_states(batch)
    kept = labels != -100
    hits = (task.head(hidden).argmax(-1) == labels)[kept].float().mean()
    assert figures["val/masked_accuracy"] == pytest.approx(float(hits), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_logit_z_is_the_mean_logarithm_of_the_softmax_denominator(kind):
    batch = ROWS[kind]([20, 30])
    task, figures = validate(kind, [batch])
    hidden, labels = task.target_states(batch)
    logits = task.head(hidden).double()[labels != -100]
    expected = logits.exp().sum(-1).log().mean().item()
    assert figures["val/logit_z"] == pytest.approx(expected, rel=1e-6)


def test_accuracy_is_told_apart_by_masking():
    mask_id, metric = 4, AccuracyByMasking()
    #        mask  mask  kept  kept  random  no target
    shown = [4, 4, 7, 8, 9, 4]
    labels = [5, 6, 7, 8, 3, -100]
    hits = [True, False, True, True, False, True]
    halves = [(slice(0, 2)), slice(2, 6)]
    for part in halves:
        metric.update(
            torch.tensor(shown[part]), torch.tensor(labels[part]), torch.tensor(hits[part]), mask_id
        )
    assert metric.compute() == {"mask": 0.5, "random": 0.0, "kept": 1.0}


def test_a_kind_that_was_not_there_has_no_accuracy():
    metric = AccuracyByMasking()
    metric.update(torch.tensor([4]), torch.tensor([5]), torch.tensor([True]), mask_id=4)
    assert metric.compute() == {"mask": 1.0}
