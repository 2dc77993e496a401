"""Looking inside the network while it learns, without disturbing it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from pretrain.diagnostics.probe_views import DeadUnitsView, EntropyView, ProbeView
from pretrain.diagnostics.reporting import now, report
from pretrain.errors import UserError

_INPUTS = ("input_ids", "attention_mask", "segment_ids")


class ForwardProbe(Callback):
    """Every N optimizer steps, one more forward pass over the first rows of the current batch.

    It runs on every rank after the same steps (1, N, 2N, ...), in eval mode, without gradients,
    not compiled, and leaves weights, modes and random state as they were. It logs

    - ``attention/entropy/layer_i/head_j``, normalised to [0, 1], and the same in nats under
      ``attention/entropy_nats``; of sequences longer than 128 tokens at most 128 evenly spaced
      query rows are looked at;
    - ``ffn/dead_share/layer_i`` over the last ``window`` probes of this process, and
      ``ffn/dead_window_tokens``, the real tokens in them; not for a mixture of experts, whose
      units each see only the tokens sent to them;
    - ``probe/seconds``, what the probe itself cost.

    Args:
        every_n_steps: Optimizer steps between probes.
        n_rows: Sequences per probe and rank.
        window: Probes over which dead units are judged.

    Raises:
        UserError: A number is below 1.
        RuntimeError: A part of the network that should have been seen was not run.
    """

    def __init__(self, every_n_steps: int = 100, n_rows: int = 8, window: int = 10) -> None:
        if min(every_n_steps, n_rows, window) < 1:
            raise UserError(
                f"The forward probe's every_n_steps ({every_n_steps}), n_rows ({n_rows}) and "
                f"window ({window}) must all be at least 1."
            )
        self.every_n_steps = every_n_steps
        self.n_rows = n_rows
        self.window = window
        self._views: list[ProbeView] = []
        self._last_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with empty windows, in the network's shape."""
        transformer: Any = pl_module.transformer
        config, device = transformer.config, pl_module.device
        self._views = [EntropyView(config, device)]
        if not config.n_experts:
            self._views.append(DeadUnitsView(config, device, self.window))
        self._last_step = trainer.global_step

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
        if has_stepped and (step == 1 or step % self.every_n_steps == 0):
            start = now(pl_module.device)
            with undisturbed(pl_module), trainer.precision_plugin.forward_context():
                self._look(pl_module, batch)
            metrics = {k: v for view in self._views for k, v in view.metrics().items()}
            metrics["probe/seconds"] = now(pl_module.device) - start
            report(trainer, metrics)

    def _look(self, pl_module: LightningModule, batch: dict[str, Any]) -> None:
        """Run some rows of the batch, and let each view take in what passes by its seams."""
        real = real_tokens(batch)[: self.n_rows]
        rows = {name: batch[name][: self.n_rows] for name in _INPUTS if name in batch}
        transformer: Any = pl_module.transformer
        blocks = transformer.blocks
        unseen = {(layer, view) for layer in range(len(blocks)) for view in self._views}

        def hook(layer: int, view: ProbeView, seam: nn.Module, inputs: tuple[Any, ...]) -> None:
            view.observe(layer, seam, inputs, real)
            unseen.discard((layer, view))

        with ExitStack() as hooks:
            for layer, block in enumerate(blocks):
                for view in self._views:
                    seam = view.seam(block)
                    handle = seam.register_forward_pre_hook(partial(hook, layer, view))
                    hooks.callback(handle.remove)
            pl_module.hidden_states(rows)  # type: ignore[operator]
        if unseen:
            places = sorted(f"{type(view).__name__} of layer {layer}" for layer, view in unseen)
            raise RuntimeError(
                f"The forward probe ran the network but saw nothing for {', '.join(places)}: the "
                "submodules that it watches were bypassed, so its figures would be wrong."
            )


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
