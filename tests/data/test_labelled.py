import json

import pyarrow
import pyarrow.parquet
import pytest

from pretrain.data.labelled import Example, ExampleOptions, ExampleSource
from pretrain.errors import UserError


@pytest.fixture
def source(tmp_path):
    def make(content, name="x.jsonl", **options):
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(content)
        return ExampleSource(str(path), str(path), ExampleOptions(**options))

    return make


def found(source, split="train"):
    return [(e.text, e.pair, e.label) for _, e in source.examples(split)]


PAIRS = {"pair_field": "b"}
ROW = {"text": "t", "label": 1, "b": "u"}


def test_fields_become_an_example(source):
    rows = [{"text": "one", "label": 1, "more": None}, {"text": "two", "label": "x"}]
    assert [e for _, e in source(rows).examples("train")] == [
        Example("one", source(rows).name + ":1", None, "1"),
        Example("two", source(rows).name + ":2", None, "x"),
    ]
    named = [{"s": "one", "t": "other", "y": True}]
    options = {"text_field": "s", "pair_field": "t", "label_field": "y"}
    assert found(source(named, **options)) == [("one", "other", "true")]


@pytest.mark.parametrize(("name", "comma"), [("x.csv", ","), ("x.tsv", "\t")])
def test_tables_give_the_same_examples(source, name, comma):
    content = "text,label,b\nt,1,u\n".replace(",", comma)
    assert found(source(content, name, **PAIRS)) == found(source([ROW], **PAIRS))


def test_parquet_gives_the_same_examples(tmp_path):
    path = tmp_path / "x.parquet"
    table = {"text": ["t", "u"], "label": [1, 0], "tags": [["a"], []], "unused": [[1], [2]]}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    for options, labels in (
        ({}, ["1", "0"]),
        ({"label_field": "tags", "kind": "multi"}, [("a",), ()]),
        ({"kind": "regression"}, [1.0, 0.0]),
    ):
        source = ExampleSource(str(path), str(path), ExampleOptions(**options))
        assert [label for _, _, label in found(source)] == labels
    source = ExampleSource(str(path), str(path), ExampleOptions(label_field="y"))
    with pytest.raises(UserError, match=r'row 1: no field "y" .*"tags".*label_field'):
        found(source)


@pytest.mark.parametrize(
    ("row", "options", "reason"),
    [
        ({"text": "t"}, {}, 'no field "label"'),
        ({"text": "t", "label": None}, {}, 'label "label" is empty'),
        ({"text": "t", "label": ""}, {}, 'label "label" is empty'),
        ({"text": "t", "label": 1.5}, {}, 'label "label" is no class'),
        ({"text": "t", "label": ["a"]}, {}, 'label "label" is no class'),
        ({"text": "t", "label": "a"}, {"kind": "multi"}, 'label "label" is no list of labels'),
        ({"text": "t", "label": "a"}, {"kind": "regression"}, 'label "label" is no finite number'),
        ({"text": "", "label": 1}, {}, 'field "text" is empty'),
        ({"text": "t", "label": 1}, PAIRS, 'no field "b"'),
        ({"text": "t", "label": 1, "b": None}, PAIRS, 'field "b" is null, not text'),
        ({"text": "t", "label": 1, "b": 7}, PAIRS, 'field "b" is int, not text'),
        ({"text": "t", "label": 1, "b": " "}, PAIRS, 'field "b" is empty'),
    ],
)
def test_a_bad_example_is_named_by_its_row_or_counted(source, row, options, reason):
    good = {"multi": ["1"], "regression": 1}.get(options.get("kind"), 1)
    rows = [{**ROW, "label": good}, row]
    with pytest.raises(UserError) as caught:
        found(source(rows, **options))
    assert f"x.jsonl:2: {reason}" in str(caught.value)
    assert "on_bad_record=skip" in str(caught.value)

    skipping = source(rows, **options, on_bad_record="skip")
    assert len(found(skipping)) == 1
    assert skipping.bad_records == {reason: 1}


def test_a_missing_field_is_answered_with_the_option_that_names_it(source):
    for options, option in (({}, "label_field"), ({**PAIRS, "label_field": "t"}, "pair_field")):
        with pytest.raises(UserError, match=rf'its fields: "text", "t"; {option} names another'):
            found(source([{"text": "a", "t": "c"}], **options))


def test_plain_text_has_no_labels_but_may_be_classified(source):
    with pytest.raises(UserError, match=r"x\.txt:1: plain text has no labels.*JSONL, CSV"):
        found(source("one\ntwo\n", "x.txt"))
    unlabelled = source("one\ntwo\n", "x.txt", label_field=None)
    assert found(unlabelled) == [("one", None, None), ("two", None, None)]
    assert found(source([{"text": "t"}], label_field=None)) == [("t", None, None)]


def test_an_unknown_kind_is_refused():
    with pytest.raises(UserError, match="kind is 'several': choose one of single, multi"):
        ExampleOptions(kind="several")


def test_all_pairs_of_a_text_are_on_one_side_of_a_hash_split(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [{"text": f"t{n % 40}", "b": f"u{n}", "label": n % 2} for n in range(400)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ExampleOptions(pair_field="b", split_share=0.3)
    sides = {}
    for split, example in ExampleSource(str(path), None, options).examples("train", "validation"):
        sides.setdefault(example.text, set()).add(split)
    assert {len(held) for held in sides.values()} == {1}
    assert {split for held in sides.values() for split in held} == {"train", "validation"}


def test_a_tail_split_holds_out_the_last_examples_uncut(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [{"text": f"text {n}" * (1 + n % 7), "label": n} for n in range(10)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ExampleOptions(split="tail", split_share=0.25)
    source = ExampleSource(str(path), None, options)
    held = list(source.examples("train", "validation"))
    assert [split for split, _ in held] == ["train"] * 7 + ["validation"] * 3
    assert [example.text for _, example in held] == [row["text"] for row in rows]


def test_a_tokenizer_is_trained_on_both_texts_of_a_pair(source):
    assert list(source([ROW], **PAIRS).texts("train")) == ["t", "u"]


def test_the_fingerprint_covers_the_fields(source):
    seen = {source([ROW], **options).fingerprint for options in
            ({}, PAIRS, {"label_field": "b"}, {"kind": "regression"})}  # fmt: skip
    assert len(seen) == 4
