"""From the name of a corpus to masked or shifted batches. Knows no model.

Reading order: source, readers, splits, tokenizer, token_cache, packing, sampler, masking,
streaming, datamodule.
"""

from pretrain.data.datamodule import (
    CausalLMDataModule,
    MaskedLMDataModule,
    SplitFacts,
    TextDataModule,
)
from pretrain.data.masking import MaskingConfig
from pretrain.data.source import SourceOptions, TextSource
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule

__all__ = [
    "CausalLMDataModule",
    "MaskedLMDataModule",
    "MaskingConfig",
    "SourceOptions",
    "SplitFacts",
    "TextDataModule",
    "TextSource",
    "Tokenizer",
    "TokenizerRule",
]
