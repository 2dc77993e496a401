"""The sicknesses that show within some steps; the script trains all of them for longer."""

from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def proof(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import prove_alerts

    return prove_alerts


@pytest.fixture
def text(proof, tmp_path):
    return proof.made_up_text(tmp_path / "text.txt", 2000)


@pytest.mark.parametrize(
    "name",
    [
        "no 1/√d",
        "norm in float16, epsilon too small",
        "frozen embeddings",
        "heads initialised alike",
        "learning rate × 100",
    ],
)
def test_a_sick_training_raises_its_own_alert_first(proof, text, name):
    raised = proof.train(proof.SICKNESSES[name], text, 60)
    assert proof.is_found(proof.SICKNESSES[name], raised), raised


def test_a_healthy_training_raises_none(proof, text):
    assert proof.train(proof.SICKNESSES["healthy GPT"], text, 60) == []


def test_an_alert_that_does_not_belong_is_not_passed(proof):
    sickness = proof.SICKNESSES["frozen embeddings"]
    own = (sickness.alert, 20)
    assert proof.is_found(sickness, [own])
    assert not proof.is_found(sickness, [])
    assert not proof.is_found(sickness, [own, ("units_dying", 30)])
    assert not proof.is_found(sickness, [("units_dying", 10), own])
