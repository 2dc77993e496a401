from pathlib import Path
from types import SimpleNamespace

import pytest

from pretrain.cli import main
from pretrain.commands.estimate import EstimateCLI, n_processes
from pretrain.diagnostics.memory import BUCKETS, STATES
from pretrain.errors import UserError
from pretrain.tasks import CausalLM

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = ["--model.network.n_layers=2", "--model.network.d_model=32", "--model.network.n_heads=2"]


def estimate(recipe, *options):
    argv = [f"--config={CONFIGS / recipe}.yaml", "--data.source=not-read.txt", *options]
    return EstimateCLI("estimate", argv).estimate()


def test_the_command_names_every_figure_and_reads_no_text(capsys):
    main(["estimate", f"--config={CONFIGS}/gpt_mini.yaml", "--data.source=not-read.txt", *SMALL])
    said = capsys.readouterr().out
    for figure in ("Parameters", "FLOPs per token", "Tokens per step", "Time per step",
                   "Peak memory", "activations", "optimizer states", "Checkpoint"):  # fmt: skip
        assert figure in said


def test_parameters_and_flops_are_those_of_the_network():
    found = estimate("gpt_mini", *SMALL)
    network = {"vocab_size": 8192, "n_layers": 2, "d_model": 32, "n_heads": 2}
    task = CausalLM(network=network)
    task.configure_model()
    assert sum(found.parameters.values()) == sum(p.numel() for p in task.parameters())
    assert found.flops_per_token == task.flops_per_token(256)


def test_tokens_of_a_step_are_those_of_all_processes():
    found = estimate(
        "gpt_mini", *SMALL, "--trainer.accumulate_grad_batches=4", "--trainer.devices=3"
    )
    assert found.tokens_per_step == 16 * 256 * 4 * 3


def test_the_masking_rate_counts_in_the_head():
    rare = estimate("bert_tiny", *SMALL, "--data.masking.rate=0.1")
    often = estimate("bert_tiny", *SMALL, "--data.masking.rate=0.4")
    assert often.flops_per_token > rare.flops_per_token
    assert often.memory.peak > rare.memory.peak


@pytest.mark.parametrize("recipe", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_every_recipe_can_be_estimated(recipe):
    options = ["--data.tokenizer.kind=wordpiece"] if recipe.startswith("finetune") else []
    # The wide ones keep their width: too large to be built here, which is the point.
    wide = recipe in ("bert_base", "gpt2_124m")
    options += ["--model.network.n_layers=2"] if wide else SMALL
    found = estimate(recipe, *options)
    assert found.memory.peak > found.memory.kept > 0


def test_characters_that_are_not_counted_yet_are_assumed_and_said():
    assert "characters is assumed" in estimate("gpt_shakespeare_char").notes[0]
    assert not estimate("gpt_shakespeare_char", "--model.network.vocab_size=66").notes


def test_without_a_tokenizer_it_is_told():
    with pytest.raises(UserError, match="No tokenizer is known"):
        estimate("finetune_sst2")


@pytest.mark.parametrize(("devices", "expected"), [("auto", 1), (2, 2), ("2", 2), ([0, 1, 2], 3)])
def test_processes_are_devices_times_nodes(devices, expected):
    options = SimpleNamespace(devices=devices, accelerator="cpu", num_nodes=2)
    assert n_processes(options) == 2 * expected


def test_divided_over_processes_each_holds_its_part():
    whole = estimate("gpt_mini", *SMALL).memory.parts
    shared = estimate("gpt_mini", *SMALL, "--trainer.devices=4", "--trainer.strategy=fsdp2")
    assert shared.memory.parts[STATES] == -(-whole[STATES] // 4)
    assert BUCKETS not in shared.memory.parts
    assert shared.memory.kept == estimate("gpt_mini", *SMALL).memory.kept  # the file is whole
    plain = estimate("gpt_mini", *SMALL, "--trainer.devices=4").memory.parts
    assert plain[STATES] == whole[STATES]
    assert BUCKETS in plain
