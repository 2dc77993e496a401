"""What the forward probe looks at: for each concern, where it is seen and what it is called."""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pretrain.diagnostics.attention_entropy import AttentionEntropy, attention_entropy
from pretrain.diagnostics.dead_units import DeadUnits, count_active

_MAX_QUERY_ROWS = 128


class ProbeView(Protocol):
    """One concern. A probe calls ``observe`` once per block, then ``metrics``, on every rank."""

    def seam(self, block: Any) -> nn.Module:
        """The submodule of a block whose inputs are looked at."""

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Take in what enters the seam; ``real`` is ``(batch, seq)`` bool, False at padding."""

    def metrics(self) -> dict[str, float]:
        """Close this probe: the values to log, the same on all ranks, NaN without real tokens."""


class EntropyView:
    """``attention/entropy`` (normalised) and ``attention/entropy_nats`` of the latest probe."""

    def __init__(self, config: Any, device: torch.device) -> None:
        self._entropy = AttentionEntropy(config.n_layers, config.n_heads).to(device)

    def seam(self, block: Any) -> nn.Module:
        """Queries and keys as they enter their product."""
        return block.attention.core

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """At most 128 evenly spaced query rows of each sequence."""
        query, key, _, mask = inputs
        stride = -(-query.shape[2] // _MAX_QUERY_ROWS)
        self._entropy.update(layer, attention_entropy(query, key, mask, seam.scale, stride), real)

    def metrics(self) -> dict[str, float]:
        """Per layer and head."""
        means = self._entropy.compute()
        self._entropy.reset()
        named = {"entropy": means["normalised"], "entropy_nats": means["nats"]}
        return {
            f"attention/{name}/layer_{layer}/head_{head}": value
            for name, mean in named.items()
            # torchmetrics gives a tensor of one element without its dimensions.
            for layer, heads in enumerate(mean.reshape(self._entropy.shape).tolist())
            for head, value in enumerate(heads)
        }


class DeadUnitsView:
    """``ffn/dead_share`` over a window of probes, and ``ffn/dead_window_tokens`` beside it."""

    def __init__(self, config: Any, device: torch.device, window: int) -> None:
        self._dead = DeadUnits(config.n_layers, config.hidden_dim, window).to(device)
        self._active: dict[int, Tensor] = {}
        self._n_tokens = torch.tensor(0, device=device)

    def seam(self, block: Any) -> nn.Module:
        """Pre-activations."""
        return block.feed_forward.activation

    def observe(self, layer: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Counts only: the pre-activations are not kept."""
        self._active[layer] = count_active(inputs[0], real)
        self._n_tokens = real.sum()

    def metrics(self) -> dict[str, float]:
        """Per layer."""
        active = torch.stack([self._active[layer] for layer in sorted(self._active)])
        self._dead.update(active, self._n_tokens)
        dead = self._dead.compute()
        shares = {
            f"ffn/dead_share/layer_{layer}": share
            for layer, share in enumerate(dead["share"].reshape(-1).tolist())
        }
        return {**shares, "ffn/dead_window_tokens": dead["n_tokens"].item()}
