"""The command line from a recipe to a finished run, with models that train in a moment."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml
from wandb_runs import history

from pretrain.cli import main
from pretrain.runs.card import MEASURED
from pretrain.runs.card_reader import read_card

NETWORK = "network: {d_model: 16, n_layers: 2, n_heads: 2, max_len: 32}"
GPT = f"""
model: {{class_path: CausalLM, init_args: {{{NETWORK}}}}}
data:
  class_path: CausalLMDataModule
  init_args: {{tokenizer: {{kind: char}}, seq_len: 16, batch_size: 4}}
trainer: {{max_steps: 10, log_every_n_steps: 1, accelerator: cpu, precision: auto}}
"""
BERT = f"""
model: {{class_path: MaskedLM, init_args: {{{NETWORK}}}}}
data:
  class_path: MaskedLMDataModule
  init_args: {{tokenizer: {{kind: wordpiece, vocab_size: 200}}, seq_len: 16, batch_size: 4}}
trainer: {{max_steps: 6, log_every_n_steps: 1, accelerator: cpu, precision: auto}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a corpus and two recipes, and an empty home."""
    place = tmp_path_factory.mktemp("fit")
    draw = random.Random(1)
    words = ["tea", "ship", "river", "stone", "wind", "bread", "the", "a", "old", "small"]
    lines = (" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(400))
    (place / "corpus.txt").write_text("\n".join(lines) + "\n")
    (place / "gpt.yaml").write_text(GPT)
    (place / "bert.yaml").write_text(BERT)
    return place


@pytest.fixture(autouse=True)
def _empty_home(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def _command(place, recipe: str, name: str, *options: str) -> list[str]:
    return [
        "fit", "--config", str(place / recipe), "--run_name", name,
        "--runs_dir", str(place / "runs"), "--data.source", str(place / "corpus.txt"),
        "--seed_everything", "3", *options,
    ]  # fmt: skip


def _fit(place, recipe: str, name: str, *options: str):
    main(_command(place, recipe, name, *options))
    return place / "runs" / name


def _written(run) -> dict[str, int]:
    """When each file of a run was written; W&B's service may still be closing its own."""
    files = [*run.glob("*.*"), *run.glob("checkpoints/*")]
    return {str(path): path.stat().st_mtime_ns for path in files}


def _rows(run) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _losses(run) -> dict[int, str]:
    return {int(row["step"]): row["train/loss"] for row in _rows(run) if row["train/loss"]}


@pytest.fixture(scope="module")
def gpt(place):
    """A finished run; tests must not change it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(place))
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        return _fit(place, "gpt.yaml", "gpt")


def test_a_run_leaves_a_complete_home(gpt):
    card = read_card(gpt)
    assert card["status"] == "finished"
    absent = {key for key in MEASURED if card[key] is None}
    assert absent == {"val_masked_accuracy"}  # which a causal model has not
    assert card["steps"] == 10
    assert card["tokens_seen"] == 10 * 4 * 16
    assert (gpt / "tokenizer.json").is_file()
    last = torch.load(gpt / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["global_step"] == 10
    assert torch.load(gpt / "checkpoints" / "best.ckpt", weights_only=True)["global_step"] > 0
    config = yaml.safe_load((gpt / "config.yaml").read_text())
    assert config["trainer"]["precision"] == card["precision"] != "auto"
    assert config["data"]["init_args"]["cache"] is True


def test_metrics_hold_every_layer_from_step_0_on(gpt):
    rows = _rows(gpt)
    steps = [int(row["step"]) for row in rows]
    assert steps == sorted(set(steps)) == list(range(11))
    assert rows[0]["val/loss"]
    assert set(_losses(gpt)) == set(range(1, 11))
    for layer in (0, 1):
        assert any(row[f"attention/entropy/layer_{layer}/head_1"] for row in rows)
        assert any(row[f"ffn/dead_share/layer_{layer}"] for row in rows)
    assert float(rows[-1]["final/val/loss"]) == pytest.approx(read_card(gpt)["val_loss_nats"])


def test_the_offline_dashboard_holds_the_same_series(gpt):
    names = {name for row in history(gpt) for name in row["item"]}
    for name in ("train/loss", "val/loss", "attention/entropy/layer_1/head_0",
                 "ffn/dead_share/layer_1", "trainer/global_step", "lr"):  # fmt: skip
        assert name in names


def test_a_masked_model_reports_its_accuracy(place):
    card = read_card(_fit(place, "bert.yaml", "bert", "--trainer.logger", "false"))
    assert 0 <= card["val_masked_accuracy"] <= 1
    assert card["val_bits_per_byte"] is None
    assert card["val_target_tokens"] > 0


def test_the_same_name_again_is_refused(place, gpt, capsys):
    before = _written(gpt)
    with pytest.raises(SystemExit) as stop:
        _fit(place, "gpt.yaml", "gpt")
    assert stop.value.code == 1
    assert "--ckpt_path last" in capsys.readouterr().err
    assert before == _written(gpt)


def test_a_finished_run_has_nothing_to_do(place, gpt, capsys):
    before = (gpt / "metrics.csv").read_bytes()
    _fit(place, "gpt.yaml", "gpt", "--ckpt_path", "last")
    assert "nothing to do" in capsys.readouterr().out
    assert (gpt / "metrics.csv").read_bytes() == before


def test_its_configuration_repeats_a_run(place, gpt):
    runs = place / "runs"
    again = ["--run_name", "again", "--runs_dir", str(runs), "--trainer.logger", "false"]
    main(["fit", "--config", str(gpt / "config.yaml"), *again])
    assert _losses(runs / "again") == _losses(gpt)
    assert read_card(runs / "again")["val_loss_nats"] == read_card(gpt)["val_loss_nats"]
    assert read_card(runs / "again")["recipe"] == "gpt"


def test_a_longer_run_goes_on_and_no_step_is_doubled(place, gpt, capsys):
    run = place / "runs" / "longer"
    shutil.copytree(gpt, run, ignore=shutil.ignore_patterns("wandb"))
    longer = ("--ckpt_path", "last", "--trainer.max_steps", "14", "--trainer.logger", "false")
    _fit(place, "gpt.yaml", "longer", *longer)
    steps = [int(row["step"]) for row in _rows(run)]
    assert steps == list(range(15))
    assert _losses(run)[10] == _losses(gpt)[10]
    card = read_card(run)
    assert (card["steps"], card["tokens_seen"]) == (14, 14 * 4 * 16)
    assert card["wall_time_s"] > read_card(gpt)["wall_time_s"]


def test_last_without_a_run_starts_at_step_0(place, capsys):
    run = _fit(place, "gpt.yaml", "first", "--ckpt_path", "last", "--trainer.max_steps", "2",
               "--trainer.logger", "false")  # fmt: skip
    assert "starting at step 0" in capsys.readouterr().out
    assert read_card(run)["steps"] == 2


def test_a_new_run_starts_from_a_checkpoint(place, gpt):
    best = str(gpt / "checkpoints" / "best.ckpt")
    (place / "open.yaml").write_text(GPT.replace(f"{NETWORK}", ""))  # no architecture of its own
    run = _fit(place, "open.yaml", "tuned", "--init_from", best, "--trainer.max_steps", "2",
               "--data.tokenizer.kind", "bpe", "--trainer.logger", "false")  # fmt: skip
    assert (run / "tokenizer.json").read_text() == (gpt / "tokenizer.json").read_text()
    start, tuned = float(_rows(run)[0]["val/loss"]), read_card(gpt)["best_val_loss_nats"]
    assert start == pytest.approx(tuned, rel=1e-5)
    network = yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]["network"]
    assert network["d_model"] == 16


def test_a_contradicting_architecture_is_refused_with_both_values(place, gpt, capsys):
    best = str(gpt / "checkpoints" / "best.ckpt")
    options = ("--init_from", best, "--model.network.d_model", "32")
    with pytest.raises(SystemExit):
        _fit(place, "gpt.yaml", "wrong", *options)
    assert "d_model is 32, but" in capsys.readouterr().err
    assert not (place / "runs" / "wrong").exists()


def test_nothing_is_made_for_data_that_cannot_be_read(place, capsys):
    with pytest.raises(SystemExit):
        _fit(place, "gpt.yaml", "nodata", "--data.source", str(place / "nowhere.txt"))
    assert "nowhere.txt" in capsys.readouterr().err
    assert not (place / "runs" / "nodata").exists()


def test_records_that_were_skipped_are_counted_in_the_card(place):
    rows = [json.dumps({"text": f"a small stone and bread {n}"}) for n in range(60)]
    rows[7:7] = ['{"text": null}', '{"other": 1}', '{"text": null}']
    (place / "bad.jsonl").write_text("\n".join(rows) + "\n")
    run = _fit(place, "gpt.yaml", "skipping", "--data.source", str(place / "bad.jsonl"),
               "--data.on_bad_record", "skip", "--trainer.max_steps", "1",
               "--trainer.logger", "false")  # fmt: skip
    assert sum(read_card(run)["bad_records"].values()) == 3


def test_lightnings_finders_can_be_used(place):
    run = _fit(place, "gpt.yaml", "found", "--trainer.logger", "false", "--trainer.max_steps", "3",
               "--trainer.callbacks+=BatchSizeFinder", "--trainer.callbacks.max_trials=1",
               "--trainer.callbacks+=LearningRateFinder",
               "--trainer.callbacks.num_training_steps=5")  # fmt: skip
    card = read_card(run)
    assert (card["status"], card["steps"]) == ("finished", 3)


def test_a_checkpoint_is_measured_without_a_run_folder(place, gpt, capsys):
    before = sorted((place / "runs").iterdir())
    main(["validate", "--config", str(gpt / "config.yaml"), "--run_name", "gpt",
          "--runs_dir", str(place / "runs"), "--ckpt_path", "last"])  # fmt: skip
    shown = capsys.readouterr().out
    assert f"{read_card(gpt)['val_loss_nats']:.4f}"[:5] in shown
    assert sorted((place / "runs").iterdir()) == before


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stopped_run_says_so_and_can_go_on(place, sent):
    name = f"stopped-{sent.name}"
    command = _command(place, "gpt.yaml", name, "--trainer.max_steps", "100000",
                       "--trainer.logger", "false")  # fmt: skip
    run = place / "runs" / name
    process = subprocess.Popen(
        [sys.executable, "-m", "pretrain", *command], env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        # Where the tests run in the background, the shell has made them deaf to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (run / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert read_card(run)["status"] == "running"
    time.sleep(0.5)
    process.send_signal(sent)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + sent
    assert "Traceback" not in output
    assert "--ckpt_path last goes on with it" in output
    assert read_card(run)["status"] == "interrupted"
    torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)  # whole


def test_two_processes_share_one_run_folder(place):
    command = _command(place, "gpt.yaml", "pair", "--trainer.devices", "2", "--trainer.max_steps",
                       "2", "--trainer.strategy", "ddp", "--trainer.logger", "false")  # fmt: skip
    index = command.index("--run_name")
    del command[index : index + 2]  # a name made from the time, which both have to share
    before = set((place / "runs").iterdir()) if (place / "runs").exists() else set()
    done = subprocess.run(
        [sys.executable, "-m", "pretrain", *command], env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = set((place / "runs").iterdir()) - before
    assert read_card(run)["tokens_seen"] == 2 * 2 * 4 * 16


def test_a_refused_resume_leaves_the_run_as_it_was(place, gpt):
    run = place / "runs" / "kept"
    shutil.copytree(gpt, run)
    other = place / "other.txt"
    other.write_text((place / "corpus.txt").read_text() + "and one line more\n" * 40)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit):
        _fit(place, "gpt.yaml", "kept", "--ckpt_path", "last", "--trainer.max_steps", "12",
             "--data.source", str(other))  # fmt: skip
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_going_on_keeps_the_recipes_open_vocabulary(place, gpt):
    run = place / "runs" / "open"
    shutil.copytree(gpt, run)
    _fit(place, "gpt.yaml", "open", "--ckpt_path", "last", "--trainer.max_steps", "12",
         "--trainer.logger", "false")  # fmt: skip
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["trainer"]["max_steps"] == 12
    assert config["model"]["init_args"]["network"]["vocab_size"] is None


def test_a_short_run_logs_every_series(place):
    run = _fit(place, "gpt.yaml", "short", "--trainer.log_every_n_steps", "null",
               "--trainer.logger", "false")  # fmt: skip
    for name in ("train/loss", "lr", "grad/norm", "speed/tokens_per_s"):
        assert any(row[name] for row in _rows(run)), name
    assert read_card(run)["train_loss_nats"] is not None


def test_a_run_that_was_killed_before_its_first_step_goes_on(place, gpt):
    run = place / "runs" / "unborn"
    first = _fit(place, "gpt.yaml", "unborn", "--trainer.max_steps", "1", "--trainer.logger",
                 "false", "--trainer.limit_val_batches", "0")  # fmt: skip
    assert first == run
    last = run / "checkpoints" / "last.ckpt"
    state = torch.load(last, weights_only=True)
    state["CausalLMDataModule"]["position"] = None  # as before step 1
    torch.save(state, last)
    _fit(place, "gpt.yaml", "unborn", "--ckpt_path", "last", "--trainer.max_steps", "3",
         "--trainer.logger", "false")  # fmt: skip
    assert read_card(run)["steps"] == 3


def test_prediction_prints_one_json_object_a_line_and_nothing_else(place, gpt, capfd):
    capfd.readouterr()
    main(["predict", "--config", str(gpt / "config.yaml"), "--run_name", "gpt", "--ckpt_path",
          "last", "--runs_dir", str(place / "runs")])  # fmt: skip
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["block"] for row in rows] == list(range(len(rows)))
    nats = sum(row["loss_nats"] * row["target_tokens"] for row in rows)
    targets = sum(row["target_tokens"] for row in rows)
    card = read_card(gpt)
    assert targets == card["val_target_tokens"]
    assert nats / targets == pytest.approx(card["val_loss_nats"], rel=1e-4)
