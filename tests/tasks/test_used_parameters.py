"""Every parameter enters the loss, so plain DDP need not look for those that don't."""

import pytest
import torch
from tiny import ROWS, SHAPE

from pretrain.tasks import CausalLM, Classification, MaskedLM

BERT = {"position": "learned", "n_segments": 2, "norm": "layernorm", "norm_gain": True,
        "norm_bias": True, "norm_position": "post", "linear_bias": True, "embedding_norm": True,
        "head_transform": True, "head_bias": True, "tie_embeddings": True}  # fmt: skip
NETWORKS = {
    "default": {},
    "bert": BERT,
    "experts": {"n_experts": 5, "experts_per_token": 1},  # more than there are tokens
    "gated": {"activation": "swiglu", "n_kv_heads": 1},
    "parallel": {"parallel_blocks": True, "norm_gain": True},
}


def _unused(task, loss):
    loss.backward()
    trained = [(name, p) for name, p in task.named_parameters() if p.requires_grad]
    assert trained
    return [name for name, p in trained if p.grad is None]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("kind", ["clm", "mlm"])
def test_language_models_use_all_parameters(kind, network):
    task = {"clm": CausalLM, "mlm": MaskedLM}[kind](network={**SHAPE, **NETWORKS[network]})
    task.configure_model()
    batch = ROWS[kind]([4], seq=4)
    assert not _unused(task, task._with_load_balance(task.losses(batch)).objective)


@pytest.mark.parametrize("n_frozen", [0, 1])
@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
@pytest.mark.parametrize("network", ["bert", "experts"])
def test_classifiers_use_all_parameters(network, pooling, n_frozen):
    labels = {"kind": "single", "names": ["a", "b"]}
    task = Classification(
        network={**SHAPE, **NETWORKS[network]},
        pooling=pooling,
        labels=labels,
        finetuning={"n_frozen": n_frozen},
    )
    task.configure_model()
    batch = {
        "input_ids": torch.tensor([[3, 4, 5]]),
        "attention_mask": torch.ones(1, 3, dtype=torch.bool),
        "labels": torch.tensor([1]),
    }
    assert not _unused(task, task._with_load_balance(task.losses(batch)).objective)
