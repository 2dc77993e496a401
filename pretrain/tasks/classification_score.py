"""What validation reports of a classifier or a regression, by torchmetrics."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric, PearsonCorrCoef, SpearmanCorrCoef
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MultilabelExactMatch,
    MultilabelF1Score,
)

from pretrain.tasks.label_losses import label_loss, labelled


class ClassificationScore(nn.Module):
    """Loss and figures over a whole split and all ranks.

    - ``single``: ``accuracy``; ``f1``, of two classes that of the second (as GLUE counts it), of
      more the mean over classes; ``matthews`` (Matthews 1975).
    - ``multi``: ``accuracy``, the share of rows whose labels are all right; ``f1`` over all
      decisions (micro).
    - ``regression``: ``pearson`` and ``spearman`` correlation.

    Args:
        kind: ``single``, ``multi`` or ``regression``.
        n_labels: Number of classes.
    """

    def __init__(self, kind: str, n_labels: int) -> None:
        super().__init__()
        self.kind = kind
        self.loss = MeanMetric()
        self.confusion: Metric | None = None
        figures: dict[str, Metric]
        if kind == "single":
            average: Any = "none" if n_labels == 2 else "macro"
            figures = {
                "accuracy": MulticlassAccuracy(n_labels, average="micro"),
                "f1": MulticlassF1Score(n_labels, average=average),
            }
            self.confusion = MulticlassConfusionMatrix(n_labels)
        elif kind == "multi":
            figures = {
                "accuracy": MultilabelExactMatch(n_labels),
                "f1": MultilabelF1Score(n_labels, average="micro"),
            }
        else:
            with warnings.catch_warnings():  # it keeps all values, which a split of texts allows
                warnings.simplefilter("ignore")
                figures = {"pearson": PearsonCorrCoef(), "spearman": SpearmanCorrCoef()}
        self.figures = nn.ModuleDict(figures)

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Add one batch; rows without a label are left out."""
        real = labelled(self.kind, labels)
        logits, labels = logits.float()[real], labels[real]
        if not len(labels):
            return
        sums = label_loss(self.kind, logits, labels)
        self.loss.update(sums.nll / sums.n_targets, sums.n_targets)
        if self.kind == "single":
            found = logits.argmax(1)
        elif self.kind == "multi":
            found, labels = logits.sigmoid(), labels.long()
        else:
            found = logits.squeeze(1)
        metrics: list[Any] = [*self.figures.values()]
        for metric in metrics if self.confusion is None else [*metrics, self.confusion]:
            metric.update(found, labels)

    def compute(self) -> dict[str, float]:
        """The figures; an F1 of two classes is that of the second."""
        values = {"loss": float(self.loss.compute())}
        metrics: Any = self.figures.items()
        for name, metric in metrics:
            value = metric.compute()
            values[name] = float(value[1] if value.ndim else value)
        if self.confusion is not None:
            values["matthews"] = matthews(self.confusion.compute())
        return values

    def confusion_matrix(self) -> list[list[int]] | None:
        """Rows are the true classes, columns the predicted ones; None but for ``single``."""
        if self.confusion is None:
            return None
        matrix: list[list[int]] = self.confusion.compute().to(torch.int64).tolist()
        return matrix

    def reset(self) -> None:
        """Begin a new split."""
        for part in self.modules():
            if isinstance(part, Metric):
                part.reset()


def matthews(confusion: Tensor) -> float:
    """Matthews correlation of a confusion matrix ``(true, predicted)``; 0 where undefined.

    Of two classes as in Matthews 1975, of more as in Gorodkin 2004, equation 8. (torchmetrics 1.9
    gives other values than 0 where all predictions are one class.)
    """
    counts = confusion.double()
    total, right = counts.sum(), counts.trace()
    true, found = counts.sum(1), counts.sum(0)
    spread = (total**2 - true.square().sum()) * (total**2 - found.square().sum())
    return float((right * total - true @ found) / spread.sqrt()) if spread > 0 else 0.0
