from pathlib import Path

import pytest
import yaml

from pretrain.tasks import CausalLM, MaskedLM
from pretrain.tasks.parameter_groups import parameter_groups

RECIPES = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
SMALL = {"vocab_size": 40, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 24, "max_len": 8}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_groups_each_parameter_once_and_decays_no_vector(recipe):
    model = yaml.safe_load(recipe.read_text())["model"]
    options = model["init_args"]
    options["network"] = {**options["network"], **SMALL}
    task = {"MaskedLM": MaskedLM, "CausalLM": CausalLM}[model["class_path"]](**options)
    task.configure_model()
    groups = parameter_groups(task, task.optimizer_config, task.lr)
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
