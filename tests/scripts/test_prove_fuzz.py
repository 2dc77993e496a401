"""The fuzz run: some inputs of each kind, and that it notices what it looks for."""

import json
from pathlib import Path
from random import Random

import pytest

from pretrain.errors import UserError

SCRIPTS = Path(__file__).parents[2] / "scripts"
KINDS = ("txt", "jsonl", "csv", "tsv", "parquet", "checkpoint", "tokenizer", "published",
         "configuration", "command_line")  # fmt: skip


@pytest.fixture
def prove_fuzz(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.chdir(tmp_path)
    import prove_fuzz

    return prove_fuzz


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_inputs_give_a_result_or_one_sentence(prove_fuzz, kind, tmp_path):
    assert set(prove_fuzz.SHARES) == set(KINDS)
    n = 60 if kind in ("txt", "jsonl", "csv", "tsv") else 12
    read = prove_fuzz.reader_of(kind)
    outcomes = []
    for number in range(n):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcomes.append(prove_fuzz.judge(read, Random(f"test {kind} {number}"), folder))
    assert {outcome for outcome, _ in outcomes} <= {"result", "refused"}, outcomes
    assert ("refused", "") in outcomes


def _raise(error):
    raise error


def test_what_is_no_sentence_is_told_apart(prove_fuzz, tmp_path):
    from fuzz_corpora import SilentLossError

    several = UserError("one")
    several.args = ("one\ntwo",)
    expected = {
        "result": lambda *_: None,
        "refused": lambda *_: _raise(UserError("one sentence")),
        "not one line": lambda *_: _raise(several),
        "silent loss": lambda *_: _raise(SilentLossError("2 of 3")),
        "traceback": lambda *_: _raise(KeyError("x")),
    }
    for outcome, read in expected.items():
        assert prove_fuzz.judge(read, Random(1), tmp_path)[0] == outcome


def test_a_document_that_a_reader_drops_is_noticed(prove_fuzz, monkeypatch, tmp_path):
    import fuzz_corpora

    def drops(corpus, *args):
        yield from list(documents(corpus, *args))[1:]

    documents = fuzz_corpora.FileCorpus.documents
    monkeypatch.setattr(fuzz_corpora.FileCorpus, "documents", drops)
    read = prove_fuzz.reader_of("jsonl")
    outcomes = [prove_fuzz.judge(read, Random(number), tmp_path)[0] for number in range(40)]
    assert "silent loss" in outcomes


def test_the_report_counts_every_input(prove_fuzz, tmp_path, capsys):
    report = tmp_path / "report.json"
    with pytest.raises(SystemExit) as end:
        prove_fuzz.main([f"--json={report}", "--n=30", "--kinds", "txt"])
    assert end.value.code == 0
    written = json.loads(report.read_text())
    assert written["n_inputs"] == 30 == sum(written["outcomes"]["txt"].values())
    assert written["n_failures"] == 0
