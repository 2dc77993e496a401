"""Whether tokens and positions are heard alike, where positions are added to the embedding."""

from typing import Any

import torch
from torch import Tensor

from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.views.view import PerPlace, Seams


class EmbeddingsView:
    """``embedding/token_to_position``: mean norm of the token embeddings of real tokens over the
    mean norm of what is added for their positions. Learned and sinusoidal positions only.
    """

    symptoms = (
        Symptom(
            name="embedding_and_position_norms_apart",
            series="embedding/token_to_position",
            low=0.05,
            high=20.0,
            seen="token embeddings are {value:.3g} times as long as position embeddings",
            causes="different initial sizes, a learning rate or decay that only one of them gets, "
            "or positions that don't learn",
            remedies="position_scale, the same init for both, embedding_lr_ratio: 1.0",
        ),
    )

    def __init__(self, transformer: Any, device: torch.device) -> None:
        self._embeddings = transformer.embeddings
        self._norms = PerPlace(2, "sum").to(device)

    @staticmethod
    def applies(config: Any) -> bool:
        """Whether positions are added to the embedding at all."""
        return config.position in ("learned", "sinusoidal")

    def seams(self, transformer: Any) -> Seams:
        """The sums of both, as the embedding's dropout or norm gets them, and the token ids."""
        return [("tokens", transformer.embeddings)]

    def observe(self, key: str, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Look both up for the tokens of the probe."""
        input_ids, positions = inputs[0], inputs[1]
        tokens = seam.token(input_ids).float().norm(dim=-1)
        added = seam.added_positions(positions).float().norm(dim=-1).expand_as(tokens)
        self._norms.update(0, (tokens * real).sum())
        self._norms.update(1, (added * real).sum())

    def metrics(self) -> dict[str, float]:
        """One ratio."""
        tokens, positions = self._norms.close()
        ratio = tokens / positions if positions else float("nan")
        return {"embedding/token_to_position": ratio}
