"""Losses of classification and regression, as sums over the rows that have a label."""

import torch
import torch.nn.functional as F
from torch import Tensor

from pretrain.tasks.losses import IGNORE, LossSums


def label_loss(
    kind: str,
    logits: Tensor,
    labels: Tensor,
    class_weights: Tensor | None = None,
    smoothing: float = 0.0,
) -> LossSums:
    """Summed loss in float32; filler rows (label ``IGNORE``, or NaN) count for nothing.

    Args:
        kind: ``single`` (cross entropy in nats), ``multi`` (binary cross entropy in nats, mean
            over the labels) or ``regression`` (squared error).
        logits: ``(rows, n_labels)``; of a regression ``(rows, 1)``.
        labels: ``(rows,)`` int64, ``(rows, n_labels)`` float or ``(rows,)`` float.
        class_weights: ``(n_labels,)``, in the objective only.
        smoothing: Label smoothing (Szegedy et al. 2016) of ``single``, in the objective only.
    """
    logits = logits.float()
    real = labelled(kind, labels)
    if kind == "single":
        plain = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
        objective = plain
        if class_weights is not None or smoothing:
            objective = F.cross_entropy(
                logits, labels, class_weights, ignore_index=IGNORE, reduction="sum",
                label_smoothing=smoothing,
            )  # fmt: skip
        return LossSums(objective, plain.detach(), real.sum())
    targets = torch.where(real if labels.ndim == 1 else real[:, None], labels, 0.0)
    if kind == "multi":
        each = F.binary_cross_entropy_with_logits(logits, targets, class_weights, reduction="none")
        loss = (each.mean(1) * real).sum()
    else:
        loss = ((logits.squeeze(1) - targets).square() * real).sum()
    return LossSums(loss, loss.detach(), real.sum())


def labelled(kind: str, labels: Tensor) -> Tensor:
    """Which rows have a label, ``(rows,)`` bool: the others fill up the last batch of a rank."""
    if kind == "single":
        return labels != IGNORE
    return ~(labels.isnan().any(1) if labels.ndim == 2 else labels.isnan())
