"""Fine-tuning a published BERT with transformers in a plain loop.

The independent side of ``compare_with_transformers.py``: nothing but the batches and the recipe's
numbers comes from this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from pretrain.data import ClassificationDataModule
from pretrain.errors import UserError
from pretrain.hardware import device_of
from pretrain.tasks import Classification
from pretrain.tasks.checkpoint_file import read_checkpoint

IGNORED = -100  # label of the rows that fill the last batch


@dataclass(frozen=True)
class Plan:
    """What is trained on both sides.

    Attributes:
        folder: Of the published encoder.
        checkpoint: The same, imported.
        model, data: Arguments of the task and of the DataModule.
        epochs: Passes over the training examples.
        max_steps: Steps at most, for a trial; None trains all epochs.
        clip: Largest norm of the gradient; None leaves it alone.
        precision: ``bf16-mixed`` or ``32-true``.
    """

    folder: Path
    checkpoint: Path
    model: dict[str, Any]
    data: dict[str, Any]
    epochs: int
    max_steps: int | None
    clip: float | None
    precision: str

    def n_steps(self, data: ClassificationDataModule) -> int:
        """Optimizer steps of a whole training."""
        whole = self.epochs * len(data.train_dataloader())
        return whole if self.max_steps is None else min(whole, self.max_steps)


@dataclass
class Order:
    """A fingerprint of the batches that a training saw."""

    digest: Any = field(default_factory=lambda: blake2b(digest_size=8))

    def add(self, batch: dict[str, Any]) -> None:
        """One more batch."""
        for name in ("input_ids", "labels"):
            self.digest.update(batch[name].cpu().numpy().tobytes())


def published(plan: Plan, task: Classification) -> Any:
    """The classifier on the folder's weights, with the task's dropout and its new weights."""
    from transformers import AutoConfig, AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    dropout, attention_dropout = task.config.dropout, task.config.attention_dropout
    assert task.labels is not None
    assert task.pooler is not None
    config = AutoConfig.from_pretrained(
        plan.folder,
        num_labels=task.labels.n_outputs,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout if attention_dropout is None else attention_dropout,
        classifier_dropout=task.finetuning.head_dropout,
    )
    if config.model_type != "bert":
        raise UserError(f"{plan.folder} holds {config.model_type}, but only BERT is compared here.")
    model = AutoModelForSequenceClassification.from_pretrained(plan.folder, config=config)
    model.classifier.load_state_dict(task.classifier.state_dict())
    if "pooler.dense.weight" not in read_checkpoint(str(plan.checkpoint))["state_dict"]:
        model.bert.pooler.dense.load_state_dict(task.pooler.dense.state_dict())  # new here too
    return model


def train(plan: Plan, model: Any, data: ClassificationDataModule) -> tuple[list[list[int]], Order]:
    """The confusion matrix of the validation split after training all weights by the recipe."""
    settings = Classification(**plan.model)
    n_steps = plan.n_steps(data)
    model.to(device_of()).train()
    matrices = [weight for weight in model.parameters() if weight.ndim >= 2]
    vectors = [weight for weight in model.parameters() if weight.ndim < 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": settings.optimizer_config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=settings.lr,
        betas=settings.optimizer_config.betas,
        eps=settings.optimizer_config.eps,
        fused=True,
    )
    warmup = settings.schedule_config.warmup_steps(n_steps)
    rate = LambdaLR(optimizer, lambda taken: linear_rate(taken + 1, warmup, n_steps))
    order = Order()
    for batch in islice(_batches(data, plan.epochs), n_steps):
        order.add(batch)
        output, labels = logits(model, batch, plan.precision)
        F.cross_entropy(output, labels).backward()
        if plan.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
    return confusion(plan, model, data), order


def linear_rate(step: int, warmup: int, n_steps: int) -> float:
    """Up to 1 at step ``warmup``, then down to 0 at the last step; steps count from 1."""
    return step / warmup if step < warmup else (n_steps - step) / max(n_steps - warmup, 1)


def _batches(data: ClassificationDataModule, epochs: int) -> Iterator[dict[str, Any]]:
    loader = data.train_dataloader()  # each pass is the next epoch
    for _ in range(epochs):
        yield from loader


def logits(model: Any, batch: dict[str, Any], precision: str) -> tuple[Tensor, Tensor]:
    """Logits in float32, and labels, of the rows that have one."""
    device = model.device
    real = batch["labels"] != IGNORED
    inputs = {
        "input_ids": batch["input_ids"][real].to(device),
        "attention_mask": batch["attention_mask"][real].long().to(device),
    }
    if "segment_ids" in batch:
        inputs["token_type_ids"] = batch["segment_ids"][real].to(device)
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed"):
        output = model(**inputs).logits
    return output.float(), batch["labels"][real].to(device)


@torch.no_grad()
def confusion(plan: Plan, model: Any, data: ClassificationDataModule) -> list[list[int]]:
    """How often each true class (rows) was called what (columns) in the validation split."""
    model.eval()
    n_classes = data.labels.n_outputs
    counts = torch.zeros(n_classes, n_classes, dtype=torch.int64)
    for batch in data.val_dataloader():
        output, labels = logits(model, batch, plan.precision)
        for true, found in zip(labels.tolist(), output.argmax(1).tolist(), strict=True):
            counts[true, found] += 1
    return counts.tolist()


def figures(counts: list[list[int]]) -> dict[str, float]:
    """Accuracy and Matthews correlation (of many classes Gorodkin's R_K, 2004).

    It is 0 where it is not defined: where all examples are of one class, or are called so.
    """
    table = torch.tensor(counts, dtype=torch.float64)
    total, right = table.sum(), table.trace()
    true, found = table.sum(1), table.sum(0)
    spread = (total**2 - true @ true) * (total**2 - found @ found)
    matthews = (right * total - true @ found) / spread.sqrt() if spread > 0 else 0.0
    return {"val_accuracy": float(right / total), "val_matthews": float(matthews)}
