import csv
import math

from pretrain.runs.metrics_file import MetricsFile, cut_back


def _rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_is_logged_at_one_step_stands_in_one_row(tmp_path):
    path = tmp_path / "metrics.csv"
    log = MetricsFile(path)
    log.log_metrics({"val/loss": 4.0}, step=0)
    log.log_metrics({"train/loss": 3.5}, step=1)
    log.log_metrics({"lr": 0.1}, step=1)
    log.log_metrics({"val/loss": 3.0}, step=1)
    log.log_metrics({"train/loss": 3.2, "lr": 0.2}, step=2)
    rows = _rows(path)
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert rows[1] == {"step": "1", "train/loss": "3.5", "lr": "0.1", "val/loss": "3.0"}
    assert rows[0]["train/loss"] == ""


def test_every_row_is_on_disk_at_once(tmp_path):
    path = tmp_path / "metrics.csv"
    log = MetricsFile(path)
    for step in range(5):
        log.log_metrics({"a": step / 3}, step=step)
        assert float(_rows(path)[-1]["a"]) == step / 3


def test_numbers_that_are_none_survive(tmp_path):
    path = tmp_path / "metrics.csv"
    MetricsFile(path).log_metrics({"a": math.nan}, step=1)
    assert math.isnan(float(_rows(path)[0]["a"]))


def test_a_second_start_goes_on_and_no_step_is_doubled(tmp_path):
    path = tmp_path / "metrics.csv"
    first = MetricsFile(path)
    for step in range(1, 6):
        first.log_metrics({"a": step}, step=step)
    cut_back(path, 3)
    second = MetricsFile(path)
    for step in range(4, 7):
        second.log_metrics({"a": -step, "new": 1}, step=step)
    rows = _rows(path)
    assert [row["step"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row["a"] for row in rows] == ["1", "2", "3", "-4", "-5", "-6"]


def test_a_row_cut_short_by_a_crash_is_dropped(tmp_path):
    path = tmp_path / "metrics.csv"
    log = MetricsFile(path)
    log.log_metrics({"a": 1, "b": 2}, step=1)
    with path.open("a") as file:
        file.write("2,0.")
    cut_back(path, 2)
    MetricsFile(path).log_metrics({"a": 5, "b": 6}, step=2)
    assert [(row["step"], row["a"], row["b"]) for row in _rows(path)] == [
        ("1", "1", "2"),
        ("2", "5", "6"),
    ]


def test_cutting_a_file_that_is_not_there_does_nothing(tmp_path):
    cut_back(tmp_path / "metrics.csv", 0)
    assert not (tmp_path / "metrics.csv").exists()


def test_a_second_start_adds_to_the_row_of_the_step_that_it_goes_on_from(tmp_path):
    path = tmp_path / "metrics.csv"
    first = MetricsFile(path)
    first.log_metrics({"a": 1.0}, step=1)
    first.log_metrics({"a": 2.0, "val/loss": 5.0}, step=2)
    second = MetricsFile(path)
    second.log_metrics({"val/loss": 4.0}, step=2)
    second.log_metrics({"b": 7.0}, step=2)
    second.log_metrics({"a": 3.0}, step=3)
    assert _rows(path) == [
        {"step": "1", "a": "1.0", "b": "", "val/loss": ""},
        {"step": "2", "a": "2.0", "b": "7.0", "val/loss": "4.0"},
        {"step": "3", "a": "3.0", "b": "", "val/loss": ""},
    ]
