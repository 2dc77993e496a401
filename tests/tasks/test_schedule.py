import itertools
import math

import pytest

from pretrain.tasks.schedule import ScheduleConfig, rate_factor


def rates(max_steps, d_model=64, **options):
    factor = rate_factor(ScheduleConfig(**options), max_steps, d_model)
    return [factor(k) for k in range(1, max_steps + 1)]


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant_then_linear"])
def test_the_peak_is_at_the_end_of_the_warm_up_and_the_floor_at_the_last_step(kind):
    values = rates(20, kind=kind, warmup=4, floor=0.1)
    assert values[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert max(values) == values[3] == 1.0
    assert values[-1] == pytest.approx(0.1)
    assert all(a >= b for a, b in itertools.pairwise(values[3:]))


def test_hand_computed_points():
    assert rates(10, kind="linear")[4] == pytest.approx(0.5)
    cosine = rates(20, kind="cosine", warmup=10)
    assert cosine[14] == pytest.approx(0.5)
    assert cosine[12] == pytest.approx(0.5 * (1 + math.cos(0.3 * math.pi)))
    stable = rates(100, stable_share=0.4)
    assert stable[:40] == [1.0] * 40
    assert stable[69] == pytest.approx(0.5)
    assert stable[99] == 0.0


def test_inverse_square_root_is_the_papers_rate():
    values = rates(10_000, d_model=512, kind="inverse_sqrt", warmup=4000)
    for step in (1, 100, 4000, 9000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert values[step - 1] == pytest.approx(paper)
    assert max(values) == values[3999]


def test_a_share_of_all_steps_may_warm_up():
    assert ScheduleConfig(warmup=0.1).warmup_steps(2000) == 200
    assert ScheduleConfig(warmup=300).warmup_steps(2000) == 300


def test_a_warm_up_without_an_end_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"100 steps .* \(100\)"):
        ScheduleConfig(warmup=100).warmup_steps(100)


@pytest.mark.parametrize(
    "wrong",
    [{"warmup": -1}, {"warmup": 2.5}, {"stable_share": 1.5}, {"floor": -0.1},
     {"kind": "inverse_sqrt"}],
)  # fmt: skip
def test_values_that_make_no_schedule_are_refused(wrong):
    with pytest.raises(ValueError, match=r"\.$"):
        ScheduleConfig(**wrong)
