"""Two processes train as one does, and end together whatever befalls one of them."""

import csv
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from pretrain.runs.card_reader import read_card
from pretrain.tasks.loading import load_task

RECIPE = """
model:
  class_path: CausalLM
  init_args:
    network: {d_model: 16, n_layers: 2, n_heads: 2, max_len: 32}
    schedule: {kind: constant_then_linear, stable_share: 1.0}
data:
  class_path: CausalLMDataModule
  init_args: {tokenizer: {kind: char}, seq_len: 16, batch_size: 4}
trainer:
  max_steps: 6
  accelerator: cpu
  precision: 32-true
  log_every_n_steps: 1
  gradient_clip_val: 1.0
  limit_val_batches: 2
  enable_progress_bar: false
  logger: false
"""
RTOL = 1e-4  # of sums in another order, behind Muon's products in bf16
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranks")
    draw = random.Random(1)
    words = ["tea", "ship", "river", "stone", "wind", "bread", "the", "a", "old", "small"]
    lines = (" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(200))
    (place / "corpus.txt").write_text("\n".join(lines) + "\n")
    (place / "gpt.yaml").write_text(RECIPE)
    return place


def _start(place, name, *options, launcher=("-m", "pretrain")):
    command = [
        "fit", "--config", str(place / "gpt.yaml"), "--run_name", name, "--ckpt_path", "last",
        "--runs_dir", str(place / "runs"), "--data.source", str(place / "corpus.txt"),
        "--seed_everything", "3", *options,
    ]  # fmt: skip
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, *launcher, *command],
        env=os.environ | {"OMP_NUM_THREADS": "1", "HOME": str(place), "PYTHONPATH": path,
                          "XDG_CACHE_HOME": str(place / "cache")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        # Where the tests run in the background, the shell has made them deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


def _ended(process, limit_s=120):
    try:
        output, _ = process.communicate(timeout=limit_s)
    finally:
        process.kill()  # its ranks follow
    return process.returncode, output


def _two(strategy="ddp"):
    return "--trainer.devices=2", f"--trainer.strategy={strategy}", "--data.batch_size=2"


def _losses(run):
    with (run / "metrics.csv").open(newline="") as file:
        return [float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]]


def _children_of(name):
    """Processes that train this run still, by what they were called with."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if name.encode() in words and b"fit" in words:
            found.append(entry.parent.name)
    return found


@pytest.fixture(scope="module")
def alone(place):
    status, output = _ended(_start(place, "alone"))
    assert status == 0, output
    return place / "runs" / "alone"


@pytest.mark.parametrize(
    ("name", "strategy", "options"),
    [
        ("ddp", "ddp", []),
        ("fsdp2", "fsdp2", []),
        ("recomputing", "fsdp2", ["--model.activation_checkpointing=true"]),
    ],
)
def test_two_processes_train_as_one_and_one_goes_on_from_their_file(
    place, alone, name, strategy, options
):
    together = (*_two(strategy), *options, "--trainer.max_steps=4")
    status, output = _ended(_start(place, name, *together))
    assert status == 0, output
    run = place / "runs" / name
    assert _losses(run) == pytest.approx(_losses(alone)[:4], rel=RTOL)
    assert load_task(str(run / "checkpoints" / "last.ckpt")).transformer is not None
    status, output = _ended(_start(place, name))
    assert status == 0, output
    assert _losses(run) == pytest.approx(_losses(alone), rel=RTOL)


def test_an_error_in_one_rank_ends_all_and_is_told_once(place):
    fault = ("--trainer.callbacks+=rank_faults.Fault", "--trainer.callbacks.how=exception")
    begun = time.monotonic()
    status, output = _ended(_start(place, "faulty", *_two(), *fault))
    assert status == 1, output
    assert time.monotonic() - begun < 90  # most of it to start
    assert output.count("ValueError: a fault of rank one alone") == 1
    assert _children_of("faulty") == []
    last = place / "runs" / "faulty" / "checkpoints" / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == 3  # at a validation


def test_a_signal_to_one_rank_stops_all_behind_the_same_step(place):
    fault = ("--trainer.callbacks+=rank_faults.Fault", "--trainer.callbacks.how=SIGTERM")
    status, output = _ended(_start(place, "told", *_two(), *fault))
    assert status == 143, output
    assert "Traceback" not in output
    run = place / "runs" / "told"
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == 4
    assert read_card(run)["status"] == "interrupted"
    assert _children_of("told") == []


def test_ctrl_c_leaves_no_process_behind(place):
    process = _start(place, "forever", *_two(), "--trainer.max_steps=100000")
    last = place / "runs" / "forever" / "checkpoints" / "last.ckpt"
    deadline = time.monotonic() + 90
    while not last.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    status, output = _ended(process, limit_s=60)
    assert status == 130, output
    assert _children_of("forever") == []
    torch.load(last, weights_only=True)


def test_torchrun_starts_them_as_well(place, alone):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
                "-m", "pretrain")  # fmt: skip
    status, output = _ended(_start(place, "torchrun", *_two(), launcher=launcher))
    assert status == 0, output
    assert _losses(place / "runs" / "torchrun") == pytest.approx(_losses(alone), rel=RTOL)
