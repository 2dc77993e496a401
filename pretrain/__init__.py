"""Pretrain small BERTs and GPTs, and see inside them while they learn.

The names below are loaded when they are first used, so that ``import pretrain`` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME_OF = {
    "TransformerConfig": "pretrain.model",
    "Transformer": "pretrain.model",
    "MaskedLM": "pretrain.tasks",
    "CausalLM": "pretrain.tasks",
    "MaskedLMDataModule": "pretrain.data",
    "CausalLMDataModule": "pretrain.data",
    "TokenizerRule": "pretrain.data",
    "UserError": "pretrain.errors",
}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pretrain' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
