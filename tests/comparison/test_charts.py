import json
import random

import pytest
from run_folders import config, curve, write_run

from pretrain.comparison.charts import page_data, thinned, views_of
from pretrain.comparison.metrics import Metrics, Series
from pretrain.comparison.run import load_runs


@pytest.mark.parametrize("n", [4, 5, 50, 333])
def test_a_thinned_series_keeps_its_ends_its_extremes_and_its_order(n):
    values = [random.Random(n).gauss(0, 1) for _ in range(5000)]
    values[1234], values[4321] = 99.0, -99.0
    series = thinned(Series(list(range(0, 10_000, 2)), values), n)
    assert len(series.steps) <= n
    assert series.steps == sorted(set(series.steps))
    assert (series.steps[0], series.steps[-1]) == (0, 9998)
    assert {99.0, -99.0} <= set(series.values)
    assert all(values[step // 2] == value for step, value in zip(*series, strict=True))


def test_a_short_series_stays_as_it_is():
    series = Series([1, 2], [3.0, 4.0])
    assert thinned(series, 4) is series


def test_layers_are_means_over_heads_and_the_whole_is_summed_up():
    at = [0, 10]
    heads = {
        f"attention/entropy/layer_{i}/head_{j}": Series(at, [float(i), float(2 * i + j)])
        for i in (0, 10, 2)
        for j in (0, 1)
    }
    views = views_of(Metrics(heads))["attention/entropy"]
    assert list(views) == [
        "mean of all", "lowest of all", "highest of all", "layer 0", "layer 2", "layer 10",
    ]  # fmt: skip
    assert views["layer 10"] == Series(at, [10.0, 20.5])
    assert views["lowest of all"].values == [0.0, 0.0]
    assert views["highest of all"].values == [10.0, 21.0]
    assert views["mean of all"].values == [4.0, 8.5]


def test_the_networks_own_series_comes_first():
    norms = {"grad/norm": Series([1], [5.0]), "grad/norm/layer_0": Series([1], [3.0])}
    assert list(views_of(Metrics(norms))["grad/norm"]) == ["network", "layer 0"]


def _runs(tmp_path, rows, n=2):
    paths = [write_run(tmp_path / f"r{i}", {}, config(), rows) for i in range(n)]
    return load_runs([str(path) for path in paths])


def test_the_page_gets_every_metric_once_and_the_same_steps_once(tmp_path):
    data, note = page_data(_runs(tmp_path, curve(5.0, 1.0)))
    assert note is None
    assert [chart["name"] for chart in data["charts"][:2]] == ["val/loss", "train/loss"]
    assert len(data["steps"]) == 2  # with step 0 and without
    table, values = data["charts"][0]["views"][0]["series"][1]
    assert dict(zip(data["steps"][table], values, strict=True))[500] == 1.0
    clock = data["runs"][0]["clock"]
    assert clock["steps"] == [0, 100, 200, 300, 400, 500]
    assert clock["tokens"][-1] == 20_000
    assert clock["seconds"][-1] == 20.0


def test_long_runs_with_many_layers_stay_within_the_budget(tmp_path):
    draw = random.Random(0).random
    names = [f"attention/x/layer_{i}" for i in range(30)]
    rows = [
        {"step": step, "val/loss": draw(), "train/loss": draw(), **{name: draw() for name in names}}
        for step in range(400)
    ]
    runs = _runs(tmp_path, rows)
    data, note = page_data(runs, budget=200_000)
    assert note is None
    assert len(json.dumps(data, separators=(",", ":"))) < 200_000
    assert len(data["charts"][2]["views"]) == 33
    data, note = page_data(runs, budget=16_000)
    assert "left out" in note
    assert len(json.dumps(data, separators=(",", ":"))) < 16_000
    assert [chart["name"] for chart in data["charts"][:2]] == ["val/loss", "train/loss"]
