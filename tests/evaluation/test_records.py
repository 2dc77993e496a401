import gzip
import json

import pytest

from pretrain.errors import UserError
from pretrain.evaluation.records import Record, read_records


def test_whole_rows_come_back_with_their_place(tmp_path):
    rows = [{"text": "a", "n": 1}, {"other": [1, 2]}]
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(rows[0]) + "\n\n" + json.dumps(rows[1]) + "\n")
    found = list(read_records(str(path)))
    assert [record.row for record in found] == rows
    assert [record.where for record in found] == [f"{path}:1", f"{path}:3"]


def test_parquet_keeps_all_columns(tmp_path):
    import datasets

    path = tmp_path / "rows.parquet"
    datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}).to_parquet(path)
    assert [record.row for record in read_records(str(path))] == [
        {"text": "a", "label": 1},
        {"text": "b", "label": 0},
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", r"rows\.jsonl is empty"),
        (b'{"a": 1}\nnot json\n', r"rows\.jsonl:2: not JSON .*; mend the record\.$"),
        (b'{"a": 1}\n[1]\n', r"rows\.jsonl:2: the line is no JSON object; mend"),
        (b'{"a": "\xff"}\n', r"rows\.jsonl:1: not UTF-8; mend"),
    ],
)
def test_a_bad_file_gets_one_sentence(content, complaint, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=complaint):
        list(read_records(str(path)))


def test_plain_text_is_refused(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("a\n")
    with pytest.raises(UserError, match=r"rows\.txt is plain text: give a \.jsonl file"):
        list(read_records(str(path)))
    with pytest.raises(UserError, match="no such file"):
        list(read_records(str(tmp_path / "none.jsonl")))


@pytest.mark.parametrize(
    ("value", "complaint"),
    [(None, "is null, not text"), (3, "is 3, not text"), ("  ", "is empty"),
     ("a\0", "holds a NUL character"), ("\ud800", "holds a lone surrogate")],
)  # fmt: skip
def test_a_field_that_is_no_text_is_refused(value, complaint):
    with pytest.raises(UserError, match=f'x:1: field "text" {complaint}; mend'):
        Record({"text": value}, "x:1").text("text")


def test_a_field_may_be_allowed_to_be_empty():
    assert Record({"text": ""}, "x:1").text("text", may_be_empty=True) == ""
