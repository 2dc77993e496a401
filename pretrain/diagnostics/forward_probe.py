"""Looking inside the network while it learns, without disturbing it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from pretrain.diagnostics.reporting import PROBE_EVERY, is_probe_step, now, report
from pretrain.diagnostics.views import (
    AttentionLogitsView,
    DeadUnitsView,
    EmbeddingsView,
    EntropyView,
    HeadSimilarityView,
    NormInputsView,
    ProbeView,
    ResidualStreamView,
)
from pretrain.errors import UserError

_INPUTS = ("input_ids", "attention_mask", "segment_ids", "document_ids")


class ForwardProbe(Callback):
    """Every N optimizer steps, one more forward pass over the first rows of the current batch.

    It runs on every rank after the same steps (1, 10, 20, 50, and N, 2N, ...), in eval mode,
    without gradients, not compiled, and leaves weights, modes and random state as they were. What
    it logs is said by the views in ``views/``; ``probe/seconds`` is what the probe itself cost, and
    ``probe/time_share`` the share of the time since the last one that it took.

    Args:
        every_n_steps: Optimizer steps between probes.
        n_tokens: Tokens per probe and rank, about: whole sequences, at least one.
        window: Probes over which dead units are judged.

    Raises:
        UserError: A number is below 1.
        RuntimeError: A part of the network that should have been seen was not run.
    """

    def __init__(
        self, every_n_steps: int = PROBE_EVERY, n_tokens: int = 2048, window: int = 10
    ) -> None:
        if min(every_n_steps, n_tokens, window) < 1:
            raise UserError(
                f"The forward probe's every_n_steps ({every_n_steps}), n_tokens ({n_tokens}) and "
                f"window ({window}) must all be at least 1."
            )
        self.every_n_steps = every_n_steps
        self.n_tokens = n_tokens
        self.window = window
        self._views: list[ProbeView] = []
        self._last_step = 0
        self._ended_at: float | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with empty windows, in the network's shape."""
        self._views = views_of(pl_module.transformer, pl_module.device, self.window)
        self._last_step = trainer.global_step
        self._ended_at = None

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: dict[str, Any],
        batch_idx: int,
    ) -> None:
        """Probe once after each optimizer step whose turn it is."""
        step = trainer.global_step
        has_stepped = step != self._last_step
        self._last_step = step
        if has_stepped and is_probe_step(step, self.every_n_steps):
            start = now(pl_module.device)
            with undisturbed(pl_module), trainer.precision_plugin.forward_context():
                self._look(pl_module, batch)
                metrics = {k: v for view in self._views for k, v in view.metrics().items()}
            report(trainer, {**metrics, **self._cost(start, now(pl_module.device))})

    def _cost(self, start: float, end: float) -> dict[str, float]:
        cost = {"probe/seconds": end - start}
        if self._ended_at is not None:
            cost["probe/time_share"] = (end - start) / (end - self._ended_at)
        self._ended_at = end
        return cost

    def _look(self, pl_module: LightningModule, batch: dict[str, Any]) -> None:
        """Run some rows of the batch, and let each view take in what passes by its seams."""
        n_rows = max(1, self.n_tokens // batch["input_ids"].shape[1])
        real = real_tokens(batch)[:n_rows]
        rows = {name: batch[name][:n_rows] for name in _INPUTS if name in batch}
        unseen = set()

        def hook(key: Any, view: ProbeView, seam: nn.Module, inputs: tuple[Any, ...]) -> None:
            view.observe(key, seam, inputs, real)
            unseen.discard((view, key))

        with ExitStack() as hooks:
            for view in self._views:
                for key, seam in view.seams(pl_module.transformer):
                    unseen.add((view, key))
                    handle = seam.register_forward_pre_hook(partial(hook, key, view))
                    hooks.callback(handle.remove)
            pl_module.hidden_states(rows)  # type: ignore[operator]
        if unseen:
            places = sorted(f"{type(view).__name__} at {key}" for view, key in unseen)
            raise RuntimeError(
                f"The forward probe ran the network but saw nothing for {', '.join(places)}: the "
                "submodules that it watches were bypassed, so its figures would be wrong."
            )


def views_of(transformer: Any, device: torch.device, window: int) -> list[ProbeView]:
    """All views that apply to the network."""
    config = transformer.config
    views: list[ProbeView] = [
        EntropyView(config, device),
        AttentionLogitsView(config, device),
        NormInputsView(transformer, device),
        ResidualStreamView(config, device),
    ]
    if HeadSimilarityView.applies(config):
        views.append(HeadSimilarityView(transformer, device))
    if DeadUnitsView.applies(config):
        views.append(DeadUnitsView(config, device, window))
    if EmbeddingsView.applies(config):
        views.append(EmbeddingsView(transformer, device))
    return views


def real_tokens(batch: dict[str, Any]) -> Tensor:
    """Which inputs are real, ``(batch, seq)`` bool.

    By the attention mask where there is one; filler of a causal batch stands at the right, has no
    mask, and is known by its ignored labels.
    """
    if "attention_mask" in batch:
        return batch["attention_mask"].bool()
    input_ids, labels = batch["input_ids"], batch.get("labels")
    if labels is not None and labels.shape == input_ids.shape:
        return labels != -100
    return torch.ones_like(input_ids, dtype=torch.bool)


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, uncompiled; afterwards modes and random state are as before."""
    modes = [(part, part.training) for part in module.modules()]
    devices = {p.device for p in module.parameters() if p.device.type == "cuda"}
    module.eval()
    try:
        # A compiled module ignores hooks that were added after it was compiled.
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=sorted(devices, key=str)),
            torch.compiler.set_stance("force_eager"),
        ):
            yield
    finally:
        for part, training in modes:
            part.training = training
