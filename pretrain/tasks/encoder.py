"""A block stack without a language model's head, as other software publishes encoders."""

from typing import ClassVar

from torch import Tensor

from pretrain.errors import UserError
from pretrain.model import Pooler, TransformerConfig, initialize
from pretrain.tasks.base import Batch, TransformerTask
from pretrain.tasks.losses import LossSums


class Encoder(TransformerTask):
    """Hidden states, and perhaps what BERT's pooler makes of the first token.

    It has no objective of its own: it is what other tasks start from (``--init_from``).

    Args:
        network: Shape and parts of the Transformer.
        pooler: Whether there is one.
    """

    objective: ClassVar[str] = "encoder"
    causal = False

    def __init__(self, network: TransformerConfig, pooler: bool = False) -> None:
        super().__init__(network)
        self.has_pooler = pooler
        self.pooler: Pooler | None = None
        self.save_hyperparameters({"pooler": pooler})

    def build_heads(self) -> None:
        """The pooler, if there is one."""
        self.pooler = Pooler(self.config) if self.has_pooler else None
        initialize(self.transformer)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states ``(batch, seq, d_model)``."""
        return self.transformer(input_ids, attention_mask, segment_ids)

    def losses(self, batch: Batch) -> LossSums:
        """Raises UserError: there is nothing to learn here."""
        raise UserError("An encoder has no objective: start a MaskedLM from it with --init_from.")
