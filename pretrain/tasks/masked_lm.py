"""Masked language modelling: BERT's objective (Devlin et al. 2019, section 3.1)."""

from typing import Any, ClassVar

from torch import Tensor

from pretrain.tasks.base import Batch
from pretrain.tasks.language_model import LanguageModel
from pretrain.tasks.losses import ScoreSums
from pretrain.tasks.metrics import AccuracyByMasking


class MaskedLM(LanguageModel):
    """Predict the chosen tokens from both sides. Head and loss see those positions only.

    Which tokens are chosen and how they are hidden (15 %, 80-10-10) is the DataModule's part.
    """

    objective: ClassVar[str] = "mlm"
    causal = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by_masking = AccuracyByMasking()
        self._mask_id: int | None = None

    def setup(self, stage: str) -> None:
        """Learn from the DataModule's tokenizer, if there is one, which id hides a token."""
        super().setup(stage)
        data = getattr(self.trainer, "datamodule", None)
        self._mask_id = getattr(getattr(data, "tokenizer", None), "mask_id", None)

    def scores(self, batch: Batch) -> ScoreSums:
        """As for every language model; hits are counted by masking as well."""
        sums = super().scores(batch)
        if self._mask_id is not None and sums.hits is not None:
            shown = batch["input_ids"].flatten()[batch["masked_positions"]]
            self.by_masking.update(shown, batch["labels"], sums.hits, self._mask_id)
        return sums

    def _figures(self) -> dict[str, float]:
        figures, kinds = super()._figures(), self.by_masking.compute()
        self.by_masking.reset()
        return {**figures, **{f"masked_accuracy/{kind}": share for kind, share in kinds.items()}}

    def target_states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The states at ``masked_positions`` ``(capacity,)``, gathered to a fixed shape."""
        hidden = self.hidden_states(batch).flatten(0, 1)  # (batch * seq, d_model)
        return hidden[batch["masked_positions"]], batch["labels"]

    def target_share(self) -> float:
        """The masking rate of the DataModule, BERT's 15 % where there is none."""
        data = None if self._trainer is None else self.trainer.datamodule  # type: ignore[attr-defined]
        masking = getattr(data, "masking", None)
        return 0.15 if masking is None else masking.rate
