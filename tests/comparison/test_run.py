import os

import pytest
from run_folders import config, curve, write_run

from pretrain.comparison.run import distinct_names, find_runs, load_runs
from pretrain.errors import UserError


def test_runs_are_found_two_levels_down_the_newest_last(tmp_path):
    for age, name in enumerate(["c", "sweep/a", "b"]):
        path = write_run(tmp_path / name, {})
        os.utime(path / "summary.json", (1000 - age, 1000 - age))
    write_run(tmp_path / "too" / "deep" / "run", {})
    (tmp_path / "no_run").mkdir()
    assert [run.name for run in find_runs(tmp_path)] == ["b", "sweep/a", "c"]
    assert [run.name for run in find_runs(tmp_path / "c")] == ["c"]
    assert find_runs(tmp_path / "nothing") == []


def test_alike_names_get_as_many_folders_as_they_need(tmp_path):
    paths = [tmp_path / name for name in ("x/1/a", "y/1/a", "b", "z/c")]
    assert distinct_names(paths) == ["x/1/a", "y/1/a", "b", "c"]


def test_names_hold_no_control_characters(tmp_path):
    assert distinct_names([tmp_path / "a\x1b[31m"]) == ["a?[31m"]


def test_a_run_that_is_not_there_is_named_with_the_nearest(tmp_path):
    write_run(tmp_path / "gpt_mini", {})
    with pytest.raises(UserError, match=r"did you mean .*gpt_mini"):
        load_runs([str(tmp_path / "gpt_mimi")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no run.*summary\.json"):
        load_runs([str(tmp_path / "empty")])
    with pytest.raises(UserError, match="named twice"):
        load_runs([str(tmp_path / "gpt_mini"), str(tmp_path / "empty" / ".." / "gpt_mini")])


def test_what_a_card_lacks_is_taken_from_the_metrics(tmp_path):
    missing = {"best_val_loss_nats": None, "train_loss_nats": None, "steps": None}
    path = write_run(tmp_path / "a", missing, config(), curve(5.0, 2.0))
    (run,) = load_runs([str(path / "summary.json")])
    assert run.figure("best_val_loss_nats") == pytest.approx(2.0)
    assert run.figure("train_loss_nats") == pytest.approx(1.9)
    assert run.figure("steps") == 500
    assert run.figure("tokens_seen") == 1_536_000  # the card's own stays


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"alerts": 3, "steps": "x", "status": null}'])
def test_a_card_of_any_content_is_read(text, tmp_path):
    (tmp_path / "summary.json").write_text(text)
    (run,) = load_runs([str(tmp_path)])
    assert run.status == "unknown"
    assert run.alerts == []
    assert run.figure("steps") is None
