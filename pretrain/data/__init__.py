"""From the name of a corpus to masked or shifted batches. Knows no model.

Reading order: source, readers, splits, tokenizer, token_cache, packing, sampler, masking,
streaming, datamodule. Labelled texts go another way: labels, labelled, framing, length_groups,
prepared_examples, classification.

Names are loaded when they are first used: reading text needs no torch.
"""

from pretrain.lazy import loader

_HOME_OF = {
    "ClassificationDataModule": "pretrain.data.classification",
    "Labels": "pretrain.data.labels",
    "CausalLMDataModule": "pretrain.data.datamodule",
    "MaskedLMDataModule": "pretrain.data.datamodule",
    "SplitFacts": "pretrain.data.datamodule",
    "TextDataModule": "pretrain.data.datamodule",
    "MaskingConfig": "pretrain.data.masking",
    "SourceOptions": "pretrain.data.source",
    "TextSource": "pretrain.data.source",
    "Tokenizer": "pretrain.data.tokenizer",
    "TokenizerRule": "pretrain.data.tokenizer_training",
}

__all__ = list(_HOME_OF)

__getattr__ = loader(__name__, _HOME_OF)
