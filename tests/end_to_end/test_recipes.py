"""Every recipe in configs/ trains, with its sizes shrunk and nothing else changed."""

from pathlib import Path

import pytest
import yaml

from pretrain.cli import main
from pretrain.runs.card_reader import read_card

RECIPES = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
FINETUNING = [path for path in RECIPES if path.stem.startswith("finetune_")]
PRETRAINING = [path for path in RECIPES if path not in FINETUNING]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "and",
        "then",
        "sleeps",
        "under",
        "an",
        "old",
        "tree",
    ]
    lines = [" ".join(words[(i * 7 + j * (i % 5 + 1)) % len(words)] for j in range(12))
             for i in range(300)]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("recipe", PRETRAINING, ids=lambda path: path.stem)
def test_the_recipe_trains(recipe, corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(corpus.parent / "cache"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    content = yaml.safe_load(recipe.read_text())
    options = [
        "--model.network.n_layers=1", "--model.network.n_heads=2", "--model.network.d_model=16",
        "--data.seq_len=16", "--data.batch_size=2", "--data.num_workers=0",
        "--trainer.max_steps=3", "--trainer.accumulate_grad_batches=2",
        f"--data.source={corpus}",
    ]  # fmt: skip
    if "d_ff" in content["model"]["init_args"]["network"]:
        options.append("--model.network.d_ff=24")
    if content["model"]["init_args"].get("schedule", {}).get("warmup"):
        options.append("--model.schedule.warmup=1")
    rule = content["data"]["init_args"]["tokenizer"]
    if "vocab_size" in rule:
        options.append("--data.tokenizer.vocab_size=300")

    main(["fit", f"--config={recipe}", "--run_name=r", f"--runs_dir={tmp_path}", *options])

    card = read_card(tmp_path / "r")
    assert card["status"] == "finished"
    assert card["steps"] == 3
    assert card["val_loss_nats"] > 0


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_the_recipe_opens_with_a_line_that_says_what_it_trains(recipe):
    assert recipe.read_text().startswith("# ")


def parameters(recipe, vocab_size):
    from pretrain.tasks import CausalLM

    options = yaml.safe_load(recipe.read_text())["model"]["init_args"]
    task = CausalLM(**{**options, "network": {**options["network"], "vocab_size": vocab_size}})
    task.configure_model()
    return sum(parameter.numel() for parameter in task.parameters())


def test_the_modern_character_recipe_spends_no_more_than_the_classic_one():
    folder = RECIPES[0].parent
    classic = folder / "gpt_shakespeare_char.yaml"
    modern = folder / "gpt_shakespeare_char_modern.yaml"
    assert parameters(modern, 66) <= 1.02 * parameters(classic, 66)
    settings = [yaml.safe_load(path.read_text()) for path in (classic, modern)]
    assert settings[0]["data"] == settings[1]["data"]
    assert settings[0]["trainer"] == settings[1]["trainer"]
