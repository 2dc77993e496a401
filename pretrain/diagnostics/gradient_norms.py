"""Gradient norms: of all weights as one vector, of each part, of each attention head."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from pretrain.model.sharded import whole


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """L2 norm of all gradients taken as one vector, a scalar on their device."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return whole(torch.nn.utils.get_total_norm(gradients))


def parts(module: Any) -> dict[str, list[nn.Parameter]]:
    """The parameters of a task by part: ``embeddings``, ``layer_i``, and ``head`` for the rest.

    A weight that two parts share, such as a tied embedding, belongs to the first.
    """
    transformer = module.transformer
    named = {"embeddings": transformer.embeddings}
    named |= {f"layer_{i}": block for i, block in enumerate(transformer.blocks)}
    named["head"] = module
    seen: set[nn.Parameter] = set()
    found: dict[str, list[nn.Parameter]] = {}
    for name, part in named.items():
        found[name] = [p for p in part.parameters() if p not in seen]
        seen.update(found[name])
    return {name: parameters for name, parameters in found.items() if parameters}


def head_gradient_norms(attention: Any) -> Tensor | None:
    """The gradient norm of each query head of a ``SelfAttention``, ``(n_heads,)``; None without.

    A head's own weights are the rows of its queries (and of its keys and values where no other
    head shares them) and the columns of the output projection that read it.
    """
    if attention.qkv.weight.grad is None or attention.output.weight.grad is None:
        return None
    n_heads, kv_heads, dim = attention.n_heads, attention.kv_heads, attention.head_dim
    rows = whole(attention.qkv.weight.grad).float().unflatten(0, (-1, dim)).square().sum((1, 2))
    columns = whole(attention.output.weight.grad).float().unflatten(1, (n_heads, dim))
    squares = rows[:n_heads] + columns.square().sum((0, 2))
    if kv_heads == n_heads:
        squares = squares + rows[n_heads : 2 * n_heads] + rows[2 * n_heads :]
    return squares.sqrt()
