"""Every value of the table of scripts/prove_resume.py, at least once."""

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
# source, workers, ranks, point, how, accumulate, micro-batch, half precision
ROWS = [
    ("file", 0, 1, "middle of an epoch", "SIGTERM", 1, 7, False),
    ("shards", 2, 1, "end of an epoch", "SIGINT", 1, 7, False),
    ("file", 2, 1, "start of an epoch", "kill", 1, 7, False),
    ("mixture", 0, 1, "second epoch", "exception", 1, 7, False),
    ("stream of a file", 0, 1, "twice in a row", "SIGUSR1", 1, 7, False),
    ("stream of shards", 2, 1, "end of an epoch", "SIGTERM", 1, 7, False),
    ("stream of shards", 0, 1, "start of an epoch", "kill", 1, 7, False),
    ("shards", 0, 2, "middle of an epoch", "SIGTERM", 1, 7, False),
    ("file", 0, 1, "middle of an epoch", "SIGTERM", 4, 5, False),
    ("file", 0, 1, "middle of an epoch", "exception", 4, 6, False),
    ("file", 0, 1, "middle of an epoch", "SIGINT", 4, 7, False),
    ("file", 0, 1, "middle of an epoch", "kill", 4, 7, False),
    ("file", 0, 1, "middle of an epoch", "exception", 1, 7, True),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        script = importlib.import_module("prove_resume")
        yield script, script.Bench(tmp_path_factory.mktemp("resume"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(map(str, row)))
def test_a_run_that_goes_on_ends_as_the_uninterrupted_one(bench, row):
    script, place = bench
    case = script.Case(*row)
    proof = place.prove(case)
    assert proof["differences"] == []
    if case.how != "kill":  # which alone is not told of: what was complete when it came is saved
        for saved, (epoch, batch) in zip(proof["saved"], case.places, strict=True):
            assert saved > 0
            assert epoch > 0 or saved >= batch // case.accumulate


def test_kills_at_random_moments_lose_nothing(bench):
    assert bench[1].prove_kills(3)["differences"] == []


def test_the_comparison_sees_what_differs(bench):
    """A proof that finds nothing must be able to find something."""
    import torch

    script = bench[0]
    a = {"weights": torch.ones(2), "step": 3, "loss": ["2.5"], "place": {"block": 1}}
    b = {"weights": torch.tensor([1.0, 1.1]), "step": 4, "loss": ["2.6"], "place": {}}
    assert {path.split(":")[0] for path in script.differences(a, b, 0.0)} == {
        "/weights", "/step", "/loss/0", "/place/block is in one only"
    }  # fmt: skip
    close = {"weights": torch.ones(2) * (1 + 1e-7), "loss": ["2.5000001"]}
    assert [*script.differences({key: a[key] for key in close}, close, 1e-6)] == []
    assert len([*script.differences({key: a[key] for key in close}, close, 0.0)]) == 2
