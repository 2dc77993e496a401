"""Which parameter is updated how."""

import math
import re
from typing import Any

from torch import nn
from torch.nn import Parameter

from pretrain.tasks.optimizer import OptimizerConfig

_KINDS = ("matrices", "embeddings", "head", "vectors")


def parameter_groups(
    module: nn.Module, config: OptimizerConfig, lr: float, layer_decay: float | None = None
) -> list[dict[str, Any]]:
    """Groups for ``MuonAdamW``: matrices, embeddings, head and vectors.

    Every trainable parameter is in exactly one group, a tied head once, as an embedding. All 2-D
    weights decay, embeddings too (as in BERT and nanoGPT); 1-D ones (gains and biases) never.

    Args:
        module: Holds ``transformer`` with ``embeddings`` and ``blocks``, and perhaps heads.
        config: Algorithms, ratios and decay.
        lr: The rate of the blocks' matrices.
        layer_decay: What a block's rate is of that of the block above it, the head on top, the
            embeddings at the bottom; groups are then made for each depth, and know it as
            ``depth`` (None: the head). None leaves depth out.
    """
    members: dict[tuple[str, int | None], list[Parameter]] = {}
    n_layers = 0 if layer_decay is None else len(module.transformer.blocks)  # type: ignore[arg-type, union-attr]
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            depth = None if layer_decay is None else _depth(name)
            members.setdefault((_kind(name, parameter), depth), []).append(parameter)
    groups = []
    for (kind, depth), parameters in sorted(members.items(), key=_order):
        group = {"name": kind, "params": parameters, "lr": lr, **_settings(kind, config)}
        if layer_decay is not None:
            below_the_head = 0 if depth is None else n_layers + 1 - depth
            group["lr_ratio"] *= layer_decay**below_the_head
            group["depth"] = depth
        groups.append(group)
    return groups


def _kind(name: str, parameter: Parameter) -> str:
    if parameter.ndim < 2:
        return "vectors"
    if "embeddings." in name:
        return "embeddings"
    # A router chooses among experts, as the head does among tokens.
    return "matrices" if "blocks." in name and ".router." not in name else "head"


def _depth(name: str) -> int | None:
    """0 for the embeddings, i + 1 for block i, None for what stands on top."""
    if "embeddings." in name:
        return 0
    block = re.search(r"blocks\.(\d+)\.", name)
    return int(block[1]) + 1 if block else None


def _order(member: tuple[tuple[str, int | None], list[Parameter]]) -> tuple[int, float]:
    kind, depth = member[0]
    return _KINDS.index(kind), math.inf if depth is None else depth


def _settings(kind: str, config: OptimizerConfig) -> dict[str, Any]:
    ratios = {"matrices": 1.0, "embeddings": config.embedding_lr_ratio}
    settings = {
        "lr_ratio": ratios.get(kind, config.head_lr_ratio),
        "weight_decay": 0.0 if kind == "vectors" else config.weight_decay,
    }
    if kind == "matrices" and config.matrices == "muon":
        return {**settings, "algorithm": "muon", "momentum": config.momentum}
    return {**settings, "algorithm": "adamw", "betas": config.betas, "eps": config.eps}
