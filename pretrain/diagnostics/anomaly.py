"""What the network looked like when its numbers went wrong."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from pretrain.diagnostics.attention_entropy import score_rows
from pretrain.diagnostics.forward_probe import real_tokens
from pretrain.diagnostics.views.norm_inputs import spread
from pretrain.model.attention import ScaledDotProductAttention


class Extreme(NamedTuple):
    """The most extreme value of its kind, and the name of the submodule where it was seen."""

    value: float
    layer: str


@dataclass(frozen=True)
class AnomalyReport:
    """What a replay of the batches behind a bad number saw.

    Attributes:
        first_bad: Name of the first submodule whose output was not finite, the innermost one of
            those that end together; ``loss`` where only the loss was not; None where all were.
        largest_logit: The largest magnitude of an attention logit (q kᵀ scaled, with its bias) of
            a real query and a key that it sees; infinite where it overflowed.
        smallest_norm_input: The smallest root mean square, about the mean for a LayerNorm, of a
            vector that entered a norm. Close to the square root of the norm's epsilon or below
            it, gradients explode there.
    """

    first_bad: str | None
    largest_logit: Extreme | None
    smallest_norm_input: Extreme | None

    def describe(self) -> str:
        """All of it in one sentence."""
        if self.first_bad is None:
            parts = ["every output of the forward pass is finite, so only its gradient is not"]
        else:
            parts = [f"the first output that is not finite is that of {self.first_bad}"]
        if self.largest_logit is not None:
            value, layer = self.largest_logit
            parts.append(f"the largest attention logit is {value:.3g} ({layer})")
        if self.smallest_norm_input is not None:
            value, layer = self.smallest_norm_input
            parts.append(f"the smallest input of a norm has RMS {value:.3g} ({layer})")
        sentence = "; ".join(parts)
        return f"{sentence[0].upper()}{sentence[1:]}."


@torch.no_grad()
def inspect(module: Any, batches: Iterable[dict[str, Any]]) -> AnomalyReport:
    """Run a task's losses once more on ``batches``, and report what passes by its submodules.

    Every submodule keeps its mode, so that what failed in training fails again. Random state and
    autocast are the caller's: ``batches`` may be a generator that seeds before each batch. Where
    parameters are sharded, all ranks must call this together.

    Args:
        module: A task: it has ``losses(batch)``, whose result has an ``objective``.
        batches: Those of the accumulation window in which the bad number appeared.
    """
    watch = _Watch()
    # A compiled module ignores hooks that were added after it was compiled.
    with torch.compiler.set_stance("force_eager"), ExitStack() as hooks:
        for name, part in module.named_modules():
            if isinstance(part, ScaledDotProductAttention):
                hook = part.register_forward_pre_hook(partial(watch.see_scores, name))
                hooks.callback(hook.remove)
            if isinstance(part, (nn.RMSNorm, nn.LayerNorm)):
                hook = part.register_forward_pre_hook(partial(watch.see_norm_input, name))
                hooks.callback(hook.remove)
            if part is not module:
                hook = part.register_forward_hook(partial(watch.see_output, name))
                hooks.callback(hook.remove)
        for batch in batches:
            watch.real = real_tokens(batch)
            watch.see_output("loss", None, (), module.losses(batch).objective)
    return AnomalyReport(watch.first_bad, watch.largest_logit, watch.smallest_norm_input)


class _Watch:
    """The hooks and what they have seen; NaN that came from before counts as nothing."""

    def __init__(self) -> None:
        self.real = torch.empty(0)
        self.first_bad: str | None = None
        self.largest_logit: Extreme | None = None
        self.smallest_norm_input: Extreme | None = None

    def see_output(self, name: str, part: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep the name of the first output that is not finite."""
        if self.first_bad is None and not all(map(_is_finite, tree_leaves(output))):
            self.first_bad = name

    def see_scores(self, name: str, core: Any, inputs: tuple[Any, ...]) -> None:
        """Keep the largest attention logit."""
        query, key, _, mask = inputs
        # Infinities of both signs add up to NaN.
        nan = torch.inf if _is_finite(query) and _is_finite(key) else 0.0
        largest = 0.0
        for rows, scores, visible in score_rows(query, key, mask, core.scale):
            counts = visible & self.real[:, None, rows, None]
            sizes = torch.where(counts, scores.abs_(), 0.0)
            largest = max(largest, sizes.nan_to_num_(nan=nan, posinf=torch.inf).max().item())
        if self.largest_logit is None or largest > self.largest_logit.value:
            self.largest_logit = Extreme(largest, name)

    def see_norm_input(self, name: str, norm: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Keep the smallest norm input."""
        vectors = inputs[0]
        if vectors.shape[:-1] == self.real.shape:  # a head sees targets only, which are all real
            vectors = vectors[self.real]
        rms = spread(vectors, norm)
        rms = rms[~rms.isnan()]
        if not len(rms):
            return
        smallest = rms.min().item()
        if self.smallest_norm_input is None or smallest < self.smallest_norm_input.value:
            self.smallest_norm_input = Extreme(smallest, name)


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, Tensor) and value.is_floating_point()
    return not is_number or bool(value.isfinite().all())
