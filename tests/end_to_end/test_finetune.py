"""From a pretrained checkpoint to labels, through the command line."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from tiny import SHAPE

from pretrain.cli import main
from pretrain.data import TokenizerRule
from pretrain.data.tokenizer_training import train_tokenizer
from pretrain.runs.card_reader import read_card
from pretrain.tasks import CausalLM, MaskedLM, load_task, save_task

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = ["--data.batch_size=4", "--trainer.max_epochs=-1", "--trainer.max_steps=4"]
GOOD, BAD = "good fine great happy", "bad poor sad awful"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Labelled sentences and pairs, and a checkpoint of each kind that knows their words."""
    folder = tmp_path_factory.mktemp("finetune")
    texts = [
        (f"{word} {other} {n}", label)
        for n in range(6)
        for label, words in enumerate((BAD, GOOD))
        for word, other in zip(words.split(), reversed(words.split()), strict=True)
    ]
    for split, part in (("train", texts[:40]), ("dev", texts[40:])):
        rows = [{"text": t, "text_a": t, "text_b": t[::-1], "label": y} for t, y in part]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, task_class, rule in (
        ("bert", MaskedLM, TokenizerRule("wordpiece", 60)),
        ("gpt", CausalLM, TokenizerRule("bpe", 300)),
    ):
        tokenizer = train_tokenizer([text for text, _ in texts], rule)
        torch.manual_seed(0)
        task = task_class(network={**SHAPE, "vocab_size": tokenizer.vocab_size})
        task.configure_model()
        task.tokenizer_json = tokenizer.to_json()
        save_task(task, folder / f"{name}.ckpt")
    return folder


@pytest.fixture(autouse=True)
def _alone(monkeypatch, folder):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("WANDB_MODE", "disabled")


def finetune(recipe, folder, runs, name, start="bert", *options):
    return [
        "fit", f"--config={CONFIGS / f'{recipe}.yaml'}", f"--init_from={folder / f'{start}.ckpt'}",
        f"--run_name={name}", f"--runs_dir={runs}", f"--data.source={folder}", *SMALL, *options,
    ]  # fmt: skip


@pytest.mark.parametrize("start", ["bert", "gpt"])
@pytest.mark.parametrize("recipe", ["finetune_sst2", "finetune_cola", "finetune_rte"])
def test_a_recipe_fine_tunes_either_kind(recipe, start, folder, tmp_path):
    main(finetune(recipe, folder, tmp_path, "r", start))
    card = read_card(tmp_path / "r")
    assert card["status"] == "finished"
    for name in ("val_accuracy", "val_f1", "val_matthews"):
        assert -1 <= card[name] <= 1
    lines = [json.loads(line) for line in (tmp_path / "r" / "predictions.jsonl").open()]
    assert len(lines) == 8
    right = sum(line["label"] == line["predicted"]["label"] for line in lines)
    assert card["val_accuracy"] == pytest.approx(right / 8)
    assert ("pair" in lines[0]) == (recipe == "finetune_rte")
    assert (tmp_path / "r" / "confusion.svg").read_text().startswith("<svg")
    task = load_task(str(tmp_path / "r" / "checkpoints" / "last.ckpt"))
    assert task.causal == (start == "gpt")
    assert task.labels.names == ("0", "1")


def test_every_fine_tuning_recipe_says_what_it_is():
    for recipe in sorted(CONFIGS.glob("finetune_*.yaml")):
        content = yaml.safe_load(recipe.read_text())
        assert recipe.read_text().startswith("# ")
        assert content["model"]["class_path"] == "Classification"


def test_one_command_trains_several_seeds_and_tells_their_spread(folder, tmp_path, capsys):
    main(finetune("finetune_sst2", folder, tmp_path, "s", "bert", "--seeds=1,2"))
    figures = json.loads((tmp_path / "s-seeds.json").read_text())["figures"]
    cards = [read_card(tmp_path / f"s-seed{seed}") for seed in (1, 2)]
    assert figures["val_accuracy"]["values"] == [card["val_accuracy"] for card in cards]
    assert cards[0]["train_loss_nats"] != cards[1]["train_loss_nats"]
    assert "val_accuracy" in capsys.readouterr().out


