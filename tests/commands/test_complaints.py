import pytest
import torch

from pretrain.commands.fit import FitCLI
from pretrain.errors import UserError

RECIPE = """
model: {class_path: CausalLM, init_args: {network: {d_model: 16, n_layers: 1, n_heads: 2}}}
data: {class_path: CausalLMDataModule, init_args: {tokenizer: {kind: char}, seq_len: 8}}
trainer: {accelerator: cpu, max_steps: 2, logger: false}
"""


@pytest.fixture
def complaint(tmp_path):
    """What is said of a recipe with the given options and, on top, the given configuration."""

    def ask(*options: str, extra: str | None = None) -> str:
        files = {"recipe.yaml": RECIPE, "extra.yaml": extra}
        arguments = ["--runs_dir", str(tmp_path / "runs")]
        for name, text in files.items():
            if text is not None:
                (tmp_path / name).write_text(text)
                arguments += ["--config", str(tmp_path / name)]
        with pytest.raises(UserError) as refused:
            FitCLI([*arguments, *options])
        assert not (tmp_path / "runs").exists()
        return str(refused.value)

    return ask


@pytest.mark.parametrize(
    ("options", "nearest"),
    [
        (["--trainer.max_step", "3"], "trainer.max_steps"),
        (["--model.network.d_modl", "3"], "model.network.d_model"),
        (["--model.learning_rte", "3"], None),
        (["--data.tokenizer.knd", "bpe"], "data.tokenizer.kind"),
        (["--runname", "x"], "run_name"),
        (["--seed_everithing", "1"], "seed_everything"),
    ],
)
def test_a_mistyped_option_gets_the_nearest_right_one(complaint, options, nearest):
    said = complaint(*options)
    assert said.startswith(f"There is no key {options[0][2:]}")
    assert (f"did you mean {nearest}?" if nearest else "--help") in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("extra", "nearest"),
    [
        ("trainer: {max_step: 3}", "trainer.max_steps"),
        ("trainr: {max_steps: 3}", "trainer.max_steps"),
        ("fit: {trainer: {max_steps: 3}}", "trainer.max_steps"),
        ("model: {init_args: {network: {norm_positon: pre}}}", "model.network.norm_position"),
        ("model: {init_args: {lrr: 3}}", "model.lr"),
        ("model: {class_path: CausalLMs}", "CausalLM"),
        ("data: {init_args: {tokenizer: {knd: bpe}}}", "data.tokenizer.kind"),
    ],
)
def test_a_mistyped_key_in_a_file_gets_the_nearest_right_one(complaint, extra, nearest):
    said = complaint(extra=extra)
    assert f"did you mean {nearest}?" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("options", "key", "value", "must_be"),
    [
        (["--trainer.max_steps", "1.5"], "trainer.max_steps", "1.5", "a whole number"),
        (["--model.lr", "fast"], "model.lr", "fast", "a number"),
        (["--trainer.precision", "half"], "trainer.precision", "half", "one of auto, bf16-mixed"),
        (["--model.network.norm", "batch"], "model.network.norm", "batch", "one of rmsnorm"),
        (["--data.source", "[1]"], "data.source", "[1]", "text"),
        (["--data.tokenizer.kind", "word"], "data.tokenizer.kind", "word", "one of wordpiece"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_key(complaint, options, key, value, must_be):
    said = complaint(*options)
    assert said.startswith(f"{key} is ")
    assert value in said
    assert must_be in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("foo: [", "no valid YAML in line"),
        ("trainer: 3", "trainer is 3, but must hold keys of its own."),
        ("model: {init_args: {network: {d_model: 15}}}", "not divisible by n_heads"),
        ("- a", "one holds - a."),
        ("", "one holds nothing."),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_in_one_sentence(complaint, extra, message):
    said = complaint(extra=extra)
    assert message in said
    assert "\n" not in said


def test_a_stray_word_a_missing_file_and_no_recipe(complaint, tmp_path):
    assert "'stray' is not an option" in complaint("stray")
    assert "nofile.yaml: there is no such file" in complaint("--config", "nofile.yaml")
    assert "is not a file" in complaint("--config", str(tmp_path))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    assert "no UTF-8 text" in complaint("--config", str(tmp_path / "binary.yaml"))
    with pytest.raises(UserError, match=r"--config configs/"):
        FitCLI([])


def test_options_that_contradict_each_other_are_refused(complaint):
    assert "give one of them" in complaint("--init_from", "a.ckpt", "--ckpt_path", "b.ckpt")
    assert "at least 1 step" in complaint("--trainer.max_steps", "0")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_device_that_is_not_there_is_one_sentence(complaint):
    said = complaint("--trainer.accelerator", "cuda", "--trainer.precision", "32-true")
    assert "CUDA" in said
    assert "\n" not in said


def test_options_are_not_abbreviated(complaint):
    assert "trainer.max_epoch:" in complaint("--trainer.max_epoch", "3")
    for option in ("--model.network.n_layer", "--model.init_args.network.n_layer"):
        assert "did you mean model" in complaint(option, "3")
    assert "data.seq_len?" in complaint("--data.seq_le=9")
