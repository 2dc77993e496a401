"""Slow and plain float64 references of what the views measure, one sequence at a time."""

import torch


def seen_by(transformer, input_ids):
    """What enters each attention core, norm, block and the final norm, for one sequence."""
    seen = {}

    def hook(name):
        return lambda part, inputs: seen.update({name: inputs})

    hooks = [
        part.register_forward_pre_hook(hook(name)) for name, part in transformer.named_modules()
    ]
    with torch.no_grad():
        transformer(input_ids[None])
    for one in hooks:
        one.remove()
    return seen


def scores(seen, transformer, layer):
    """``(n_heads, seq, seq)`` float64 logits of a layer; -inf where a key is not seen."""
    query, key, _, _ = seen[f"blocks.{layer}.attention.core"]
    scale = transformer.blocks[layer].attention.core.scale
    logits = query[0].double() @ key[0].double().transpose(-1, -2) * scale
    if transformer.causal:
        n = logits.shape[-1]
        logits = logits.masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf)
    return logits