def test_a_classifier_can_be_used_in_every_way(folder, tmp_path, capsys):
    main(finetune("finetune_sst2", folder, tmp_path, "r"))
    config, checkpoint = (
        tmp_path / "r" / "config.yaml",
        tmp_path / "r" / "checkpoints" / "last.ckpt",
    )
    expected = [json.loads(line) for line in (tmp_path / "r" / "predictions.jsonl").open()]
    capsys.readouterr()

    main(["classify", str(checkpoint), f"--file={folder / 'dev.jsonl'}", "--batch_size=3"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == [line["text"] for line in expected]
    for line, other in zip(lines, expected, strict=True):
        assert line["label"] == other["predicted"]["label"]
        # bf16 where the run had it, float32 here
        assert line["probabilities"] == pytest.approx(other["predicted"]["probabilities"], abs=0.02)

    main(["classify", str(checkpoint), "good\nfine", "bad sad"])
    assert [line.split()[-2:] for line in capsys.readouterr().out.splitlines()] == [
        ["good", "fine"], ["bad", "sad"],
    ]  # fmt: skip

    options = [f"--config={config}", f"--ckpt_path={checkpoint}"]
    main(["validate", *options])
    assert "val/matthews" in capsys.readouterr().out
    main(["predict", *options])
    assert len(capsys.readouterr().out.splitlines()) == 8


def test_a_run_goes_on_and_keeps_its_labels(folder, tmp_path):
    command = finetune("finetune_sst2", folder, tmp_path, "r")
    main(command)
    again = [word for word in command if not word.startswith("--trainer.max_steps")]
    main([*again, "--trainer.max_steps=6", "--ckpt_path=last"])
    assert read_card(tmp_path / "r")["steps"] == 6


def test_a_finished_run_of_epochs_has_nothing_to_do(folder, tmp_path, capsys):
    command = finetune("finetune_sst2", folder, tmp_path, "r")
    epochs = [word for word in command if not word.startswith("--trainer")]
    main([*epochs, "--trainer.max_epochs=1"])
    card = (tmp_path / "r" / "summary.json").read_text()
    main([*epochs, "--trainer.max_epochs=1", "--ckpt_path=last"])
    assert "nothing to do" in capsys.readouterr().out
    assert (tmp_path / "r" / "summary.json").read_text() == card
    main([*epochs, "--trainer.max_epochs=2", "--ckpt_path=last"])
    assert read_card(tmp_path / "r")["steps"] == 20


def test_a_classifier_is_fine_tuned_further_on_other_labels(folder, tmp_path):
    main(finetune("finetune_sst2", folder, tmp_path, "first"))
    rows = [json.loads(line) for line in (folder / "train.jsonl").open()]
    renamed = "".join(json.dumps({**row, "label": ["no", "yes"][row["label"]]}) + "\n"
                      for row in rows)  # fmt: skip
    (tmp_path / "renamed.jsonl").write_text(renamed)
    first = tmp_path / "first" / "checkpoints" / "last.ckpt"
    main([
        *finetune("finetune_sst2", folder, tmp_path, "second"), f"--init_from={first}",
        f"--data.source={tmp_path / 'renamed.jsonl'}",
    ])  # fmt: skip
    task = load_task(str(tmp_path / "second" / "checkpoints" / "last.ckpt"))
    assert task.labels.names == ("no", "yes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bert.ckpt", "a"], "is no classifier"),
        (["bert.ckpt"], "Give the texts"),
        (["bert.ckpt", "a", "--file", "b"], "one of the two"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message, folder, capsys):
    arguments = [str(folder / arguments[0]), *arguments[1:]]
    with pytest.raises(SystemExit):
        main(["classify", *arguments])
    assert message in capsys.readouterr().err
