"""What fine-tuning can do beside training all weights at one rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pretrain.data.labels import LabelKind
from pretrain.errors import UserError
from pretrain.tasks.optimizer import OptimizerConfig

# What suits published weights, which were trained for long and are to be changed little (Devlin et
# al. 2019, appendix A.3, took 2e-5 to 5e-5 for larger networks).
PUBLISHED_LR = 1e-4
PUBLISHED_OPTIMIZER = OptimizerConfig(
    matrices="adamw", head_lr_ratio=1.0, betas=(0.9, 0.999), weight_decay=0.01
)


@dataclass(frozen=True)
class FinetuningConfig:
    """How a pretrained network is moved, and how the classes count.

    Attributes:
        layer_decay: Each block learns at this share of the rate of the block above it, the
            embeddings at the least (Howard & Ruder 2018, "discriminative fine-tuning"); 1 is one
            rate for all.
        n_frozen: The embeddings and this many blocks stay as they are; 0 freezes nothing, the
            number of blocks leaves only what stands on top of them to be learned.
        head_only_steps: During the first steps only the head learns, so that its random weights
            don't disturb what was pretrained (Kumar et al. 2022).
        head_dropout: Rate in front of the classifier.
        class_weights: Weight of each class in the objective, in the order of the labels;
            ``balanced`` makes all classes count alike, whatever their numbers.
        label_smoothing: Mass given to the uniform distribution over the classes.

    Raises:
        ValueError: One sentence, for a value that makes no sense.
    """

    layer_decay: float = 1.0
    n_frozen: int = 0
    head_only_steps: int = 0
    head_dropout: float = 0.1
    class_weights: Sequence[float] | Literal["balanced"] | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay is {self.layer_decay}; it must be in (0, 1].")
        if min(self.n_frozen, self.head_only_steps) < 0:
            raise ValueError(
                f"n_frozen ({self.n_frozen}) and head_only_steps ({self.head_only_steps}) "
                "must be 0 or more."
            )
        for name in ("head_dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be in [0, 1).")
        weights = self.class_weights
        if weights is None or isinstance(weights, str):
            return
        if not (all(0 <= weight < math.inf for weight in weights) and any(weights)):
            raise ValueError(
                f"class_weights is {list(weights)}; they must be 0 or more, and not all 0."
            )

    def weights_of(self, kind: LabelKind, counts: Sequence[int]) -> list[float] | None:
        """The weight of each class, given how many training examples each has; mean about 1.

        Raises:
            UserError: The number of weights is not the number of classes, or labels of this kind
                are neither weighed nor smoothed.
        """
        if self.label_smoothing and kind != "single":
            raise UserError(
                f"label_smoothing is {self.label_smoothing}, but labels of kind {kind} are not "
                "smoothed: leave it out."
            )
        if self.class_weights is None:
            return None
        if kind == "regression":
            raise UserError("class_weights are given, but a regression has no classes.")
        if self.class_weights == "balanced":
            return [sum(counts) / (len(counts) * max(count, 1)) for count in counts]
        if len(self.class_weights) != len(counts):
            raise UserError(
                f"class_weights has {len(self.class_weights)} numbers, but there are "
                f"{len(counts)} classes."
            )
        return [float(weight) for weight in self.class_weights]
