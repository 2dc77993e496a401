"""The attention weights themselves, for one text that is short enough to look at."""

from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pretrain.diagnostics.attention_entropy import attention_entropy, score_rows, visible_softmax
from pretrain.diagnostics.dead_units import count_active
from pretrain.diagnostics.forward_probe import undisturbed
from pretrain.model.masks import AttentionMask


class Inside(NamedTuple):
    """What happens inside while one row is read.

    Attributes:
        weights: Attention weights ``(n_layers, n_heads, seq, seq)``, queries before keys, float32.
        entropy: Normalised entropy ``(n_layers, n_heads)``; NaN where each token sees only one.
        active: On how many tokens each hidden unit of a layer is active, ``(n_layers, d_ff)``;
            None for a mixture of experts, whose units see only the tokens sent to them.
        states: What leaves the stack, ``(seq, d_model)``.
    """

    weights: Tensor
    entropy: Tensor
    active: Tensor | None
    states: Tensor


@torch.no_grad()
def attention_weights(query: Tensor, key: Tensor, mask: AttentionMask, scale: float) -> Tensor:
    """softmax(q kᵀ · scale + bias) over the visible keys, ``(batch, n_heads, n_queries, n_keys)``.

    In float32 whatever the precision around it; a query that sees no key has zeros. The arguments
    are those of ``attention_entropy``.
    """
    parts = [
        visible_softmax(scores, visible).nan_to_num_()
        for _, scores, visible in score_rows(query, key, mask, scale)
    ]
    return torch.cat(parts, dim=2)


def look_inside(task: Any, batch: dict[str, Tensor]) -> Inside:
    """Run one row without padding through the network of ``task``, in evaluation mode.

    Only this process takes part: nothing is summed over ranks. Modes and random state of ``task``
    are as before afterwards.

    Args:
        task: One of our tasks.
        batch: ``input_ids`` ``(1, seq)`` and what else ``hidden_states`` takes.
    """
    config, blocks = task.transformer.config, task.transformer.blocks
    weights: dict[int, Tensor] = {}
    active: dict[int, Tensor] = {}
    entropy: dict[int, Tensor] = {}
    real = torch.ones_like(batch["input_ids"], dtype=torch.bool)

    def see_attention(layer: int, seam: Any, inputs: tuple[Any, ...]) -> None:
        query, key, _, mask = inputs
        weights[layer] = attention_weights(query, key, mask, seam.scale)[0]
        rows = attention_entropy(query, key, mask, seam.scale)
        comparable = rows.n_visible[0] >= 2
        # Not by the metric of the probe, which would wait for other ranks.
        entropy[layer] = (rows.nats[0] / rows.n_visible[0].log())[:, comparable].mean(1)

    def see_units(layer: int, seam: nn.Module, inputs: tuple[Any, ...]) -> None:
        active[layer] = count_active(inputs[0], real)

    with ExitStack() as hooks, undisturbed(task):
        for layer, block in enumerate(blocks):
            seams = [(block.attention.core, see_attention)]
            if not config.n_experts:
                seams.append((block.feed_forward.activation, see_units))
            for seam, see in seams:
                handle = seam.register_forward_pre_hook(partial(see, layer))
                hooks.callback(handle.remove)
        states = task.hidden_states(batch)[0]
    units = _stacked(active) if active else None
    return Inside(_stacked(weights), _stacked(entropy), units, states)


def _stacked(by_layer: dict[int, Tensor]) -> Tensor:
    return torch.stack([by_layer[layer] for layer in sorted(by_layer)]).cpu()
