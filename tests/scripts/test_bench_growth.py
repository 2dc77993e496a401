"""What the bench of growth measures, and what it expects there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import bench_growth

    return bench_growth


@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_every_point_has_the_same_tokens_a_step(bench, kind):
    for axis, points in bench.axes_of(kind).items():
        assert len(points) >= 2
        for point in points:
            assert point.workload.kind == kind
            assert point.workload.tokens_per_step == bench.TOKENS, (axis, point)


def test_a_recomputed_forward_pass_is_a_third_of_the_blocks(bench):
    off, on = bench.axes_of("gpt")[bench.CHECKPOINTED]
    shape = on.workload
    assert off.workload == shape
    # 72·L·d² + 6·L·S·d, by the tokens of a step
    blocks = (72 * 16 * 256**2 + 6 * 16 * 128 * 256) * 4096
    assert off.flops == pytest.approx(blocks + 6 * 256 * 8192 * 4096)
    assert on.flops - off.flops == pytest.approx(blocks / 3)


def test_expected_times_grow_with_the_flops_from_the_first_measured_point(bench):
    points = bench.with_expected_time([
        {"flops": 5.0, "left_out": "it broke"},
        {"flops": 10.0, "seconds_per_step": 2.0},
        {"flops": 40.0, "seconds_per_step": 10.0},
    ])  # fmt: skip
    assert "expected_s" not in points[0]
    assert points[1]["time_departure"] == 0
    assert points[2]["expected_s"] == pytest.approx(8)
    assert points[2]["time_departure"] == pytest.approx(0.25)


def test_the_expected_memory_is_that_of_the_shape(bench):
    shape = replace(bench.USUAL, kind="gpt", n_layers=2, seq_len=1024, batch_size=8)
    kept, recomputed = (
        bench.expected_memory_mib(bench.Point("", shape, recomputes), "32-true")
        for recomputes in (False, True)
    )
    weights = 8192 * 256 + 1024 * 256 + 2 * 12 * 256**2
    assert recomputed > 16 * weights / 2**20  # with gradients and two moments
    # At the least the input and the output of the activation, 4 · d_model wide, of the first block
    assert kept - recomputed > 2 * 8 * 1024 * 4 * 256 * 4 / 2**20


def test_figures_and_tables_come_from_what_was_measured(bench, monkeypatch, tmp_path, capsys):
    from step_rounds import Measurement

    def measured(workload, variants, precision, n_rounds, n_steps, tell):
        if workload.n_layers == 2:
            return Measurement(workload, left_out={variants[0]: "it broke"})
        memory = {"peak_mib": 900.0, "net_peak_mib": 200.0}
        return Measurement(workload, {variants[0]: [3.0, 1.0, 2.0]}, {variants[0]: memory})

    monkeypatch.setattr(bench, "measure", measured)
    monkeypatch.setattr(bench, "expected_memory_mib", lambda point, precision: 100.0)
    monkeypatch.setattr(bench, "resolve_precision", lambda name: "32-true")
    target = tmp_path / "report.json"
    bench.main([f"--json={target}"])
    report = json.loads(target.read_text())
    for kind in ("bert", "gpt"):
        assert set(report[kind]) == {*bench.AXES, bench.CHECKPOINTED}
        broken, *others = report[kind]["n_layers"]
        assert broken["left_out"] == "it broke"
        assert all(point["seconds_per_step"] == 2.0 for point in others)
        assert all(point["memory_departure"] == pytest.approx(1.0) for point in others)
    assert "| 2 | it broke |" in capsys.readouterr().out
