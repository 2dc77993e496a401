import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
from tiny import SHAPE

from pretrain.data import TokenizerRule
from pretrain.data.tokenizer_training import train_tokenizer
from pretrain.tasks import MaskedLM, load_task, save_task

SCRIPT = Path(__file__).parents[2] / "scripts" / "compare_starts.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("compare_starts", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_pretrained_and_a_random_start_are_compared_over_seeds(script, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    texts = [(f"{word} {n}", int(word == "good")) for n in range(30) for word in ("good", "bad")]
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in texts]
    (tmp_path / "all.jsonl").write_text("".join(lines))
    tokenizer = train_tokenizer([text for text, _ in texts], TokenizerRule("wordpiece", 40))
    task = MaskedLM(network={**SHAPE, "vocab_size": tokenizer.vocab_size})
    task.configure_model()
    task.tokenizer_json = tokenizer.to_json()
    save_task(task, tmp_path / "known.ckpt")
    arguments = [
        "compare_starts.py", f"known={tmp_path / 'known.ckpt'}", "random", "--seeds", "1,2",
        "--source", str(tmp_path / "all.jsonl"), "--val_source", str(tmp_path / "all.jsonl"),
        "--runs_dir", str(tmp_path / "runs"), "--json", str(tmp_path / "out.json"),
        "--options", "--trainer.max_steps=2", "--trainer.max_epochs=-1", "--data.batch_size=4",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    starts = json.loads((tmp_path / "out.json").read_text())["starts"]
    assert set(starts) == {"known", "random"}
    values = starts["known"]["val_accuracy"]["values"]
    assert len(values) == 2
    assert starts["known"]["val_accuracy"]["mean"] == pytest.approx(sum(values) / 2)
    first, second = (load_task(str(tmp_path / "runs" / f"random-{seed}.ckpt")) for seed in (1, 2))
    name = "transformer.embeddings.token.weight"
    assert not torch.equal(first.state_dict()[name], second.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], task.state_dict()[name])
