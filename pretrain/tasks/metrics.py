"""What validation and test report, as sums over the set and over ranks, divided once."""

import math

import torch
from torch import Tensor
from torchmetrics import Metric

from pretrain.tasks.losses import ScoreSums


class LanguageModelingScore(Metric):
    """Loss in nats per target token, perplexity, bits per byte, accuracy on the targets, and mean
    log Z of the logits, which drifts where nothing holds it (Chowdhery et al. 2022, section 5).

    Bits per byte = total nats / (ln 2 × UTF-8 bytes of the raw text), so that models with
    different tokenizers compare; reported where batches carry the number of bytes.
    """

    full_state_update = False
    nll: Tensor
    n_targets: Tensor
    n_correct: Tensor
    n_bytes: Tensor
    log_z: Tensor

    def __init__(self) -> None:
        super().__init__()
        # float64 keeps a sum over billions of tokens exact; Apple's GPUs have none.
        real = torch.float32 if torch.backends.mps.is_available() else torch.float64
        self.add_state("nll", torch.zeros((), dtype=real), dist_reduce_fx="sum")
        self.add_state("log_z", torch.zeros((), dtype=real), dist_reduce_fx="sum")
        self.add_state("n_targets", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("n_correct", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("n_bytes", torch.zeros((), dtype=real), dist_reduce_fx="sum")

    def update(self, sums: ScoreSums, n_bytes: Tensor | float = 0.0) -> None:
        """Add one micro-batch and the bytes of raw text behind its targets."""
        self.nll += sums.nll
        self.log_z += sums.log_z
        self.n_targets += sums.n_targets
        self.n_correct += sums.n_correct
        self.n_bytes += n_bytes

    def compute(self) -> dict[str, float]:
        """Figures of the set; empty where no target was seen."""
        n_targets, nats, n_bytes = int(self.n_targets), float(self.nll), float(self.n_bytes)
        if n_targets == 0:
            return {}
        loss = nats / n_targets
        scores = {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "accuracy": int(self.n_correct) / n_targets,
            "target_tokens": float(n_targets),
            "logit_z": float(self.log_z) / n_targets,
        }
        if n_bytes > 0:
            scores["bits_per_byte"] = nats / (math.log(2) * n_bytes)
        return scores


class AccuracyByMasking(Metric):
    """Accuracy on masked, randomly replaced and kept targets apart (80-10-10).

    Good on masks and bad on the kept ones: the model believes [MASK] only, not the text.
    """

    KINDS = ("mask", "random", "kept")
    full_state_update = False
    n_correct: Tensor
    n_targets: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("n_correct", "n_targets"):
            self.add_state(name, torch.zeros(3, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, shown: Tensor, labels: Tensor, hits: Tensor, mask_id: int) -> None:
        """Add one micro-batch.

        Args:
            shown: ``(n,)`` token ids that stand at the targets.
            labels: ``(n,)`` the targets, negative where there is none.
            hits: ``(n,)`` bool, which of them were predicted.
            mask_id: The id of [MASK].
        """
        is_mask, is_kept = shown == mask_id, shown == labels
        for kind, chosen in enumerate((is_mask, ~is_mask & ~is_kept, is_kept)):
            counted = chosen & (labels >= 0)
            self.n_correct[kind] += (counted & hits).sum()
            self.n_targets[kind] += counted.sum()

    def compute(self) -> dict[str, float]:
        """Share of right predictions of each kind that was there."""
        pairs = zip(self.n_correct.tolist(), self.n_targets.tolist(), strict=True)
        return {kind: right / n for kind, (right, n) in zip(self.KINDS, pairs, strict=True) if n}
