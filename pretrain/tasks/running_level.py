"""What is usual for some figures of a training, and what stands far above it."""

from typing import Any

import torch
from torch import Tensor

# A rise that is no spike, however steady the level was.
_LEAST_RISE = 0.1


class RunningLevel:
    """Running mean and variance of some figures, kept on their device.

    A spike is a rise above the mean by ``threshold`` standard deviations and by 0.1 of any of the
    figures. A spike moves the level no farther than to this bound: it stays a spike if it is one,
    and a level that has risen for good is believed after some steps, for the variance grows.

    Args:
        n_figures: How many figures there are.
        threshold: How many standard deviations.
        window: Steps that the level looks back on: the mean of all while there were fewer, then
            exponentially weighted. Nothing is a spike before.

    Attributes:
        mean: ``(n_figures,)`` float64.
    """

    def __init__(self, n_figures: int, threshold: float, window: int) -> None:
        self.threshold, self.window = threshold, window
        self.mean = torch.zeros(n_figures, dtype=torch.float64)
        self._variance = torch.zeros(n_figures, dtype=torch.float64)
        self._n_seen = torch.tensor(0)

    def judge(self, figures: Tensor) -> Tensor:
        """Whether ``figures`` ``(n_figures,)`` are a spike (a scalar bool); they are then seen.

        Nothing waits for the device. Figures that are not finite are no spike and not seen.
        """
        rise = (self.threshold * self._variance.sqrt()).clamp(min=_LEAST_RISE)
        bound = self.mean + rise
        counts, is_known = figures.isfinite().all(), self._n_seen >= self.window
        is_spike = counts & is_known & (figures > bound).any()
        seen = torch.where(is_known, figures.minimum(bound), figures)
        # West 1979, "Updating mean and variance estimates", with a weight that stops falling.
        weight = (self._n_seen + 1.0).clamp(max=self.window).double().reciprocal()
        difference = seen - self.mean
        mean = self.mean + weight * difference
        variance = (1 - weight) * (self._variance + weight * difference.square())
        self.mean = torch.where(counts, mean, self.mean)
        self._variance = torch.where(counts, variance, self._variance)
        self._n_seen = self._n_seen + counts
        return is_spike

    def to(self, device: torch.device) -> None:
        """Move to the device of the figures."""
        self.load_state_dict({name: value.to(device) for name, value in self.state_dict().items()})

    def state_dict(self) -> dict[str, Any]:
        """Mean, variance and number of steps seen."""
        return {"mean": self.mean, "variance": self._variance, "n_seen": self._n_seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.mean, self._variance = state_dict["mean"], state_dict["variance"]
        self._n_seen = state_dict["n_seen"]
