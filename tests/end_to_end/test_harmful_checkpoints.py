"""A checkpoint that would run code is refused, by name, wherever a checkpoint can be given."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny import make_task
from writers import make_writer

from pretrain.cli import main
from pretrain.errors import UserError
from pretrain.tasks import CausalLM
from pretrain.tasks.loading import save_task

RECIPE = Path(__file__).parents[2] / "configs" / "gpt_tiny.yaml"
FIT = [f"--config={RECIPE}", "--data.source=CORPUS", "--data.tokenizer={kind: char}",
       "--trainer.max_steps=20", "--trainer.logger=false"]  # fmt: skip
COMMANDS = {
    "fit --ckpt_path": ["fit", *FIT, "--ckpt_path=FILE", "--run_name=new"],
    "fit --ckpt_path last": ["fit", *FIT, "--ckpt_path=last", "--run_name=old"],
    "fit --init_from": ["fit", *FIT, "--init_from=FILE"],
    "validate": ["validate", *FIT, "--ckpt_path=FILE"],
    "validate last": ["validate", *FIT, "--ckpt_path=last", "--run_name=old"],
    "test": ["test", *FIT, "--ckpt_path=FILE"],
    "predict": ["predict", *FIT, "--ckpt_path=FILE"],
    "evaluate": ["evaluate", "FILE", "--text=CORPUS"],
    "generate": ["generate", "FILE"],
    "fill-mask": ["fill-mask", "FILE", "a [MASK]"],
    "classify": ["classify", "FILE", "a text"],
    "export": ["export", "FILE", "OUT"],
    "import": ["import", "FOLDER", "OUT"],
}


class _Harmful:
    """Unpickling it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "the code has run"


@pytest.fixture
def harmful(tmp_path, mark):
    """A checkpoint that is complete, and holds one thing more."""
    task, _ = make_writer()
    path = tmp_path / "runs" / "old" / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True)
    save_task(task, path)
    content = torch.load(path, weights_only=True)
    torch.save({**content, "extra": _Harmful(mark)}, path)
    return path


@pytest.fixture(params=["", "1"], ids=["", "torch told to trust"])
def trust(request, monkeypatch):
    """torch has an environment variable that makes it trust what does not say otherwise."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", request.param)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("trust")
def test_every_command_refuses_it_by_name(name, harmful, mark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat on the mat. a dog ran in the sun.\n" * 40)
    folder = tmp_path / "published"
    folder.mkdir()
    shutil.copy(harmful, folder / "pytorch_model.bin")
    sizes = {"vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16}
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
    places = {"FILE": harmful, "CORPUS": corpus, "OUT": tmp_path / "out", "FOLDER": folder}
    words = []
    for word in COMMANDS[name]:
        for place, path in places.items():
            word = word.replace(place, str(path))
        words.append(word)
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 1
    complaint = capsys.readouterr().err.strip().splitlines()
    assert len(complaint) == 1
    assert ("pytorch_model.bin" if name == "import" else "last.ckpt") in complaint[0]
    assert "run code" in complaint[0]
    assert not mark.exists()


@pytest.mark.usefixtures("trust")
def test_loading_from_python_refuses_it_by_name(harmful, mark):
    for asked in ({}, {"weights_only": False}):
        with pytest.raises(UserError, match=r"last\.ckpt.*run code"):
            CausalLM.load_from_checkpoint(harmful, **asked)
    assert not mark.exists()


def test_the_same_file_without_it_loads(tmp_path, mark):
    save_task(make_task("clm"), tmp_path / "good.ckpt")
    assert isinstance(CausalLM.load_from_checkpoint(tmp_path / "good.ckpt"), CausalLM)
    torch.save(_Harmful(mark), tmp_path / "bad.ckpt")
    torch.load(tmp_path / "bad.ckpt", weights_only=False)
    assert mark.exists()
