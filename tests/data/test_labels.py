import math

import pytest

from pretrain.data.labelled import Example
from pretrain.data.labels import BadLabelError, Labels, read_label
from pretrain.errors import UserError


def examples(*labels):
    return [Example("text", f"x.jsonl:{n}", None, label) for n, label in enumerate(labels, 1)]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["pos", "neg", "pos"], ("neg", "pos")),
        ([3, 1, 2, 1], ("1", "2", "3")),
        ([10, 9, -1], ("-1", "9", "10")),
        (["10", "9", 2], ("2", "9", "10")),
        ([True, False], ("false", "true")),
        ([1.0, 0.0], ("0", "1")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["Ä", "b", "Z"], ("Z", "b", "Ä")),
    ],
)
def test_names_are_sorted_and_do_not_depend_on_the_order_of_the_examples(given, names):
    rows = examples(*given)
    labels = Labels.from_examples("single", rows)
    assert labels.names == names
    assert labels == Labels.from_examples("single", reversed(rows))
    assert labels.n_outputs == len(names)
    assert {labels.encode(row) for row in rows} == set(range(len(names)))


def test_a_class_has_one_id_however_it_is_written():
    labels = Labels.from_examples("single", examples(1, 2, 3))
    assert [labels.encode(one) for one in examples(1, "1", 1.0, 3, "3")] == [0, 0, 0, 2, 2]


def test_several_labels_a_text():
    rows = examples(["b", "a"], [], ["c", "b", "b"])
    labels = Labels.from_examples("multi", rows)
    assert labels.names == ("a", "b", "c")
    assert [labels.encode(row) for row in rows] == [[0, 1], [], [1, 2]]
    numbered = Labels.from_examples("multi", examples([10], [9, 2]))
    assert numbered.encode(examples([10, 2])[0]) == [0, 2]


def test_a_number_is_itself():
    rows = examples(1.5, "-2e1", 3)
    labels = Labels.from_examples("regression", rows)
    assert labels.names == ()
    assert labels.n_outputs == 1
    assert [labels.encode(row) for row in rows] == [1.5, -20.0, 3.0]


@pytest.mark.parametrize(
    ("kind", "label", "said"),
    [
        ("single", None, "empty"),
        ("single", "", "empty"),
        ("single", " \t", "empty"),
        ("single", math.nan, "empty"),
        ("single", 1.5, r"1\.5; kind=regression"),
        ("single", math.inf, "kind=regression"),
        ("single", ["a"], "list; kind=multi"),
        ("single", {"a": 1}, "dict"),
        ("single", "a\0", "NUL"),
        ("single", "\ud800", "surrogate"),
        ("multi", "a", "str; kind=single"),
        ("multi", None, "empty"),
        ("multi", ["a", None], "no class"),
        ("multi", ["a", 1.5], "kind=regression"),
        ("regression", None, "empty"),
        ("regression", "good", "'good'; kind=single"),
        ("regression", True, "kind=single"),
        ("regression", math.inf, "no finite number"),
        ("regression", "nan", "no finite number"),
        ("regression", [1.0], "no finite number"),
        ("regression", 10**400, "no finite number"),
        ("regression", 1e300, "no finite number"),
    ],
)
def test_what_is_no_label_is_refused_with_its_row(kind, label, said):
    with pytest.raises(BadLabelError, match=said):
        read_label(kind, label)
    with pytest.raises(UserError, match=rf"^x\.jsonl:1: the label .*{said}"):
        Labels.from_examples(kind, examples(label))
    with pytest.raises(UserError, match=r"^x\.jsonl:1: "):
        Labels(kind, ("a", "b")).encode(examples(label)[0])


def test_reading_a_label_again_changes_nothing():
    for kind, label in (("single", 1), ("multi", [2, "a"]), ("regression", "1.5")):
        once = read_label(kind, label)
        assert read_label(kind, once) == once


def test_a_label_that_training_does_not_have_is_named_with_its_row():
    labels = Labels.from_examples("single", examples("a", "b"))
    with pytest.raises(UserError, match=r"^x\.jsonl:3: .* no label 'c' \('a', 'b'\)"):
        labels.encode(examples("a", "b", "c")[2])
    many = Labels.from_examples("multi", examples(list(range(12))))
    with pytest.raises(UserError, match=r"no label '12' \('0'.*'9', \.\.\.\)"):
        many.encode(examples([3, 12])[0])


def test_labels_that_leave_nothing_to_learn_are_refused():
    with pytest.raises(UserError, match="only the label 'a'"):
        Labels.from_examples("single", examples("a", "a"))
    with pytest.raises(UserError, match="no label at all"):
        Labels.from_examples("multi", examples([], []))


def test_measurements_that_a_table_gives_as_text_are_no_classes():
    with pytest.raises(UserError, match="kind=regression"):
        Labels.from_examples("single", examples("1.0", "2.5", "3.0"))
    assert Labels.from_examples("single", examples("1.5", "v2")).names == ("1.5", "v2")
    assert Labels.from_examples("single", examples("nan", "1.5")).names == ("1.5", "nan")


@pytest.mark.parametrize("kind", ["single", "multi", "regression"])
def test_labels_become_plain_values_and_come_back(kind):
    labels = Labels(kind, () if kind == "regression" else ("a", "b"))
    values = labels.to_dict()
    assert values == {"kind": kind, "names": list(labels.names)}
    assert Labels.from_dict(values) == labels
