"""A few moments of a training, spread over it, kept for pictures of how it went."""

import math
from typing import Any, NamedTuple

from torch import Tensor


class Moment(NamedTuple):
    """What was seen after one optimizer step.

    Attributes:
        step: The optimizer step.
        seen: Tensors by name.
    """

    step: int
    seen: dict[str, Tensor]


class Moments:
    """At most ``most`` of them: the first, the latest, and between them those that are farthest
    apart by the ratio of their steps, for most happens early.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[Moment] = []

    def add(self, step: int, seen: dict[str, Tensor]) -> None:
        """Add the latest one; a second one of the same step takes the place of the first."""
        self.kept = [moment for moment in self.kept if moment.step < step]
        self.kept.append(Moment(step, seen))
        if len(self.kept) > self.most:
            steps = [moment.step for moment in self.kept]
            inner = range(1, len(steps) - 1)
            crowded = min(inner, key=lambda i: math.log(steps[i + 1] / steps[i - 1]))
            del self.kept[crowded]

    def state(self) -> list[dict[str, Any]]:
        """Plain values and tensors."""
        return [{"step": moment.step, "seen": moment.seen} for moment in self.kept]

    def load(self, state: list[dict[str, Any]]) -> None:
        """Take up what :meth:`state` gave."""
        self.kept = [Moment(**moment) for moment in state]
