import json
from types import SimpleNamespace

import pytest
import torch

import pretrain.commands.configuration_checks as configuration_checks
import pretrain.commands.machine_checks as machine_checks
import pretrain.commands.speeds as speeds
import pretrain.diagnostics.speed as speed
from pretrain.cli import main
from pretrain.commands.machine_checks import disk

WORDS = [
    "the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "then", "sleeps",
    "under", "an", "old", "tree",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _quick_and_offline(monkeypatch, tmp_path):
    monkeypatch.setattr(speed, "_BUDGET_S", 0.02)
    monkeypatch.setattr(machine_checks, "measured_flops", lambda device, dtype: 1e9)
    monkeypatch.setattr(speeds, "peak_flops", lambda device, precision: 1e12)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "text.jsonl"
    rows = (" ".join(WORDS[(i * 7 + j) % 16] for j in range(12)) + f" {i}" for i in range(300))
    path.write_text("\n".join(json.dumps({"text": row}) for row in rows) + "\n")
    return path


def options(corpus, recipe="CausalLM", *more):
    kind = {"CausalLM": "bpe", "MaskedLM": "wordpiece"}[recipe]
    return [
        f"--model={recipe}", "--model.network.n_layers=1", "--model.network.n_heads=2",
        "--model.network.d_model=16", f"--data={recipe}DataModule", f"--data.source={corpus}",
        f"--data.tokenizer.kind={kind}", "--data.tokenizer.vocab_size=300", "--data.seq_len=16",
        "--data.batch_size=2", "--trainer.max_steps=3", "--trainer.accelerator=cpu", *more,
    ]  # fmt: skip


def doctor(capsys, argv=()):
    """Exit status, and level and text of every finding by its subject."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *argv])
    said = capsys.readouterr().out
    rows = [line.split(maxsplit=1) for line in said.splitlines()[:-1]]
    return ended.value.code, [(level, *rest.split(": ", 1)) for level, rest in rows]


def worst(findings, about):
    levels = {"ok": 0, "warning": 1, "fault": 2}
    return max((one for one in findings if one[1] == about), key=lambda one: levels[one[0]])


def test_without_options_it_looks_at_the_machine_alone(capsys):
    status, findings = doctor(capsys)
    assert status == 0
    assert {about for _, about, _ in findings} == {
        "device", "precision", "disk of runs_dir", "disk of cache_dir", "processes", "wandb",
    }  # fmt: skip


@pytest.mark.parametrize("recipe", ["CausalLM", "MaskedLM"])
@pytest.mark.parametrize("more", [[], ["--data.cache=false"]])
def test_a_configuration_that_works_has_no_fault_and_leaves_no_run(
    recipe, more, corpus, capsys, tmp_path
):
    status, findings = doctor(capsys, options(corpus, recipe, *more))
    assert status == 0
    for about in ("run", "trainer", "corpus", "tokenizer", "memory", "speed"):
        assert worst(findings, about)[0] != "fault"
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "cache" / "pretrain" / "tokens").exists()


def test_a_classifier_and_its_labels_are_looked_at(corpus, capsys):
    rows = [{"text": f"{WORDS[i % 16]} {i}", "label": i % 3} for i in range(100)]
    corpus.write_text("\n".join(map(json.dumps, rows)) + "\n")
    argv = [
        "--model=Classification", "--model.network.n_layers=1", "--model.network.n_heads=2",
        "--model.network.d_model=16", "--data=ClassificationDataModule",
        f"--data.source={corpus}", "--data.tokenizer.kind=wordpiece",
        "--data.tokenizer.vocab_size=300", "--data.max_len=16", "--data.batch_size=2",
        "--trainer.max_steps=3", "--trainer.accelerator=cpu",
    ]  # fmt: skip
    status, findings = doctor(capsys, argv)
    assert status == 0
    assert worst(findings, "speed")[0] == "ok" or "num_workers" in worst(findings, "speed")[2]
    _, findings = doctor(capsys, [*argv, "--data.label_field=mood"])
    assert worst(findings, "corpus")[0] == "fault"
    assert "label" in worst(findings, "corpus")[2]


def test_a_corpus_that_is_not_there_is_a_fault(capsys):
    status, findings = doctor(capsys, options("nowhere.txt"))
    assert status == 1
    assert worst(findings, "corpus")[0] == "fault"
    assert "nowhere.txt" in worst(findings, "corpus")[2]


@pytest.mark.parametrize(("rule", "level"), [("error", "fault"), ("skip", "warning")])
def test_a_bad_record_is_named_or_counted(rule, level, corpus, capsys):
    corpus.write_text(corpus.read_text() + "{broken\n")
    status, findings = doctor(capsys, options(corpus, "CausalLM", f"--data.on_bad_record={rule}"))
    found = worst(findings, "corpus")
    assert found[0] == level
    assert status == (rule == "error")
    assert ("301" if rule == "error" else "1 records skipped") in found[2]


def test_a_vocabulary_that_does_not_fit_is_a_fault(corpus, capsys):
    status, findings = doctor(capsys, options(corpus, "CausalLM", "--model.network.vocab_size=100"))
    assert status == 1
    assert "vocab_size is 100" in worst(findings, "tokenizer")[2]


def test_too_little_memory_is_a_fault_and_nothing_is_trained(corpus, capsys, monkeypatch):
    monkeypatch.setattr(configuration_checks, "free_memory", lambda device: 1000)
    status, findings = doctor(capsys, options(corpus))
    assert status == 1
    assert "lower data.batch_size" in worst(findings, "memory")[2]
    assert "not measured" in worst(findings, "speed")[2]


@pytest.mark.parametrize(
    ("free", "level"), [(99, "fault"), (100, "warning"), (199, "warning"), (200, "ok")]
)
def test_a_disk_needs_room_and_some_more(free, level, tmp_path, monkeypatch):
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda path: usage)
    assert disk("disk", tmp_path / "not" / "yet", 100).level == level


def test_a_slow_loader_is_a_warning_that_names_the_workers(corpus, capsys, monkeypatch):
    monkeypatch.setattr(speeds, "loader_tokens_per_s", lambda loader: 100.0)
    monkeypatch.setattr(speeds, "training_tokens_per_s", lambda *_: 100.0)
    status, findings = doctor(capsys, options(corpus))
    assert status == 0
    assert worst(findings, "speed")[0] == "warning"
    assert "waits 50 % of the time: try --data.num_workers 2" in worst(findings, "speed")[2]


def test_a_run_of_this_name_is_a_fault(corpus, capsys, tmp_path):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("")
    status, findings = doctor(capsys, options(corpus, "CausalLM", "--run_name=mine"))
    assert status == 1
    assert "already holds a run" in worst(findings, "run")[2]


def test_a_stream_without_max_steps_and_a_misspelt_key_are_faults(corpus, capsys):
    argv = [one for one in options(corpus) if "max_steps" not in one]
    status, findings = doctor(capsys, [*argv, "--data.cache=false"])
    assert status == 1
    assert "set trainer.max_steps" in worst(findings, "corpus")[2]
    status, findings = doctor(capsys, [*argv, "--data.sourec=x"])
    assert status == 1
    assert "sourec" in worst(findings, "configuration")[2]


def test_a_login_without_a_server_is_a_warning(monkeypatch):
    import wandb

    monkeypatch.setattr(machine_checks, "wandb_mode", lambda note: "online")

    def unreachable(**_):
        raise ConnectionError("no route to host\nmore")

    monkeypatch.setattr(wandb, "Api", unreachable)
    found = machine_checks.weights_and_biases()
    assert found.level == "warning"
    assert "no route to host" in found.text
    assert "more" not in found.text


def test_speeds_count_the_tokens_of_batches():
    batch = {"input_ids": torch.zeros(4, 8, dtype=torch.int64)}
    assert speed.loader_tokens_per_s([batch] * 3) > 0
    assert speed.loader_tokens_per_s([batch]) > 0
