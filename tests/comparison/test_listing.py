import pytest
from run_folders import write_run

from pretrain.comparison.listing import COLUMNS, listing, sorted_runs
from pretrain.comparison.run import find_runs
from pretrain.errors import UserError

ALERTS = [{"name": "units_dying"}, {"name": "heads_alike"}, {"name": "heads_alike"}]


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "slow", {"best_val_loss_nats": 1.5, "tokens_per_s": 10.0})
    write_run(tmp_path / "quick_and_poor", {"best_val_loss_nats": 2.5, "alerts": ALERTS})
    old = {"best_val_loss_nats": None, "tokens_per_s": None, "alerts": None, "status": "running"}
    write_run(tmp_path / "old", old)
    return find_runs(tmp_path)


def _names(runs):
    return [run.name for run in runs]


@pytest.mark.parametrize(
    ("key", "first"),
    [("best", "slow"), ("tokens_per_s", "quick_and_poor"), ("name", "old"), ("alerts", "slow")],
)
def test_the_best_comes_first_and_the_unknown_last(key, first, runs):
    found = _names(sorted_runs(runs, key))
    assert found[0] == first or (key == "alerts" and found[-1] == "quick_and_poor")
    assert sorted(found) == ["old", "quick_and_poor", "slow"]
    if key in ("best", "tokens_per_s"):
        assert found[-1] == "old"


@pytest.mark.parametrize("key", [column.key for column in COLUMNS])
def test_every_column_sorts(key, runs):
    assert len(sorted_runs(runs, key)) == 3


def test_a_wrong_key_gets_the_nearest(runs):
    with pytest.raises(UserError, match="did you mean best"):
        sorted_runs(runs, "bestt")


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120, 500])
def test_no_line_is_wider_than_the_terminal_and_what_matters_stays(width, runs):
    lines = listing(runs, width)
    assert max(map(len, lines)) <= width
    assert len(lines) == 4
    assert "best val loss" in lines[0]
    assert any("1.5000" in line for line in lines)


def test_alerts_are_named_where_there_is_room_else_counted(runs):
    assert any("units dying, heads alike" in line for line in listing(runs, 500))
    counted = listing(runs, 72)
    assert "alerts" in counted[0]
    assert not any("units" in line for line in counted)


def test_columns_that_say_nothing_are_left_out(runs):
    assert "accuracy" not in listing(runs, 500)[0]


def test_columns_are_aligned(runs):
    head, *lines = listing(runs, 500)
    end = head.index("best val loss") + len("best val loss")
    assert all(line[end : end + 2] == "  " and line[end - 1] != " " for line in lines)
