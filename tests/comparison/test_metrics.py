import math

import pytest

from pretrain.comparison.metrics import (
    Metrics,
    Series,
    at_step,
    first_at_most,
    read_metrics,
    seconds_of,
)


def _read(tmp_path, text):
    (tmp_path / "metrics.csv").write_text(text)
    return read_metrics(tmp_path / "metrics.csv")


def test_what_is_no_number_and_half_rows_are_left_out(tmp_path):
    metrics = _read(tmp_path, "step,a,b\n0,1,\n5,nan,2\n10,x,inf\n20,3\nz,1,1\n15,4,5\n30,6,7.12")
    assert metrics.series == {"a": Series([0, 15], [1, 4]), "b": Series([5, 15], [2, 5])}
    assert metrics.last_step == 15


def test_of_a_step_that_was_repeated_the_later_one_counts(tmp_path):
    metrics = _read(tmp_path, "step,a\n1,1\n2,2\n3,3\n2,20\n3,\n")
    assert metrics.series["a"] == Series([1, 2, 3], [1, 20, 3])


@pytest.mark.parametrize("text", ["", "step\n", "step,a\n", "\x00\x00", "\n\n"])
def test_a_file_without_figures_is_no_fault(text, tmp_path):
    assert _read(tmp_path, text).series == {}
    assert read_metrics(tmp_path / "none.csv") == Metrics()


def test_time_is_what_was_logged_else_tokens_by_their_speed():
    tokens, speed = Series([10, 20, 40], [100, 200, 400]), Series([10, 20, 40], [50, 100, 25])
    found = seconds_of(Metrics({"speed/tokens_seen": tokens, "speed/tokens_per_s": speed}))
    assert found == Series([10, 20, 40], [2.0, 3.0, 11.0])
    logged = Series([1], [7.0])
    assert seconds_of(Metrics({"time/seconds": logged, "speed/tokens_seen": tokens})) == logged
    assert seconds_of(Metrics({"speed/tokens_seen": tokens})) is None


def test_a_clock_runs_straight_between_its_points():
    clock = Series([10, 20], [100.0, 300.0])
    assert [at_step(clock, s) for s in (0, 5, 10, 15, 20, 99)] == [0, 50, 100, 200, 300, 300]
    assert math.isclose(at_step(Series([0], [3.0]), 0), 3.0)


def test_the_first_step_that_reached_a_loss():
    assert first_at_most(Series([0, 10, 20], [5.0, 3.0, 4.0]), 4.0) == 10
    assert first_at_most(Series([0], [5.0]), 4.0) is None
