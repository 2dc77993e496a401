import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch.loggers.logger import DummyLogger
from tiny import KINDS, ROWS, fit, make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.runs.folder import RunFolder
from pretrain.runs.run_files import RunFiles
from pretrain.runs.samples import Samples
from pretrain.runs.samples_file import read

TEXT = "abcdefghijklmnopqrstuvwxyz the cat sat on the mat. a dog ran in the sun. "
KIND = {"clm": TokenizerRule("bpe", 300), "mlm": TokenizerRule("wordpiece", 60)}


class Tables(DummyLogger):
    """Keeps the tables that it is given."""

    def __init__(self):
        super().__init__()
        self.tables = []

    def log_table(self, *table):
        self.tables.append(table)


def speaking(kind, **options):
    """A tiny task that knows a tokenizer, with dropout, so that random numbers matter."""
    tokenizer = train_tokenizer([TEXT] * 3, KIND[kind])
    network = {"vocab_size": tokenizer.vocab_size, "dropout": 0.2}
    task = make_task(kind, network=network, **options)
    task.tokenizer_json = tokenizer.to_json()
    return task, tokenizer


def trained(kind, callbacks=(), task=None, **options):
    task = task or speaking(kind)[0]
    rows = ROWS[kind]([16] * 4)
    torch.manual_seed(3)
    options = {"val_check_interval": 2, "precision": "bf16-mixed", **options}
    fit(task, [rows] * 4, [rows, rows], callbacks=list(callbacks), **options)
    return task


def folder_in(tmp_path):
    folder = RunFolder(tmp_path)
    return folder, RunFiles(folder, lambda uses_cache: "", {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"accumulate_grad_batches": 2}], ids=["plain", "accumulated"]
)
def test_a_training_is_bit_equal_with_and_without(kind, options, tmp_path):
    without = trained(kind, **options)
    with_samples = trained(kind, [Samples(), folder_in(tmp_path)[1]], **options)
    assert read(RunFolder(tmp_path).samples)
    for name, weight in without.state_dict().items():
        assert torch.equal(weight, with_samples.state_dict()[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_each_validation_adds_lines_to_the_run_and_a_table_to_its_loggers(kind, tmp_path):
    folder, files = folder_in(tmp_path)
    tables = Tables()
    trained(kind, [Samples(n_tokens=5), files], logger=tables)
    samples = read(folder.samples)
    assert [sample["step"] for sample in samples] == [2, 2, 2, 4, 4, 4]
    assert [(name, step) for name, _, _, step in tables.tables] == [
        ("samples/texts", 2),
        ("samples/texts", 4),
    ]
    _, columns, rows, _ = tables.tables[-1]
    assert [dict(zip(columns, row, strict=True)) for row in rows] == [
        {name: value for name, value in sample.items() if name != "step"} for sample in samples[3:]
    ]


def test_a_causal_model_goes_on_with_the_first_tokens_of_the_rows():
    task, tokenizer = speaking("clm")
    rows = ROWS["clm"]([16, 16, 3])
    samples = Samples(n_tokens=6).texts(task.eval(), rows)
    ids = rows["input_ids"].tolist()
    lengths = (8, 8, 2)  # the last one has two tokens with a target
    assert [sample["prompt"] for sample in samples] == [
        tokenizer.decode(row[:n]) for row, n in zip(ids, lengths, strict=True)
    ]
    again = Samples(n_tokens=6).texts(task, rows)
    assert again == samples  # drawn with a fixed seed
    assert samples[0]["greedy"] != samples[0]["sampled"]


def test_a_masked_model_shows_truth_and_likeliest_guess():
    task, tokenizer = speaking("mlm")
    task.eval()
    rows = ROWS["mlm"]([16, 16])
    first, second = Samples().texts(task, rows)
    places, truths = rows["masked_positions"][4:] - 16, rows["labels"][4:]  # of the second row
    with torch.no_grad():
        logits = task(rows["input_ids"], rows["attention_mask"])[1, places].float()
    logits[:, list(tokenizer.special_ids)] = -torch.inf
    best = logits.softmax(-1).max(-1)
    for truth, guess, probability in zip(truths, best.indices, best.values, strict=True):
        names = [tokenizer.decode([int(token)]) for token in (truth, guess)]
        assert f"[{names[0]} -> {names[1]} {probability:.0%}]" in second["text"]
    assert first["hidden"] == second["hidden"] == 4
    assert second["right"] == int((truths == best.indices).sum())


def test_own_prompts_take_the_place_of_the_rows():
    task, _ = speaking("clm")
    rows = ROWS["clm"]([16])
    (sample,) = Samples(prompts=["the cat"], n_tokens=3).texts(task.eval(), rows)
    assert sample["prompt"] == "the cat"
    task, _ = speaking("mlm")
    (filled,) = Samples(prompts=["the [MASK] sat"]).texts(task.eval(), ROWS["mlm"]([16]))
    assert filled["prompt"] == "the [MASK] sat"
    assert filled["guesses"].endswith("%")


def test_a_compiled_network_is_sampled_too(tmp_path):
    folder, files = folder_in(tmp_path)
    task, _ = speaking("clm")
    task.transformer.compile(backend="eager")
    trained("clm", [Samples(), files], task)
    assert len(read(folder.samples)) == 6


def test_what_can_not_be_sampled_is_said_and_stops_nothing(tmp_path, caplog):
    folder, files = folder_in(tmp_path)
    with caplog.at_level("INFO"):
        trained("mlm", [Samples(prompts=["no mask here"]), files])
    told = [line for line in caplog.messages if line.startswith("No samples at step")]
    assert len(told) == 1
    assert read(folder.samples) == []


def test_no_prompt_or_no_token_is_refused():
    for options in ({"prompts": []}, {"n_tokens": 0}):
        with pytest.raises(UserError, match="at least 1 of each"):
            Samples(**options)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_the_first_of_two_ranks_writes_unless_weights_are_divided(tmp_path, strategy):
    script = Path(__file__).with_name("two_ranks_with_samples.py")
    paths = [str(script.parents[1]), str(script.parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(script), str(tmp_path), strategy]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [sample["step"] for sample in read(RunFolder(tmp_path).samples)]
    assert steps == ([] if strategy == "fsdp2" else [2, 2, 4, 4])
    assert ("No samples are written" in done.stdout + done.stderr) == (strategy == "fsdp2")
