"""What the front door promises."""

import re
from pathlib import Path

import pytest

from pretrain.cli import COMMANDS

ROOT = Path(__file__).parents[1]
GUIDES = sorted([ROOT / "README.md", *ROOT.glob("*/README.md")])


def program():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    return blocks[0]


def test_the_program_runs_with_a_plain_trainer(tmp_path, monkeypatch, capsys):
    corpus = tmp_path / "corpus.txt"
    lines = [f"line {i} of a small corpus, with {i * 7} and {i * i}\n" for i in range(400)]
    corpus.write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code = program()
    for long, short in (('"builtin"', repr(str(corpus))), ("max_steps=500", "max_steps=3"),
                        ("vocab_size=8192", "vocab_size=300")):  # fmt: skip
        assert long in code
        code = code.replace(long, short)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["trainer"].global_step == 3
    assert names["model"].config.vocab_size == names["data"].tokenizer.vocab_size
    assert "val/loss" in capsys.readouterr().out


def test_the_program_is_about_fifteen_lines():
    lines = [line for line in program().splitlines() if line.strip()]
    assert len(lines) <= 17


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_and_command_that_a_guide_names_is_there(guide):
    text = guide.read_text()
    for path in re.findall(r"(?:configs/\w+\.yaml|scripts/[\w.]+|\]\(([\w/.]+)\))", text):
        assert path == "" or (guide.parent / path).exists(), path
    for path in re.findall(r"configs/\w+\.yaml|(?<!\.)\./scripts/\w+", text):
        assert (ROOT / path).exists() or "NAME" in path, path
    for command in re.findall(r"^pretrain ([a-z-]+)", text, re.MULTILINE):
        assert command in COMMANDS
