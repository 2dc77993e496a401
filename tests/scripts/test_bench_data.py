"""The bench of the data: both sides read the same, and its figures follow from what was measured.

Processes are started for real, on a few documents.
"""

import json
import os
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
needs_tokenizers = pytest.mark.skipif(
    "PRETRAIN_TEST_DATA" not in os.environ, reason="PRETRAIN_TEST_DATA is not set"
)


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import bench_data

    return bench_data


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    texts = [f"Text number {i} says what a text says. " * 40 for i in range(60)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@needs_tokenizers
def test_the_report_of_a_real_run(bench, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "TOKENIZERS", {"bert": bench.TOKENIZERS["bert"]})
    monkeypatch.setattr(bench, "PIPELINE", (("ours_fill", 0), ("peer_fill", 0), ("peer_cached", 0)))
    target = tmp_path / "report.json"
    bench.main(["--json", str(target), "--corpus", str(corpus), "--parts=pipeline", "--rounds=1"])
    report = json.loads(target.read_text())
    texts = [json.loads(line)["text"] for line in corpus.read_text().splitlines()]
    assert report["corpus"] == {"documents": 60, "bytes": sum(map(len, texts))}
    found = report["pipeline"]["bert"]
    ours, peer = found["ours_fill_0"], found["peer_fill_0"]
    # Ours closes each document by [SEP], theirs has [CLS] before it too and drops the last row
    whole = ours["tokens"] + 60
    assert whole - 128 < peer["tokens"] <= whole
    assert found["peer_cached_0"]["tokens"] == peer["tokens"]
    for one in (ours, peer):
        assert one["tokens_per_s"] == pytest.approx(one["tokens"] / one["seconds"])
        assert one["documents_per_s"] == pytest.approx(60 / one["seconds"])
        assert 0 < one["net_peak_mib"] < one["peak_mib"]
    expected = ours["tokens_per_s"] / peer["tokens_per_s"]
    assert found["ratios"] == {"fill_0": pytest.approx(expected)}


@needs_tokenizers
@pytest.mark.parametrize("kind", ["bert", "gpt"])
@pytest.mark.parametrize("what", ["ours_cached", "ours_stream"])
def test_an_epoch_counts_every_row(bench, corpus, tmp_path, kind, what):
    from data_worker import WHATS, Task

    tokenizer = Path(os.environ["PRETRAIN_TEST_DATA"]) / "tokenizers" / bench.TOKENIZERS[kind]
    task = Task(kind, 0, corpus, tokenizer, tmp_path)
    n_tokens = WHATS[what](task)()["tokens"]
    assert n_tokens % (task.seq_len * task.batch_size) == 0
    assert n_tokens > 60 * 40 * 5


def test_figures_are_medians_over_the_rounds(bench):
    rounds = [{"seconds": s, "tokens": 100.0, "peak_mib": 10.0 * s} for s in (4.0, 1.0, 2.0)]
    one = bench.speed_of(rounds, {"documents": 8, "bytes": 4_000_000})
    assert one["tokens_per_s"] == 50
    assert (one["documents_per_s"], one["mb_per_s"], one["peak_mib"]) == (4, 2, 20)
    assert one["all_seconds"] == [4.0, 1.0, 2.0]


def test_the_table_shows_ratios_and_what_the_fastest_recipe_consumes(bench):
    def one(speed):
        return {"tokens_per_s": speed, "documents_per_s": 1.0, "mb_per_s": 1.0, "peak_mib": 1.0}

    speeds = {"ours_cached_0": one(300.0), "peer_cached_0": one(100.0), "ours_stream_0": one(60.0)}
    found = {**speeds, "ratios": bench.ratios(speeds)}
    assert found["ratios"] == {"cached_0": 3.0}
    training = {"bert_tiny": {"tokens_per_s": 20.0}}
    lines = bench.table({"pipeline": {"bert": found}, "training": training}).splitlines()
    assert lines[2].endswith("| 3.0 | 15.0 |")
    assert lines[3].endswith("|  | 5.0 |")
    assert lines[4].endswith("|  | 3.0 |")


def test_copies_are_the_corpus_over_again(bench, corpus, tmp_path):
    assert bench.copies(corpus, 3, tmp_path / "out").read_bytes() == corpus.read_bytes() * 3
