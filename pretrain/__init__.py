"""Pretrain small BERTs and GPTs, and see inside them while they learn.

The names below are loaded when they are first used, so that ``import pretrain`` costs nothing.
"""

from pretrain.lazy import loader

__version__ = "0.1.0"

_HOME_OF = {
    "TransformerConfig": "pretrain.model",
    "Transformer": "pretrain.model",
    "MaskedLM": "pretrain.tasks",
    "CausalLM": "pretrain.tasks",
    "MaskedLMDataModule": "pretrain.data",
    "CausalLMDataModule": "pretrain.data",
    "ClassificationDataModule": "pretrain.data",
    "TokenizerRule": "pretrain.data",
    "UserError": "pretrain.errors",
}

__all__ = ["__version__", *_HOME_OF]

__getattr__ = loader(__name__, _HOME_OF)
