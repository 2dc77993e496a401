"""What a diagnostic knows of health: the range that its figures stay in, and what to say if not."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Symptom:
    """A range that a healthy training stays in, and the words for a training that leaves it.

    Attributes:
        name: Short and unique, such as ``units_dying``.
        series: The logged series it watches: this name itself, and all that begin with it and a
            slash.
        seen: What is seen, a sentence's beginning; ``{value}`` is the figure that is farthest out.
        causes: The likely causes.
        remedies: The first things to try.
        low, high: The healthy range, both ends belonging to it.
        patience: Figures in a row that must be outside.
        enough: A series and the least value of it with which the figures mean anything.
        explained_by: Names of symptoms of which this one is a mere consequence: it is not raised
            after them.
    """

    name: str
    series: str
    seen: str
    causes: str
    remedies: str
    low: float = -math.inf
    high: float = math.inf
    patience: int = 3
    enough: tuple[str, float] | None = None
    explained_by: tuple[str, ...] = ()

    def watches(self, name: str) -> bool:
        """Whether the series ``name`` is one of those that are judged."""
        return name == self.series or name.startswith(f"{self.series}/")

    def place(self, name: str) -> str:
        """Where the series ``name`` was measured, in words: ``layer 0, head 2``."""
        rest = name.removeprefix(self.series).strip("/")
        return rest.replace("/", ", ").replace("_", " ")

    def is_outside(self, value: float) -> bool:
        """Whether ``value`` is ill; what is not a number says nothing."""
        return value < self.low or value > self.high

    def distance(self, value: float) -> float:
        """How far outside ``value`` is, to find the worst of several."""
        return max(self.low - value, value - self.high)
