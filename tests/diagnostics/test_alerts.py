import json
import math

import pytest
import torch
from lightning.pytorch import Callback

from pretrain.diagnostics import SYMPTOMS, Alerts
from pretrain.diagnostics.alerts import raised_in
from pretrain.diagnostics.reporting import report
from pretrain.diagnostics.symptom import Symptom

COLD = Symptom(
    name="too_cold", series="room/temperature", low=10.0, patience=2,
    seen="it has {value:.0f} degrees", causes="a window", remedies="a coat",
)  # fmt: skip


class Weather(Callback):
    """Reports given figures, a list of dictionaries, one a step."""

    def __init__(self, days):
        self.days = days

    def on_train_batch_end(self, trainer, *args):
        report(trainer, self.days[trainer.global_step - 1])


@pytest.fixture
def weather(tiny_task, fit):
    def run(days, symptoms=(COLD,), **options):
        alerts = Alerts(symptoms)
        fit(tiny_task(), [Weather(days), alerts], len(days), **options)
        return alerts.raised

    return run


def days(name, *values):
    return [{name: value} for value in values]


def test_a_symptom_that_lasts_is_raised_once_with_place_and_worst_figure(weather):
    cold = {"room/temperature/floor_0/room_2": 5.0, "room/temperature/floor_1/room_0": 3.0}
    warm = {"room/temperature/floor_2/room_0": 20.0}
    (alert,) = weather([{**cold, **warm}] * 5)
    assert (alert.name, alert.step) == ("too_cold", 2)
    assert alert.where == "floor 0, room 2; floor 1, room 0"
    assert alert.title == "Too cold"
    assert alert.text == (
        "It has 3 degrees in floor 0, room 2; floor 1, room 0 (step 2). Likely causes: a window. "
        "Try first: a coat."
    )


@pytest.mark.parametrize("values", [(5, 20, 5, 20), (20, 10, 10), (5, math.nan, 5), (5,)])
def test_what_does_not_last_or_is_no_number_is_not_raised(weather, values):
    assert weather(days("room/temperature", *values)) == []


def test_another_series_that_begins_alike_is_not_watched(weather):
    assert weather(days("room/temperature_outside", 0, 0, 0)) == []


def test_streaks_of_different_places_do_not_add_up(weather):
    places = [{f"room/temperature/floor_{i}": 5.0} for i in range(4)]
    assert weather(places) == []


def test_figures_count_only_where_enough_was_seen(weather):
    symptom = Symptom(**{**vars(COLD), "enough": ("room/hours", 3)})
    alternating = [{"room/temperature": 5.0, "room/hours": float(hour)} for hour in range(6)]
    (alert,) = weather(alternating, [symptom])
    assert alert.step == 5  # hours 3 and 4 are the first two that count


def test_a_consequence_is_not_raised_after_its_cause(weather):
    symptom = Symptom(**{**vars(COLD), "name": "ice", "patience": 3, "explained_by": ("too_cold",)})
    raised = weather(days("room/temperature", 5, 5, 5, 5), [COLD, symptom])
    assert [alert.name for alert in raised] == ["too_cold"]


def test_terminal_and_loggers_are_told(weather, caplog, fit, tiny_task):
    class Told(type(fit(tiny_task(), [], 1))):
        def __init__(self):
            super().__init__()
            self.alerts = []

        def alert(self, title, text):
            self.alerts.append((title, text))

    logger = Told()
    with caplog.at_level("INFO"):
        (alert,) = weather(days("room/temperature", 5, 5), logger=logger)
    assert logger.alerts == [("Too cold", alert.text)]
    assert f"Alert: Too cold. {alert.text}" in caplog.text


def test_a_resumed_run_goes_on_where_it_was(tmp_path, weather, fit, tiny_task):
    first, second = Alerts([COLD]), Alerts([COLD])
    first.symptoms = second.symptoms

    class Trainer:
        global_step = 3
        loggers = ()
        is_global_zero = True

    first.see(Trainer, {"room/temperature": 5.0})
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    second.see(Trainer, {"room/temperature": 5.0})
    assert [alert.step for alert in second.raised] == [3]
    third = Alerts([COLD])
    third.load_state_dict(second.state_dict())
    third.see(Trainer, {"room/temperature": 5.0})
    assert third.raised == second.raised
    Trainer.callbacks = [third]
    json.dumps([vars(alert) for alert in raised_in(Trainer)])


def test_every_symptom_has_its_own_name_and_whole_words():
    assert len({symptom.name for symptom in SYMPTOMS}) == len(SYMPTOMS)
    for symptom in SYMPTOMS:
        sentence = symptom.seen.format(value=0.5)
        assert "{" not in sentence
        assert symptom.causes
        assert symptom.remedies
        assert symptom.low > -math.inf or symptom.high < math.inf
