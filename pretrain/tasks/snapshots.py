"""Copies of weights and optimizer states in the host's memory, to go back to."""

from typing import Any, TypedDict

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Snapshot(TypedDict):
    """Weights and optimizer states by the names of the parameters, after optimizer step ``step``.

    Plain types only, so that a checkpoint can hold it.
    """

    step: int
    weights: dict[str, Tensor]
    states: dict[str, dict[str, Any]]


class Snapshots:
    """The latest snapshot that is at least ``every`` steps old, and those that will be.

    Args:
        every: Steps between snapshots.

    Attributes:
        kept: From the oldest to the latest; two, once there were as many.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.kept: list[Snapshot] = []

    def after_step(self, step: int, module: nn.Module, optimizer: Optimizer) -> None:
        """Take a snapshot where it is time, and drop what is older than need be."""
        if step % self.every == 0:
            self.kept.append(_take(step, module, optimizer))
            self.kept = self._old_enough(step)[-1:] + self._too_young(step)

    def restore(self, step: int, module: nn.Module, optimizer: Optimizer) -> int | None:
        """Put the latest snapshot back that is at least ``every`` steps older than ``step``.

        Later ones are dropped: what led to going back may be in them.

        Returns:
            The step after which it was taken; None if there is none, and nothing has changed.
        """
        self.kept = self._old_enough(step)
        if not self.kept:
            return None
        snapshot = self.kept[-1]
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(snapshot["weights"][name])
                state = optimizer.state.get(parameter, {})
                for key, value in snapshot["states"][name].items():
                    if isinstance(value, Tensor):
                        state[key].copy_(value)
                    else:
                        state[key] = value
        return snapshot["step"]

    def _old_enough(self, step: int) -> list[Snapshot]:
        return [one for one in self.kept if step - one["step"] >= self.every]

    def _too_young(self, step: int) -> list[Snapshot]:
        return [one for one in self.kept if step - one["step"] < self.every]


def _take(step: int, module: nn.Module, optimizer: Optimizer) -> Snapshot:
    weights, states = {}, {}
    for name, parameter in module.named_parameters():
        weights[name] = _copy(parameter)
        state = optimizer.state.get(parameter, {})
        states[name] = {key: _copy(value) for key, value in state.items()}
    return {"step": step, "weights": weights, "states": states}


def _copy(value: Any) -> Any:
    return value.detach().to("cpu", copy=True) if isinstance(value, Tensor) else value
