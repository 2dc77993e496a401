"""What the forward probe asks of each thing that it looks at."""

import math
from collections.abc import Hashable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torchmetrics import Metric

Seams = Iterable[tuple[Hashable, nn.Module]]


class ProbeView(Protocol):
    """One concern. A probe calls ``observe`` once per seam, then ``metrics``, on every rank."""

    def seams(self, transformer: Any) -> Seams:
        """The submodules whose inputs are looked at, each with a key; none for weights alone."""

    def observe(self, key: Any, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Take in what enters a seam; ``real`` is ``(batch, seq)`` bool, False at padding."""

    def metrics(self) -> dict[str, float]:
        """Close this probe: the values to log, the same on all ranks, NaN without real tokens."""


class PerPlace(Metric):
    """One figure for each of several places, such as layers: the largest, smallest or a sum.

    Over batches and ranks alike; ``compute()`` gives ``(n_places,)``.
    """

    full_state_update = False
    values: Tensor

    def __init__(self, n_places: int, reduction: str) -> None:
        super().__init__()
        self._reduction = reduction
        start = {"max": -torch.inf, "min": torch.inf, "sum": 0.0}[reduction]
        self._unseen = start if reduction != "sum" else None
        self.add_state("values", torch.full((n_places,), start), dist_reduce_fx=reduction)

    def update(self, place: int, value: Tensor) -> None:
        """Add a scalar figure of one place."""
        both = torch.stack([self.values[place], value.to(self.values)])
        self.values[place] = getattr(both, self._reduction)()

    def compute(self) -> Tensor:
        """All places; infinite (0 for sums) where nothing was seen."""
        return self.values.clone()

    def close(self) -> list[float]:
        """The figures as numbers, NaN where nothing was seen, and empty again."""
        values = self.compute().reshape(-1)  # torchmetrics drops the dimension of one element
        self.reset()
        return [math.nan if value == self._unseen else value for value in values.tolist()]
