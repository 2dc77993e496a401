"""LightningDataModules: from the name of a corpus to the batches of an objective."""

from __future__ import annotations

from typing import Any

from pretrain.data.masking import Masker, MaskingConfig
from pretrain.data.packing import CausalPacking, MaskedPacking, Packing
from pretrain.data.prepared import SplitFacts
from pretrain.data.seeding import Purpose
from pretrain.data.text_datamodule import TextDataModule
from pretrain.data.token_cache import TokenStream
from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError

__all__ = ["CausalLMDataModule", "MaskedLMDataModule", "SplitFacts", "TextDataModule"]


class CausalLMDataModule(TextDataModule):
    """Batches for a causal language model: see `TextDataModule` and `CausalBatch`."""

    objective = "clm"

    def _has_target(self, stream: TokenStream) -> bool:
        return stream.n_tokens > (stream.n_documents if self.isolate_documents else 1)

    def _packing(self, split: str) -> Packing:
        pad_id = self.tokenizer.pad_id
        filler_id = 0 if pad_id is None else pad_id
        return CausalPacking(self.seq_len, filler_id, self.isolate_documents)


class MaskedLMDataModule(TextDataModule):
    """Batches for a masked language model: see `TextDataModule` and `MaskedBatch`.

    Args:
        masking: how many tokens are predicted, and what stands in their place.
        kwargs: those of `TextDataModule`.
    """

    objective = "mlm"

    def __init__(
        self,
        source: str | dict[str, float] = "builtin",
        *,
        masking: MaskingConfig | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(source, **kwargs)
        self.masking = masking or MaskingConfig()

    def _check_tokenizer(self, tokenizer: Tokenizer) -> None:
        roles = {"[MASK]": tokenizer.mask_id, "[CLS]": tokenizer.cls_id, "[SEP]": tokenizer.sep_id}
        missing = [name for name, index in roles.items() if index is None]
        if missing:
            raise UserError(
                f"The tokenizer has no {', '.join(missing)}, which masked language modelling "
                "needs: use a WordPiece tokenizer with these tokens, or train one (kind wordpiece)."
            )

    def _has_target(self, stream: TokenStream) -> bool:
        return stream.n_tokens > stream.n_documents  # more than the [SEP] that closes each

    def _packing(self, split: str) -> Packing:
        tokenizer = self.tokenizer
        assert tokenizer.mask_id is not None
        assert tokenizer.cls_id is not None
        used = set(tokenizer.backend.get_vocab(with_added_tokens=True).values())
        unused = set(range(tokenizer.vocab_size)) - used
        masker = Masker(
            self.masking,
            self.seq_len,
            mask_id=tokenizer.mask_id,
            special_ids=(*tokenizer.special_ids, *unused),
            vocab_size=tokenizer.vocab_size,
            seed=self.seed,
            purpose=Purpose.TRAIN_MASKS if split == "train" else Purpose.VALIDATION_MASKS,
        )
        filler_id = 0 if tokenizer.pad_id is None else tokenizer.pad_id
        return MaskedPacking(
            self.seq_len, tokenizer.cls_id, filler_id, masker, self.isolate_documents
        )
