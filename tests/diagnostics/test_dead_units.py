import pytest
import torch

from pretrain.diagnostics import DeadUnits, count_active


def probe(metric, pre_activation, real):
    metric.update(count_active(pre_activation, real)[None], real.sum())
    return metric.compute()


def units(alive, n_units=16, batch=2, seq=3):
    """Pre-activations that are positive for the units in ``alive`` alone, on the last token."""
    x = -torch.rand(batch, seq, n_units)
    x[:, -1, alive] = 1.0
    return x


ALL_REAL = torch.ones(2, 3, dtype=torch.bool)


def test_three_of_sixteen_dead_units_are_three_sixteenths():
    result = probe(DeadUnits(1, 16), units(alive=range(3, 16)), ALL_REAL)
    assert result["share"].item() == 3 / 16
    assert result["n_tokens"].item() == 6


def test_zero_is_not_positive():
    assert probe(DeadUnits(1, 4), torch.zeros(2, 3, 4), ALL_REAL)["share"].item() == 1.0


def test_a_unit_alive_on_padding_alone_is_dead():
    real = ALL_REAL.clone()
    real[:, -1] = False
    result = probe(DeadUnits(1, 16), units(alive=range(16)), real)
    assert result["share"].item() == 1.0
    assert result["n_tokens"].item() == 4


def test_a_unit_alive_in_the_second_probe_alone_is_alive():
    metric = DeadUnits(1, 16, window=3)
    assert probe(metric, units(alive=range(8)), ALL_REAL)["share"].item() == 8 / 16
    assert probe(metric, units(alive=[15]), ALL_REAL)["share"].item() == 7 / 16
    assert probe(metric, units(alive=[]), ALL_REAL)["share"].item() == 7 / 16


def test_a_unit_dead_since_before_the_window_is_dead():
    metric = DeadUnits(1, 16, window=3)
    probe(metric, units(alive=range(16)), ALL_REAL)
    shares = [probe(metric, units(alive=[0]), ALL_REAL)["share"].item() for _ in range(3)]
    assert shares == [0.0, 0.0, 15 / 16]
    assert metric.compute()["n_tokens"].item() == 3 * 6


def test_layers_are_judged_apart():
    metric = DeadUnits(2, 16)
    active = torch.stack(
        [count_active(units(alive=alive), ALL_REAL) for alive in (range(4), range(12))]
    )
    metric.update(active, ALL_REAL.sum())
    assert metric.compute()["share"].tolist() == [12 / 16, 4 / 16]


def test_without_a_real_token_there_is_no_share():
    nothing_real = torch.zeros(2, 3, dtype=torch.bool)
    result = probe(DeadUnits(1, 16), units(alive=[]), nothing_real)
    assert result["share"].isnan()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_counts_are_exact_in_any_precision(dtype):
    x = torch.ones(40, 40, 2, dtype=dtype)
    assert count_active(x, torch.ones(40, 40, dtype=torch.bool)).tolist() == [1600, 1600]
