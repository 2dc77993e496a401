"""The curves of runs as plain data for the page, thinned out until they fit."""

import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pretrain.comparison.metrics import Metrics, Series, at_step, seconds_of
from pretrain.comparison.run import Run

BUDGET = 1_500_000  # characters of JSON; the page has to stay under 2 MB
_POINTS = (1000, 500, 250, 120, 60, 30, 16)  # per curve
_LOSSES = ("val/loss", "train/loss")  # have up to the first of these, as far as they get along
_CHARACTERS = 16  # of a step and its value
_IN_LAYER = re.compile(r"(.+?)/layer_(\d+)(?:/head_\d+)?(.*)")
_WHOLE = "network"


def page_data(runs: Sequence[Run], budget: int = BUDGET) -> tuple[dict[str, Any], str | None]:
    """What the page draws, and a sentence where something had to be left out.

    ``{"runs": [{"name", "clock"}], "steps": [[...]], "charts": [{"name", "views": [{"name",
    "series": [[index of steps, values] or null, one a run]}]}]}``. ``clock`` says how many tokens
    were seen and seconds were trained at certain steps.
    """
    charts = _charts([run.metrics for run in runs])
    for points in _POINTS:
        if _size(charts, points, budget) <= budget:
            return _written(runs, charts, points, budget), None
    while _size(charts, _POINTS[-1], budget) > budget:
        others = [i for i, (name, _) in enumerate(charts) if name not in _LOSSES]
        if not others:
            break
        largest = max(others, key=lambda i: len(charts[i][1]))
        name, views = charts[largest]
        if len(views) > 1:  # of many layers their summary stays
            charts[largest] = (name, dict([next(iter(views.items()))]))
        else:
            charts.pop(largest)
    note = "Some curves, of single layers first, are left out, so that the page stays small."
    return _written(runs, charts, _POINTS[-1], budget), note


def thinned(series: Series, n: int) -> Series:
    """At most ``n`` (at least 4) points: both ends, and the lowest and highest of every stretch."""
    length = len(series.steps)
    if length <= n:
        return series
    inner, stretches = range(1, length - 1), max((n - 2) // 2, 1)
    kept = {0, length - 1}
    for i in range(stretches):
        part = inner[i * len(inner) // stretches : (i + 1) * len(inner) // stretches]
        values = series.values[part.start : part.stop]
        kept |= {part.start + values.index(min(values)), part.start + values.index(max(values))}
    order = sorted(kept)
    return Series([series.steps[k] for k in order], [series.values[k] for k in order])


def views_of(metrics: Metrics) -> dict[str, dict[str, Series]]:
    """Metrics by family, such as ``attention/entropy``, and in it by view.

    Views are the network's own series, or the mean, lowest and highest of all layers and heads;
    then each layer's mean over its heads.
    """
    families: dict[str, dict[str, list[Series]]] = {}
    for name, series in metrics.series.items():
        match = _IN_LAYER.fullmatch(name)
        family = name if match is None else match[1] + match[3]
        layer = _WHOLE if match is None else f"layer {match[2]}"
        families.setdefault(family, {}).setdefault(layer, []).append(series)
    return {family: _views(layers) for family, layers in sorted(families.items())}


def _views(layers: dict[str, list[Series]]) -> dict[str, Series]:
    views: dict[str, Series] = {}
    inside = [series for name, all_of in layers.items() if name != _WHOLE for series in all_of]
    if _WHOLE in layers:
        views[_WHOLE] = layers[_WHOLE][0]
    elif len(inside) > 1:
        views["mean of all"] = _over(inside, fmean)
    if len(inside) > 1:
        views |= {"lowest of all": _over(inside, min), "highest of all": _over(inside, max)}
    by_number = sorted(set(layers) - {_WHOLE}, key=lambda name: int(name.split()[1]))
    return views | {name: _over(layers[name], fmean) for name in by_number}


def _over(group: Sequence[Series], rule: Any) -> Series:
    """``rule`` over the values of each step."""
    if len(group) == 1:
        return group[0]
    if all(series.steps == group[0].steps for series in group):
        return Series(
            group[0].steps, [rule(at) for at in zip(*(s.values for s in group), strict=True)]
        )
    at: dict[int, list[float]] = {}
    for series in group:
        for step, value in zip(*series, strict=True):
            at.setdefault(step, []).append(value)
    steps = sorted(at)
    return Series(steps, [rule(at[step]) for step in steps])


_Chart = tuple[str, dict[str, list[Series | None]]]


def _charts(metrics: Sequence[Metrics]) -> list[_Chart]:
    """Per family its views, each with one series a run; both losses first."""
    families = [views_of(one) for one in metrics]
    names = sorted({name for views in families for name in views if not name.startswith("final/")})
    names.sort(key=lambda name: _LOSSES.index(name) if name in _LOSSES else len(_LOSSES))
    charts: list[_Chart] = []
    for name in names:
        # The deepest run knows all layers of the others, in the right order.
        views = max((one.get(name, {}) for one in families), key=len)
        charts.append((name, {v: [one.get(name, {}).get(v) for one in families] for v in views}))
    return charts


def _points(name: str, n_runs: int, points: int, budget: int) -> int:
    """How many points a curve of this chart may have: losses take a fifth of all at most."""
    if name not in _LOSSES:
        return points
    room = budget // (5 * len(_LOSSES) * n_runs * _CHARACTERS)
    return max(min(_POINTS[0], room), points, _POINTS[-1])


def _written(
    runs: Sequence[Run], charts: Sequence[_Chart], points: int, budget: int
) -> dict[str, Any]:
    """The data, thinned out; the same steps are written once."""
    tables: dict[tuple[int, ...], int] = {}

    def curve(name: str, series: Series | None) -> list[Any] | None:
        if series is None:
            return None
        steps, values = thinned(series, _points(name, len(runs), points, budget))
        table = tables.setdefault(tuple(steps), len(tables))
        return [table, [float(f"{value:.5g}") for value in values]]

    written = [
        {
            "name": name,
            "views": [
                {"name": view, "series": [curve(name, series) for series in each]}
                for view, each in views.items()
            ],
        }
        for name, views in charts
    ]
    runs_too = [{"name": run.name, "clock": _clock(run.metrics)} for run in runs]
    return {"runs": runs_too, "charts": written, "steps": [list(steps) for steps in tables]}


def _clock(metrics: Metrics, points: int = 200) -> dict[str, list[float] | None]:
    """Steps with the tokens and seconds until then; None where they are not known."""
    tokens, seconds = metrics.series.get("speed/tokens_seen"), seconds_of(metrics)
    known = tokens or seconds
    if known is None:
        return {"steps": None, "tokens": None, "seconds": None}
    every = max(len(known.steps) // points, 1)
    steps = sorted({0, *known.steps[::every], known.steps[-1]})
    return {
        "steps": [*map(float, steps)],
        "tokens": None if tokens is None else [round(at_step(tokens, s)) for s in steps],
        "seconds": None if seconds is None else [round(at_step(seconds, s), 1) for s in steps],
    }


def _size(charts: Sequence[_Chart], points: int, budget: int) -> int:
    """At most about how many characters of JSON the charts become."""
    return sum(
        10 + _CHARACTERS * min(len(series.steps), _points(name, len(each), points, budget))
        for name, views in charts
        for each in views.values()
        for series in each
        if series is not None
    )
