from pathlib import Path

import pytest
import yaml

from pretrain.tasks import CausalLM, Classification, FinetuningConfig, MaskedLM, OptimizerConfig
from pretrain.tasks.parameter_groups import parameter_groups

RECIPES = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
SMALL = {"vocab_size": 40, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 24, "max_len": 8}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_groups_each_parameter_once_and_decays_no_vector(recipe):
    model = yaml.safe_load(recipe.read_text())["model"]
    options = model["init_args"]
    options["network"] = {**options["network"], **SMALL}
    if model["class_path"] == "Classification":
        options["labels"] = {"kind": "single", "names": ["a", "b"]}
    classes = {"MaskedLM": MaskedLM, "CausalLM": CausalLM, "Classification": Classification}
    task = classes[model["class_path"]](**options)
    task.configure_model()
    groups = task.parameter_groups()
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted({id(p) for p in task.parameters()})
    for group in groups:
        for parameter in group["params"]:
            if parameter.ndim < 2:
                assert group["weight_decay"] == 0
            else:
                assert group["weight_decay"] == task.optimizer_config.weight_decay
    muon = [group["name"] for group in groups if group["algorithm"] == "muon"]
    assert muon == (["matrices"] if task.optimizer_config.matrices == "muon" else [])
    blocks = {id(p) for p in task.transformer.blocks.parameters() if p.ndim == 2}
    assert {id(p) for g in groups if g["name"] == "matrices" for p in g["params"]} == blocks


def finetuning(**options):
    labels = {"kind": "single", "names": ["a", "b"]}
    task = Classification(
        {**SMALL, "n_layers": 3, "linear_bias": True},
        lr=1.0,
        optimizer=OptimizerConfig(matrices="adamw", head_lr_ratio=1.0),
        finetuning=FinetuningConfig(**options),
        labels=labels,
    )
    task.configure_model()
    return task


def test_each_block_learns_at_a_share_of_the_rate_of_the_one_above_it():
    task = finetuning(layer_decay=0.5)
    rate_of = {id(p): g["lr_ratio"] for g in task.parameter_groups() for p in g["params"]}
    rates = {name: rate_of[id(p)] for name, p in task.named_parameters()}
    assert (
        rates["classifier.weight"] == rates["classifier.bias"] == rates["pooler.dense.weight"] == 1
    )
    for layer, expected in ((2, 0.5), (1, 0.25), (0, 0.125)):
        for name in ("attention.qkv.weight", "attention.qkv.bias", "feed_forward.down.weight"):
            assert rates[f"transformer.blocks.{layer}.{name}"] == expected
    assert rates["transformer.embeddings.token.weight"] == 0.0625


def test_frozen_parts_are_in_no_group():
    task = finetuning(n_frozen=2)
    grouped = {id(p) for group in task.parameter_groups() for p in group["params"]}
    learned = {name for name, p in task.named_parameters() if id(p) in grouped}
    assert not any(".embeddings." in n or ".blocks.0." in n or ".blocks.1." in n for n in learned)
    assert "transformer.blocks.2.attention.qkv.weight" in learned
    assert "classifier.weight" in learned


def test_a_router_of_experts_is_moved_by_adamw():
    task = CausalLM({**SMALL, "n_experts": 2})
    task.configure_model()
    (head,) = (group for group in parameter_groups(task, OptimizerConfig(), 1.0)
               if group["name"] == "head")  # fmt: skip
    assert any(p is task.transformer.blocks[0].feed_forward.router.weight for p in head["params"])
    assert head["algorithm"] == "adamw"
