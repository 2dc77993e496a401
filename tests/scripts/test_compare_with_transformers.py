"""The comparison with transformers, on a tiny BERT of random weights."""

import json
import sys
from pathlib import Path

import peers
import pytest
import torch
import yaml
from portables import exported

from pretrain.data import TokenizerRule
from pretrain.data.tokenizer_training import train_tokenizer
from pretrain.tasks import Encoder

SCRIPTS = Path(__file__).parents[2] / "scripts"
GOOD, BAD = "good fine great happy", "bad poor sad awful"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(SCRIPTS))  # where Python looks when the script is run
    try:
        import compare_with_transformers

        yield compare_with_transformers
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module", params=[True, False], ids=["pooler", "no pooler"])
def encoder(request, tmp_path_factory):
    """The folder of an encoder whose weights all matter, and of labelled pairs."""
    folder = tmp_path_factory.mktemp("published")
    tokenizer = train_tokenizer([GOOD, BAD, "and 0 1 2"], TokenizerRule("wordpiece", 60))
    torch.manual_seed(0)
    network = peers.BERT | {"vocab_size": tokenizer.vocab_size, "dropout": 0.1}
    task = Encoder(peers.TransformerConfig(**network), pooler=request.param)
    task.configure_model()
    task.tokenizer_json = tokenizer.to_json()
    exported(task, folder / "encoder")
    rows = [
        {"text_a": f"{word} {n % 3}", "text_b": f"and {other}", "label": label}
        for n in range(3)
        for label, words in enumerate((BAD.split(), GOOD.split()))
        for word, other in zip(words, reversed(words), strict=True)
    ]
    for split, part in (("train", rows), ("dev", rows[:7])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


def write_recipe(folder, dropout=0.0, **changes):
    init_args = {
        "network": {"dropout": dropout, "attention_dropout": dropout},
        "lr": 1e-3,
        "optimizer": {"matrices": "adamw", "head_lr_ratio": 1.0, "weight_decay": 0.1},
        "schedule": {"kind": "linear", "warmup": 0.3},
        "finetuning": {"head_dropout": dropout},
    }
    data = {"text_field": "text_a", "pair_field": "text_b", "max_len": 16, "batch_size": 5}
    recipe = {
        "model": {"class_path": "Classification", "init_args": {**init_args, **changes}},
        "data": {"class_path": "ClassificationDataModule", "init_args": data},
        "trainer": {"max_epochs": 2, "gradient_clip_val": 0.5, "precision": "32-true"},
    }
    path = folder / "finetune_cola_pairs.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def command(folder, recipe, *options):
    return [str(folder / "encoder"), f"--source={folder}", f"--recipe={recipe}", *options]


@pytest.fixture
def plan_of(script, tmp_path):
    def read(folder, recipe):
        arguments = script.argument_parser().parse_args(command(folder, recipe))
        return script.read_plan(arguments, tmp_path)

    return read


def test_without_dropout_both_sides_become_the_same_network(script, encoder, plan_of, tmp_path):
    """Order, loss, decay, clipping, rates: all of the recipe is the same."""
    plan = plan_of(encoder, write_recipe(tmp_path))
    script.seed_everything(3, verbose=False)
    task = script.our_start(plan, script.open_data(plan))
    model = script.theirs.published(plan, task)
    before = task.classifier.weight.clone(), task.transformer.blocks[0].feed_forward.up.bias.clone()
    assert script.starting_difference(plan, task, model) < 1e-5
    ours, order = script.train_ours(plan, task, script.open_data(plan))
    theirs, other_order = script.theirs.train(plan, model, script.open_data(plan))
    assert ours == theirs
    assert sum(map(sum, ours)) == 7
    assert order.digest.digest() == other_order.digest.digest()
    assert plan.n_steps(script.open_data(plan)) == 10
    largest = (task.classifier.weight - before[0]).abs().max()
    assert largest > 1e-3
    torch.testing.assert_close(task.classifier.weight, model.classifier.weight, atol=1e-4, rtol=0)
    up = task.transformer.blocks[0].feed_forward.up.bias
    their_up = model.bert.encoder.layer[0].intermediate.dense.bias
    assert (up - before[1]).abs().max() > 1e-3
    torch.testing.assert_close(up, their_up, atol=1e-4, rtol=0)


def test_the_command_prints_a_row_for_every_seed(script, encoder, tmp_path, capsys):
    path = tmp_path / "report.json"
    recipe = write_recipe(tmp_path, dropout=0.1)
    script.main(command(encoder, recipe, "--seeds=1,2", "--max_steps=4", f"--json={path}"))
    report = json.loads(path.read_text())
    assert report["steps"] == 4
    assert report["examples"] == [24, 7]
    assert report["metric"] == "val_matthews"
    assert report["machine"]["precision"] == "32-true"
    printed = capsys.readouterr().out
    for side in ("ours", "transformers"):
        figure = report["figures"][side]["val_matthews"]
        assert figure["mean"] == pytest.approx(sum(figure["values"]) / 2)
        assert f"{figure['mean']:.4f}" in printed
    assert [line.split(" | ")[0] for line in printed.splitlines()[-5:]] == [
        "|---|---|---|---|", "| seed 1", "| seed 2", "| mean", "| standard deviation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": {"kind": "cosine"}}, "model.schedule"),
        ({"finetuning": {"layer_decay": 0.9}}, "model.finetuning"),
        ({"optimizer": {"matrices": "muon"}}, "model.optimizer"),
        ({"pooling": "mean"}, "model.pooling"),
    ],
)
def test_a_recipe_that_the_plain_loop_lacks_is_refused(script, encoder, tmp_path, changes, message):
    with pytest.raises(SystemExit, match=message):
        script.main(command(encoder, write_recipe(tmp_path, **changes)))


def test_figures_by_hand(script):
    found = script.theirs.figures([[3, 1], [2, 4]])
    assert found["val_accuracy"] == pytest.approx(0.7)
    assert found["val_matthews"] == pytest.approx((3 * 4 - 1 * 2) / (4 * 6 * 5 * 5) ** 0.5)
    assert script.theirs.figures([[0, 162], [0, 365]])["val_matthews"] == 0
