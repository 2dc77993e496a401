"""Causal language modelling: GPT's objective (Radford et al. 2018, equation 1)."""

from typing import ClassVar

from torch import Tensor

from pretrain.tasks.base import Batch
from pretrain.tasks.language_model import LanguageModel


class CausalLM(LanguageModel):
    """Predict each next token from those before it."""

    objective: ClassVar[str] = "clm"
    causal = True

    def target_states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Every position: ``(batch * seq, d_model)`` and labels ``(batch * seq,)``."""
        return self.hidden_states(batch).flatten(0, 1), batch["labels"].flatten()
