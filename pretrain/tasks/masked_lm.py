"""Masked language modelling: BERT's objective (Devlin et al. 2019, section 3.1)."""

from typing import ClassVar

from torch import Tensor

from pretrain.tasks.base import Batch
from pretrain.tasks.language_model import LanguageModel


class MaskedLM(LanguageModel):
    """Predict the chosen tokens from both sides. Head and loss see those positions only.

    Which tokens are chosen and how they are hidden (15 %, 80-10-10) is the DataModule's part.
    """

    objective: ClassVar[str] = "mlm"
    causal = False

    def target_states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The states at ``masked_positions`` ``(capacity,)``, gathered to a fixed shape."""
        hidden = self.hidden_states(batch).flatten(0, 1)  # (batch * seq, d_model)
        return hidden[batch["masked_positions"]], batch["labels"]

    def target_share(self) -> float:
        """The masking rate of the DataModule, BERT's 15 % where there is none."""
        data = None if self._trainer is None else self.trainer.datamodule  # type: ignore[attr-defined]
        masking = getattr(data, "masking", None)
        return 0.15 if masking is None else masking.rate
