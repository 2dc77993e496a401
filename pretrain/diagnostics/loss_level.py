"""What the loss is compared with: the entropy of single tokens, which knows no context."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from pretrain.diagnostics.reporting import PROBE_EVERY, is_probe_step, report
from pretrain.diagnostics.symptom import Symptom

_FIRST_STEP = 100  # the loss of a young network says nothing yet
_FIRST_SHARE = 0.05  # of a long run, which may warm up that long


class LossLevel(Callback):
    """Logs how much better a language model is than one that knows only how often tokens come.

    - ``loss/unigram_nats``: entropy of the target tokens trained on so far, in nats, with the
      correction for few samples of Miller 1955: it is the loss of the best model without context.
    - ``loss/below_unigram``: this less the training loss, both in nats; from step 100, or 5 % of a
      longer run, on.
    - ``loss/val_share_of_unigram``: the validation loss over it.

    Args:
        every_n_steps: Optimizer steps between logs.
    """

    symptoms = (
        Symptom(
            name="loss_stuck_at_unigram",
            series="loss/below_unigram",
            low=0.2,
            patience=4,
            seen="the training loss is {value:.2f} nats under the entropy of single tokens: "
            "nothing is learned from context",
            causes="the plateau that masked language models start with, a learning rate that is "
            "too low or too high, Post-LN with too short a warm-up, or too few steps",
            remedies="our modern recipe (norm_position: pre, Muon), another learning rate, a "
            "longer warm-up, more steps",
        ),
        Symptom(
            name="loss_implausibly_low",
            series="loss/val_share_of_unigram",
            low=0.25,
            patience=2,
            seen="the validation loss is only {value:.0%} of the entropy of single tokens",
            causes="labels that leak into the inputs, such as a causal mask that lets tokens see "
            "what follows, or a validation text that was trained on",
            remedies="the causality check (change a token: no output before it may change), a look "
            "for duplicates between the splits",
        ),
    )

    def __init__(self, every_n_steps: int = PROBE_EVERY) -> None:
        self.every_n_steps = every_n_steps
        self._counts = torch.zeros(0, dtype=torch.int64)
        self._last_step = 0
        self._is_language_model = False  # other tasks' targets are no tokens

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Make room for the vocabulary."""
        self._is_language_model = getattr(pl_module, "objective", None) in ("mlm", "clm")
        if not self._is_language_model:
            return
        if len(self._counts) != pl_module.config.vocab_size:
            self._counts = torch.zeros(pl_module.config.vocab_size, dtype=torch.int64)
        self._counts = self._counts.to(pl_module.device)
        self._last_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the targets, on the device; log after each step whose turn it is."""
        if not self._is_language_model:
            return
        labels = batch["labels"].flatten()
        real = (labels >= 0).long()
        self._counts.scatter_add_(0, labels.clamp(min=0), real)
        step = trainer.global_step
        has_stepped = step != self._last_step
        self._last_step = step
        if has_stepped and is_probe_step(step, self.every_n_steps):
            report(trainer, self._figures(trainer, step))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare the validation loss."""
        loss = trainer.callback_metrics.get("val/loss")
        is_training = trainer.state.fn == TrainerFn.FITTING and trainer.global_step > 0
        if loss is None or not is_training or not self._is_language_model:
            return
        unigram = self._unigram_nats(trainer)
        if unigram > 0:
            report(trainer, {"loss/val_share_of_unigram": float(loss) / unigram})

    def _figures(self, trainer: Trainer, step: int) -> dict[str, float]:
        figures = {"loss/unigram_nats": self._unigram_nats(trainer)}
        loss = trainer.callback_metrics.get("train/loss")
        if loss is not None and step >= max(_FIRST_STEP, _FIRST_SHARE * trainer.max_steps):
            figures["loss/below_unigram"] = figures["loss/unigram_nats"] - float(loss)
        return figures

    def _unigram_nats(self, trainer: Trainer) -> float:
        counts = trainer.strategy.reduce(self._counts.clone(), reduce_op="sum")
        return unigram_entropy(counts)

    def state_dict(self) -> dict[str, Any]:
        """The counts of this rank."""
        return {"counts": self._counts}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self._counts = state_dict["counts"]


def unigram_entropy(counts: Tensor) -> float:
    """Entropy in nats of the distribution behind ``counts`` ``(vocab_size,)``; 0 without any.

    The plug-in estimate is too low by about (kinds − 1) / (2 n) (Miller 1955), which is added.
    """
    n_tokens = counts.sum().double()
    if n_tokens == 0:
        return 0.0
    shares = counts[counts > 0].double() / n_tokens
    return float(-(shares * shares.log()).sum() + (len(shares) - 1) / (2 * n_tokens))
