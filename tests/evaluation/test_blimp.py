import json
import os
from pathlib import Path

import pytest
from judges import make_judge

from pretrain.errors import UserError
from pretrain.evaluation import Scorer, blimp, read_pairs
from pretrain.evaluation.blimp import Pair
from pretrain.evaluation.likelihood import Likelihood

ROWS = [
    {"UID": "b_1", "field": "syntax", "linguistics_term": "b", "good": "a dog ran.", "bad": "dog"},
    {"UID": "a_1", "field": "syntax", "linguistics_term": "a", "good": "the cat", "bad": "cat the"},
    {"UID": "a_1", "field": "syntax", "linguistics_term": "a", "good": "a mat", "bad": "mat a"},
    {"UID": "a_2", "field": "x/y", "linguistics_term": "a", "good": "sun", "bad": "sun"},
]


class Table:
    """Gives each text the likelihood that a table has for it."""

    def __init__(self, values):
        self.values = values

    def texts(self, texts):
        return [Likelihood(self.values[text], 1, False) for text in texts]


def pair(good, bad, uid, term="t", field="f"):
    return Pair(good, bad, uid, term, field)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_likelier_sentence_wins_and_a_tie_does_not():
    scorer = Table({"good": -1.0, "better": -0.5, "bad": -2.0, "worse": -1.0})
    pairs = [
        pair("good", "bad", "u"),
        pair("bad", "good", "u"),
        pair("good", "worse", "u"),  # equally likely
        pair("better", "better", "v", "s", "g"),  # the same sentence
        pair("better", "good", "v", "s", "g"),
    ]
    report = blimp(scorer, pairs)
    assert report.accuracy == pytest.approx(2 / 5)
    assert report.by("uid") == pytest.approx({"u": 1 / 3, "v": 1 / 2})
    assert report.by("term") == pytest.approx({"t": 1 / 3, "s": 1 / 2})
    assert report.to_dict()["by_field"] == pytest.approx({"f": 1 / 3, "g": 1 / 2})
    assert report.figures() == pytest.approx({"accuracy": 2 / 5, "t": 1 / 3, "s": 1 / 2})
    assert report.standard_error == pytest.approx((0.4 * 0.6 / 5) ** 0.5)
    assert json.loads(json.dumps(report.to_dict()))["n_pairs"] == 5


def test_the_table_has_phenomena_with_their_sets(tmp_path):
    pairs = read_pairs(write(tmp_path / "pairs.jsonl", ROWS))
    lines = blimp(Scorer(make_judge("clm")[0]), pairs).table().splitlines()
    names = [line.split("  ")[0] if line[0] != " " else line[:5].strip() for line in lines[1:]]
    assert names == ["a", "a_1", "a_2", "b", "b_1", "all syntax", "all x_y", "all"]
    assert lines[3].split() == ["a_2", "0.00%", "1"]
    assert len({len(line) for line in lines}) == 1


def test_a_limit_counts_in_each_set(tmp_path):
    pairs = read_pairs(write(tmp_path / "pairs.jsonl", ROWS), limit=1)
    assert [pair.uid for pair in pairs] == ["b_1", "a_1", "a_2"]


@pytest.mark.parametrize("name", ["good", "bad", "UID", "field", "linguistics_term"])
def test_a_row_that_lacks_a_field_is_named(name, tmp_path):
    row = {key: value for key, value in ROWS[1].items() if key != name}
    with pytest.raises(UserError, match=rf'pairs.jsonl:2: there is no field "{name}"'):
        read_pairs(write(tmp_path / "pairs.jsonl", [ROWS[0], row]))


@pytest.mark.skipif("PRETRAIN_TEST_DATA" not in os.environ, reason="needs PRETRAIN_TEST_DATA")
def test_the_published_pairs_are_67_sets_of_which_seven_pairs_are_equal():
    data = Path(os.environ["PRETRAIN_TEST_DATA"]) / "blimp" / "blimp.jsonl.gz"
    pairs = read_pairs(str(data))
    assert len(pairs) == 67_000
    assert len({pair.uid for pair in pairs}) == 67
    assert len({pair.term for pair in pairs}) == 13
    assert sum(pair.good == pair.bad for pair in pairs) == 7
