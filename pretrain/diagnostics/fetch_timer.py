"""When the training loop waits for its next micro-batch."""

from collections.abc import Callable
from typing import Any

_FETCH = ".train_dataloader_next"  # how Lightning's training loop names the action


class FetchTimer:
    """Stands before a Trainer's profiler, the one place that hears of each fetch by itself.

    A fetch is all that the loop waits for: without workers the batch is built in it, with workers
    it may be there already. Everything is passed on to the profiler.

    Args:
        profiler: The Trainer's own.
        started, ended: Called right before and after each fetch of a training micro-batch.
    """

    def __init__(
        self, profiler: Any, started: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.profiler = profiler
        self._started, self._ended = started, ended
        self.profile = profiler.profile  # called at every hook: not by way of `__getattr__`

    def start(self, action_name: str) -> None:
        """An action begins."""
        self.profiler.start(action_name)
        if action_name.endswith(_FETCH):
            self._started()

    def stop(self, action_name: str) -> None:
        """It is over."""
        if action_name.endswith(_FETCH):
            self._ended()
        self.profiler.stop(action_name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.profiler, name)
