import pytest

from pretrain.comparison.configuration import MISSING, differences, flatten, in_words, read_settings


def test_keys_are_those_of_the_command_line():
    config = {
        "model": {"class_path": "a.M", "init_args": {"network": {"d": 1}, "lr": 0.1}},
        "data": {"source": ["x", "y"], "masking": None},
    }
    assert flatten(config) == {
        "model": "a.M", "model.network.d": 1, "model.lr": 0.1,
        "data.source": ["x", "y"], "data.masking": None,
    }  # fmt: skip


def test_classes_of_a_list_are_told_apart():
    callbacks = [
        {"class_path": "p.Spikes", "init_args": {"action": "skip"}},
        {"class_path": "p.Bad"},
    ]
    flat = flatten({"callbacks": callbacks})
    assert flat["callbacks.Spikes.action"] == "skip"
    assert flat["callbacks.Bad"] == "p.Bad"
    twice = flatten({"callbacks": [callbacks[1], callbacks[1]]})
    assert set(twice) == {"callbacks.0", "callbacks.1"}


def test_only_what_differs_is_told_the_model_first():
    rows = differences(
        [
            {"trainer.steps": 1, "model.lr": 1e-6, "data.x": "a", "run_name": "1"},
            {"trainer.steps": 2, "model.lr": "1e-06", "data.x": "b", "run_name": "2"},
            {"trainer.steps": 2, "model.lr": 0.000001, "data.x": "b", "model.new": None},
        ]
    )
    assert [row.key for row in rows] == ["model.new", "data.x", "trainer.steps"]
    assert rows[0].values == (MISSING, MISSING, "null")
    assert rows[2].values == ("1", "2", "2")


def test_a_configuration_that_is_not_known_makes_no_difference():
    rows = differences([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {}])
    assert rows == [("b", ("1", "2", MISSING))]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), ([0.8, 0.95], "[0.8, 0.95]"), (2000, "2000"), ("", '""'),
     (1e-8, "1e-08"), ("a\nb", "a b"), (0.0, "0")],
)  # fmt: skip
def test_a_setting_in_words(value, text):
    assert in_words(value) == text


@pytest.mark.parametrize("text", [None, "a: [", "just words", "- a\n- b", ""])
def test_a_configuration_that_cannot_be_read_is_empty(text, tmp_path):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    assert read_settings(tmp_path / "config.yaml") == {}
