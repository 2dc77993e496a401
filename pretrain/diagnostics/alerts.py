"""Alerts in words: what is seen, where, why it may be so, and what to try first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.utilities import rank_zero_info

from pretrain.diagnostics.symptom import Symptom

_PLACES = 4  # named in an alert; of more the number is told


@dataclass(frozen=True)
class Alert:
    """A symptom that was found in a run.

    Attributes:
        name: The symptom's.
        step: The optimizer step at which it had lasted long enough.
        where: Layers and heads in words; empty where the figure is the network's.
        seen, causes, remedies: A phrase each.
    """

    name: str
    step: int
    where: str
    seen: str
    causes: str
    remedies: str

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ").capitalize()

    @property
    def text(self) -> str:
        """All of it, in three sentences."""
        where = f" in {self.where}" if self.where else ""
        seen = self.seen[0].upper() + self.seen[1:]
        return (
            f"{seen}{where} (step {self.step:,}). Likely causes: {self.causes}. "
            f"Try first: {self.remedies}."
        )


class Alerts(Callback):
    """Raises one alert for each symptom that lasts, in the terminal and in every logger.

    A symptom lasts when one of its series is out of the healthy range for ``patience`` figures in
    a row. It is raised once a run, whether or not the run was interrupted.

    Args:
        symptoms: What to look for.

    Attributes:
        raised: The alerts so far, in the order of their steps.
    """

    def __init__(self, symptoms: Iterable[Symptom]) -> None:
        self.symptoms = tuple(symptoms)
        self.raised: list[Alert] = []
        self._streaks: dict[str, dict[str, int]] = {s.name: {} for s in self.symptoms}
        self._latest: dict[str, float] = {}

    def see(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        """Judge what is logged at this moment; the figures are the same on all ranks."""
        self._latest.update(figures)
        done = {alert.name for alert in self.raised}
        for symptom in self.symptoms:
            if symptom.name in done or done & {*symptom.explained_by}:
                continue
            alert = self._judge(symptom, figures, trainer.global_step)
            if alert is not None:
                self._raise(trainer, alert)
                done.add(alert.name)

    def _judge(self, symptom: Symptom, figures: Mapping[str, float], step: int) -> Alert | None:
        if symptom.enough is not None:
            series, least = symptom.enough
            if self._latest.get(series, 0.0) < least:
                return None
        streaks = self._streaks[symptom.name]
        for name in filter(symptom.watches, figures):
            streaks[name] = streaks.get(name, 0) + 1 if symptom.is_outside(figures[name]) else 0
        lasting = [name for name, n in streaks.items() if n >= symptom.patience]
        if not lasting:
            return None
        worst = max(lasting, key=lambda name: symptom.distance(self._latest[name]))
        return Alert(
            symptom.name,
            step,
            _in_words([symptom.place(name) for name in lasting]),
            symptom.seen.format(value=self._latest[worst]),
            symptom.causes,
            symptom.remedies,
        )

    def _raise(self, trainer: Trainer, alert: Alert) -> None:
        self.raised.append(alert)
        rank_zero_info(f"Alert: {alert.title}. {alert.text}")
        for logger in trainer.loggers if trainer.is_global_zero else ():
            if hasattr(logger, "alert"):
                logger.alert(alert.title, alert.text)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run goes on from."""
        return {
            "raised": [vars(alert) for alert in self.raised],
            "streaks": self._streaks,
            "latest": self._latest,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there; symptoms that are new since then begin to be judged."""
        self.raised = [Alert(**alert) for alert in state_dict["raised"]]
        self._streaks |= state_dict["streaks"]
        self._latest = dict(state_dict["latest"])


def raised_in(trainer: Trainer) -> list[Alert]:
    """The alerts of a Trainer's run so far."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [alert for one in callbacks if isinstance(one, Alerts) for alert in one.raised]


def _in_words(places: list[str]) -> str:
    places = [place for place in places if place]
    shown = "; ".join(places[:_PLACES])
    return f"{shown} and {len(places) - _PLACES} more" if len(places) > _PLACES else shown
