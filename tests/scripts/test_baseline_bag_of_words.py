"""The bag of words: which examples it reads, and what it reaches where words tell and where not."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from pretrain.data import ClassificationDataModule, TokenizerRule
from pretrain.data.tokenizer_training import train_tokenizer

SCRIPT = Path(__file__).parents[2] / "scripts" / "baseline_bag_of_words.py"
WORDS = ["tea", "ship", "river", "stone", "wind", "bread", "lamp", "sail"]
needs_scikit_learn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn is missing"
)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("baseline_bag_of_words", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Texts whose order tells the class by a pair of neighbouring words alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = []
    for n in range(200):
        word, label = WORDS[n % 8], n % 3 % 2
        marks = "no yes" if label else "yes no"
        rows.append({"text": f"{word} {n} . {marks} . {WORDS[n % 5]}", "label": label})
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@needs_scikit_learn
def test_pairs_of_words_tell_the_classes_apart(script, source, tmp_path, capsys):
    report_path = tmp_path / "report.json"
    script.main([f"--source={source}", f"--json={report_path}"])
    report = json.loads(report_path.read_text())
    assert json.loads(capsys.readouterr().out) == report
    assert report["accuracy"] == report["macro_f1"] == report["matthews"] == 1
    assert 0.5 < report["commonest_class"] < 0.9
    assert report["labels"] == ["0", "1"]
    assert report["n_train"] + report["n_validation"] == 200


@needs_scikit_learn
def test_what_is_cut_off_tells_nothing(script, source, tmp_path):
    tokenizer = train_tokenizer(source.read_text().split(), TokenizerRule("wordpiece", 200))
    tokenizer.save(tmp_path / "tokenizer.json")
    data = script.open_data(str(tmp_path / "tokenizer.json"), source=str(source), max_len=4)
    texts, _ = script.examples_of(data, "train", is_cut=True)
    assert not any("yes" in text or "no" in text for text in texts)
    assert all(len(tokenizer.encode_prompt(text)) <= 2 for text in texts)
    report = script.measure(data, is_cut=True)
    assert report["accuracy"] < 0.9
    assert report["max_len"] == 4


def test_the_examples_are_those_of_the_network(script, source, tmp_path):
    tokenizer = train_tokenizer(source.read_text().split(), TokenizerRule("wordpiece", 200))
    tokenizer.save(tmp_path / "tokenizer.json")
    network = ClassificationDataModule(str(source), tokenizer=str(tmp_path / "tokenizer.json"))
    network.setup("fit")
    data = script.open_data(source=str(source))
    for split in ("train", "validation"):
        texts, labels = script.examples_of(data, split)
        assert texts == [f"{one.text}\n" for one in network.examples(split)]
        assert labels == [network.labels.encode(one) for one in network.examples(split)]


def test_without_scikit_learn_it_says_how_to_get_it(script, source, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        script.main([f"--source={source}"])
