"""How small the vectors get that enter a norm: gradients through it grow as they shrink."""

from typing import Any

import torch
from torch import Tensor, nn

from pretrain.diagnostics.symptom import Symptom
from pretrain.diagnostics.views.view import PerPlace, Seams


def spread(vectors: Tensor, norm: nn.Module) -> Tensor:
    """What ``norm`` divides by, without its epsilon: ``(..., d_model)`` float to ``(...)``.

    The standard deviation for a LayerNorm, the root mean square for an RMSNorm.
    """
    vectors = vectors.float()
    if isinstance(norm, nn.LayerNorm):
        vectors = vectors - vectors.mean(-1, keepdim=True)
    return vectors.square().mean(-1).sqrt()


class NormInputsView:
    """``norm/min_input_std``: the smallest spread of a real token's vector that enters a norm."""

    symptoms = (
        Symptom(
            name="norm_input_vanishing",
            series="norm/min_input_std",
            low=1e-3,
            patience=1,
            seen="vectors that enter a norm have nearly vanished: their smallest deviation is "
            "{value:.1e}",
            causes="embeddings that started too small or shrank under weight decay, or a residual "
            "stream that cancels itself",
            remedies="a larger initialisation, no decay on embeddings, a larger norm_eps, float32 "
            "inside the norm",
        ),
    )

    def __init__(self, transformer: Any, device: torch.device) -> None:
        kinds = (nn.RMSNorm, nn.LayerNorm)
        self._names = [n for n, part in transformer.named_modules() if isinstance(part, kinds)]
        self._smallest = PerPlace(len(self._names), "min").to(device)

    def seams(self, transformer: Any) -> Seams:
        """Every norm of the stack."""
        return [(i, transformer.get_submodule(name)) for i, name in enumerate(self._names)]

    def observe(self, index: int, seam: Any, inputs: tuple[Any, ...], real: Tensor) -> None:
        """Real tokens only."""
        self._smallest.update(index, spread(inputs[0], seam).masked_fill(~real, torch.inf).min())

    def metrics(self) -> dict[str, float]:
        """Per norm, by its place."""
        figures = zip(self._names, self._smallest.close(), strict=True)
        return {f"norm/min_input_std/{_place(name)}": value for name, value in figures}


def _place(name: str) -> str:
    """``blocks.0.attention_norm`` as ``layer_0/attention_norm``."""
    return name.replace("blocks.", "layer_").replace(".", "/")
