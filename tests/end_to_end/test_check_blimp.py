"""The script that compares fast and slow judgements, on tiny models."""

import importlib.util
import itertools
from pathlib import Path

import pytest
from judges import SENTENCES, make_judge

from pretrain.evaluation.blimp import Pair

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_blimp.py"


@pytest.mark.parametrize("kind", ["clm", "mlm"])
def test_both_ways_agree_and_a_difference_would_be_seen(kind, monkeypatch):
    spec = importlib.util.spec_from_file_location("check_blimp", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    task, _ = make_judge(kind)
    pairs = [Pair(a, b, "u", "t", "f") for a, b in itertools.pairwise(SENTENCES)]
    found = script.compare(task, pairs)
    assert found["32-true"]["judged_otherwise"] == 0
    assert found["32-true"]["largest_difference_nats"] < script.LARGEST_DIFFERENCE
    assert found["32-true"]["accuracy"] == found["slow"]["accuracy"]
    slow = script.slow_log_probability
    monkeypatch.setattr(script, "slow_log_probability", lambda *args: slow(*args) - 1)
    found = script.compare(task, pairs)
    assert found["32-true"]["largest_difference_nats"] > script.LARGEST_DIFFERENCE
