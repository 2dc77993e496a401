"""A model without Lightning: what an export starts from and what an import gives."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pretrain.errors import UserError
from pretrain.model import LanguageModelHead, Pooler, Transformer, TransformerConfig

Objective = Literal["mlm", "clm", "encoder"]
HEAD = "head.decoder.weight"
EMBEDDING = "transformer.embeddings.token.weight"


@dataclass(frozen=True)
class Portable:
    """Weights with all that gives them a meaning.

    Attributes:
        config: Shape and parts of the network, ``vocab_size`` included.
        objective: What stands on the block stack: a head over the vocabulary (``mlm``, ``clm``),
            or at most a pooler (``encoder``).
        state: Tensors under our names: ``transformer.*``, and ``head.*`` or ``pooler.*``.
        tokenizer_json: The content of its ``tokenizer.json``, if there is one.
        trained_len: Tokens in a row that it was trained on, where that is known.
    """

    config: TransformerConfig
    objective: Objective
    state: dict[str, Tensor]
    tokenizer_json: str | None = None
    trained_len: int | None = None

    @property
    def has_pooler(self) -> bool:
        """Whether an encoder's first token is pooled."""
        return self.objective == "encoder" and any(n.startswith("pooler.") for n in self.state)

    def check(self, where: object) -> None:
        """Compare the tensors with those that the configuration asks for.

        Args:
            where: What the complaint speaks of, such as the file.

        Raises:
            UserError: Tensors are missing, left over or of another shape; with their names.
        """
        wanted = self._wanted()
        missing = wanted.keys() - self.state.keys()
        extra = self.state.keys() - wanted.keys()
        if missing or extra:
            raise UserError(f"{where} does not hold this network: {differences(missing, extra)}.")
        for name, shape in wanted.items():
            if self.state[name].shape != shape:
                raise UserError(
                    f"{where}: {name} has the shape {tuple(self.state[name].shape)}, but this "
                    f"network needs {tuple(shape)}."
                )
        is_tied = self.config.tie_embeddings and HEAD in wanted
        if is_tied and not torch.equal(self.state[HEAD], self.state[EMBEDDING]):
            raise UserError(f"{where}: tie_embeddings is true, but {HEAD} is not {EMBEDDING}.")

    def _wanted(self) -> dict[str, torch.Size]:
        parts = nn.ModuleDict()
        with torch.device("meta"):
            trunk = Transformer(self.config, causal=self.objective == "clm")
            parts["transformer"] = trunk
            if self.objective != "encoder":
                parts["head"] = LanguageModelHead(self.config, trunk.embeddings.token)
            elif self.has_pooler:
                parts["pooler"] = Pooler(self.config)
        return {name: tensor.shape for name, tensor in parts.state_dict().items()}


def differences(missing: Iterable[str], extra: Iterable[str]) -> str:
    """``missing a, b; left over c``, the first few by name."""
    parts = []
    for what, found in (("missing", sorted(missing)), ("left over", sorted(extra))):
        if found:
            more = f" and {len(found) - 4} more" if len(found) > 4 else ""
            parts.append(f"{what} {', '.join(found[:4])}{more}")
    return "; ".join(parts)
