"""Learning-rate schedules, counted in optimizer steps.

Step k counts from 1 and uses the rate ``lr * factor(k)``: the peak at the last step of the
warm-up, the floor at the last step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves; the default is our modern recipe's.

    Attributes:
        kind: ``constant_then_linear`` (also called warm-up, stable, decay; Hu et al. 2024),
            ``cosine`` (Loshchilov & Hutter 2017), ``linear`` or ``inverse_sqrt``
            ("Attention Is All You Need", equation 3, with its d_model factor: the paper's rates
            are those of ``lr: 1.0``).
        warmup: Steps of linear warm-up; below 1 a share of all steps.
        stable_share: Share of all steps before the decay of ``constant_then_linear`` begins.
        floor: Last rate as a share of the peak; not used by ``inverse_sqrt``.

    Raises:
        ValueError: One sentence, for values that make no schedule.
    """

    kind: Literal["constant_then_linear", "cosine", "linear", "inverse_sqrt"] = (
        "constant_then_linear"
    )
    warmup: float = 0
    stable_share: float = 0.4
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0 or (self.warmup > 1 and self.warmup != int(self.warmup)):
            raise ValueError(
                f"warmup is {self.warmup}; give a number of steps, or a share of all steps below 1."
            )
        for name in ("stable_share", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share between 0 and 1.")
        if self.kind == "inverse_sqrt" and self.warmup == 0:
            raise ValueError("The inverse_sqrt schedule needs a warmup of at least one step.")

    def warmup_steps(self, max_steps: int) -> int:
        """Length of the warm-up in steps.

        Raises:
            ValueError: The warm-up would not end before ``max_steps``.
        """
        steps = round(self.warmup * max_steps) if self.warmup < 1 else int(self.warmup)
        if steps and steps >= max_steps:
            raise ValueError(
                f"A warm-up of {steps} steps does not end before max_steps ({max_steps}): "
                "shorten schedule.warmup or train longer."
            )
        return steps


def rate_factor(config: ScheduleConfig, max_steps: int, d_model: int) -> Callable[[int], float]:
    """The function from step k (from 1) to what ``lr`` is multiplied by.

    Raises:
        ValueError: The warm-up would not end before ``max_steps``.
    """
    warmup = config.warmup_steps(max_steps)
    if config.kind == "inverse_sqrt":
        warmup = max(warmup, 1)
        return lambda k: d_model**-0.5 * min(k**-0.5, k * warmup**-1.5)

    start = warmup
    if config.kind == "constant_then_linear":
        start = max(warmup, round(config.stable_share * max_steps))

    def factor(k: int) -> float:
        if k < warmup:
            return k / warmup
        progress = min(max(k - start, 0) / max(max_steps - start, 1), 1.0)
        if config.kind == "cosine":
            progress = 0.5 * (1 - math.cos(math.pi * progress))
        return 1 - (1 - config.floor) * progress

    return factor
