"""What one optimizer step does to the network."""

import statistics
from collections import deque
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from pretrain.diagnostics.gradient_norms import gradient_norm, head_gradient_norms, parts
from pretrain.diagnostics.reporting import PROBE_EVERY, is_log_step, is_probe_step, report
from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.update_ratio import UpdateRatio

_USUAL = 20  # logged gradient norms whose median is the usual one
_FEWEST = 8  # of them before a norm is compared


class StepObserver(Callback):
    """Logs the total gradient norm at the Trainer's log rhythm, and more every N steps.

    - ``grad/norm``, before clipping, and ``grad/over_usual``, this over the median of the last 20.
    - Every N steps: ``grad/norm/PART``, ``grad/head_norm/layer_i/head_j`` and
      ``update/ratio/PART``, how far the step moved the weights, over their norm. A part is
      ``embeddings``, ``layer_i`` or ``head``.

    Gradients are read where they are complete: summed over micro-batches and ranks, divided by
    the targets, unscaled. On all other steps nothing is computed and the device is not waited for.

    Args:
        every_n_steps: Optimizer steps between looks at the parts.
    """

    symptoms = (
        Symptom(
            name="gradient_spikes",
            series="grad/over_usual",
            high=10.0,
            patience=1,
            seen="the gradient norm rose to {value:.0f} times its usual size",
            causes="a learning rate that is too high, broken records in the data, or attention "
            "logits without bound",
            remedies="trainer.gradient_clip_val: 1.0, a lower learning rate, the callback "
            "LossSpikes, a look at the batch",
        ),
        Symptom(
            name="wasted_heads",
            series="grad/head_norm",
            low=1e-7,
            patience=14,
            seen="attention heads get no gradient ({value:.1e})",
            causes="more heads than the data needs, saturated attention, or an output projection "
            "that ignores them",
            remedies="fewer heads, another init, a look at the entropy of these heads",
            explained_by=("attention_saturated", "loss_stuck_at_unigram"),
        ),
        Symptom(
            name="embeddings_frozen",
            series="update/ratio/embeddings",
            low=1e-12,
            seen="token embeddings do not move",
            causes="requires_grad is off, a learning rate of 0 for this group, or an optimizer "
            "that never got them",
            remedies="embedding_lr_ratio above 0, a look at what is frozen",
        ),
        Symptom(
            name="updates_too_large",
            series="update/ratio",
            high=0.5,
            patience=1,
            seen="one step changes weights by {value:.0%} of their size",
            causes="a learning rate that is far too high, or no warm-up",
            remedies="a learning rate 10 times lower, a longer warm-up",
        ),
    )

    def __init__(self, every_n_steps: int = PROBE_EVERY) -> None:
        self.every_n_steps = every_n_steps
        self._usual: deque[float] = deque(maxlen=_USUAL)
        self._norm: Tensor | None = None
        self._part_norms: dict[str, Tensor] = {}
        self._update: UpdateRatio | None = None

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Read the gradients of a step that is logged, and the weights before it."""
        step = trainer.global_step + 1
        if is_log_step(trainer, step):
            self._norm = gradient_norm(pl_module.parameters())
        if is_probe_step(step, self.every_n_steps):
            self._part_norms = _norms_of_parts(pl_module)
            self._update = UpdateRatio(parts(pl_module))

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Log them under the number of the step, which is taken by now."""
        figures: dict[str, float] = {}
        if self._norm is not None:
            figures |= self._judge_norm(self._norm.item())
        if self._update is not None:
            figures |= {name: norm.item() for name, norm in self._part_norms.items()}
            figures |= _ratios(trainer, self._update)
        self._norm, self._update, self._part_norms = None, None, {}
        if figures:
            report(trainer, figures)

    def _judge_norm(self, norm: float) -> dict[str, float]:
        figures = {"grad/norm": norm}
        if len(self._usual) >= _FEWEST:
            usual = statistics.median(self._usual)
            figures["grad/over_usual"] = norm / usual if usual else float("nan")
        self._usual.append(norm)
        return figures

    def state_dict(self) -> dict[str, Any]:
        """What is usual."""
        return {"usual": list(self._usual)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._usual.extend(state_dict.get("usual", []))


def _norms_of_parts(module: Any) -> dict[str, Tensor]:
    norms = {f"grad/norm/{name}": gradient_norm(part) for name, part in parts(module).items()}
    for layer, block in enumerate(module.transformer.blocks):
        heads = head_gradient_norms(block.attention)
        for head, norm in enumerate(() if heads is None else heads):
            norms[f"grad/head_norm/layer_{layer}/head_{head}"] = norm
    return norms


def _ratios(trainer: Trainer, update: UpdateRatio) -> dict[str, float]:
    """Parts whose weights were all zero before have no ratio."""
    squares = trainer.strategy.reduce(update.squares(), reduce_op="sum").tolist()
    pairs = zip(update.parts, squares, strict=True)
    return {
        f"update/ratio/{name}": (change / before) ** 0.5
        for name, (change, before) in pairs
        if before > 0
    }
