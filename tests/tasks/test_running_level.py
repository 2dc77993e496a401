import pytest
import torch

from pretrain.tasks.running_level import RunningLevel


def run(values, threshold=6.0, window=20):
    """Judge one figure after the other; returns the level and the indices of the spikes."""
    level = RunningLevel(1, threshold, window)
    verdicts = [bool(level.judge(torch.tensor([value]).double())) for value in values]
    return level, [index for index, is_spike in enumerate(verdicts) if is_spike]


def noise(n, mean=3.0, std=0.2):
    return (mean + std * torch.randn(n, generator=torch.Generator().manual_seed(0))).tolist()


def test_it_is_mean_and_variance_of_all_while_there_are_few():
    values = noise(20)
    state = run(values)[0].state_dict()
    assert state["mean"].item() == pytest.approx(torch.tensor(values).mean().item(), rel=1e-6)
    variance = torch.tensor(values).var(correction=0).item()
    assert state["variance"].item() == pytest.approx(variance, rel=1e-5)


def test_then_the_weights_of_older_steps_fall_exponentially():
    values = torch.tensor(noise(60)).double()
    level = run(values.tolist(), window=20)[0]
    weights = torch.full((60,), 1 / 20, dtype=torch.float64)
    weights[20:] *= 0.95 ** torch.arange(39, -1, -1).double()
    weights[:20] *= 0.95**40
    mean = (weights * values).sum() / weights.sum()
    assert weights.sum().item() == pytest.approx(1.0)
    assert level.mean.item() == pytest.approx(mean.item(), rel=1e-9)
    variance = (weights * (values - mean).square()).sum()
    assert level.state_dict()["variance"].item() == pytest.approx(variance.item(), rel=1e-9)


def test_a_rise_is_a_spike_and_a_fall_is_none():
    values = noise(40)
    values[30], values[35] = 6.0, 0.0
    assert run(values)[1] == [30]


def test_nothing_is_a_spike_before_there_is_a_level():
    values = noise(40)
    values[19] = 60.0
    assert run(values)[1] == []
    values[20] = 600.0
    assert run(values)[1] == [20]


def test_noise_about_a_falling_curve_is_no_spike():
    values = [3.0 + 5.0 * 0.99**step + wobble for step, wobble in enumerate(noise(5000, 0.0))]
    assert run(values, window=100)[1] == []


def test_a_small_rise_of_a_very_steady_level_is_no_spike():
    assert run([2.0] * 30 + [2.09])[1] == []
    assert run([2.0] * 30 + [2.11])[1] == [30]


def test_a_spike_moves_the_level_to_its_bound_at_most():
    values = noise(30)
    small, large = (run([*values, spike])[0].mean.item() for spike in (30.0, 3e9))
    assert small == large
    assert small < 3.5


def test_a_level_that_has_risen_for_good_is_believed_after_some_steps():
    spikes = run(noise(40) + noise(60, mean=13.0))[1]
    assert spikes == list(range(40, 40 + len(spikes)))
    assert 0 < len(spikes) < 20


def test_any_of_several_figures_may_be_the_spike():
    for place in range(2):
        level = RunningLevel(2, 6.0, 10)
        for _ in range(10):
            level.judge(torch.tensor([1.0, 5.0]).double())
        spike = torch.tensor([1.0, 5.0]).double()
        spike[place] += 0.2
        assert level.judge(spike)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_no_spike_and_leaves_no_trace(value):
    level = run(noise(30))[0]
    before = level.state_dict()
    assert not level.judge(torch.tensor([value]).double())
    assert all(torch.equal(before[name], now) for name, now in level.state_dict().items())


def test_it_never_waits_for_the_device():
    """A meta tensor has no value that could be asked for."""
    level = RunningLevel(2, 6.0, 10)
    level.to(torch.device("meta"))
    assert level.judge(torch.zeros(2, dtype=torch.float64, device="meta")).device.type == "meta"


def test_a_level_goes_on_from_its_state():
    values = noise(60)
    whole = run(values)[0]
    resumed = RunningLevel(1, 6.0, 20)
    resumed.load_state_dict(run(values[:25])[0].state_dict())
    for value in values[25:]:
        resumed.judge(torch.tensor([value]).double())
    assert resumed.mean == whole.mean
