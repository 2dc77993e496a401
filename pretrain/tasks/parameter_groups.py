"""Which parameter is updated how."""

from typing import Any

from torch import nn
from torch.nn import Parameter

from pretrain.tasks.optimizer import OptimizerConfig


def parameter_groups(module: nn.Module, config: OptimizerConfig, lr: float) -> list[dict[str, Any]]:
    """Groups for ``MuonAdamW``: matrices, embeddings, head and vectors.

    Every trainable parameter is in exactly one group, a tied head once, as an embedding. All 2-D
    weights decay, embeddings too (as in BERT and nanoGPT); 1-D ones (gains and biases) never.

    Args:
        module: Holds ``transformer`` with ``embeddings`` and ``blocks``, and perhaps heads.
        config: Algorithms, ratios and decay.
        lr: The rate of the blocks' matrices.
    """
    members: dict[str, list[Parameter]] = {"matrices": [], "embeddings": [], "head": []}
    vectors: list[Parameter] = []
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim < 2:
            vectors.append(parameter)
        elif "embeddings." in name:
            members["embeddings"].append(parameter)
        elif "blocks." in name:
            members["matrices"].append(parameter)
        else:
            members["head"].append(parameter)

    adamw = {"algorithm": "adamw", "betas": config.betas, "eps": config.eps}
    muon = {"algorithm": "muon", "momentum": config.momentum}
    ratio = {"matrices": 1.0, "embeddings": config.embedding_lr_ratio, "head": config.head_lr_ratio}
    groups = [
        {
            "name": name,
            "params": parameters,
            "lr": lr,
            "lr_ratio": ratio[name],
            "weight_decay": config.weight_decay,
            **(muon if name == "matrices" and config.matrices == "muon" else adamw),
        }
        for name, parameters in members.items()
    ]
    head_rate = {"lr": lr, "lr_ratio": config.head_lr_ratio}
    groups.append({"name": "vectors", "params": vectors, "weight_decay": 0.0, **head_rate, **adamw})
    return [group for group in groups if group["params"]]
