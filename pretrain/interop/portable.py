"""A model without Lightning: what an export starts from and what an import gives."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pretrain.data.labels import Labels
from pretrain.errors import UserError
from pretrain.model import LanguageModelHead, Pooler, Transformer, TransformerConfig
from pretrain.model.pooling import Pooling

Objective = Literal["mlm", "clm", "encoder", "classification"]
HEAD = "head.decoder.weight"
CLASSIFIER = "classifier.weight"
EMBEDDING = "transformer.embeddings.token.weight"


@dataclass(frozen=True)
class Classifier:
    """What stands on the block stack of a classifier, its weights apart.

    Attributes:
        labels: Kind and names.
        pooling: Which vector stands for the text.
        causal: Whether the block stack reads from left to right; the classifier then has no bias.
        dropout: Rate in front of the classifier.
        reads_pairs: Whether it compares two texts; None where that is not known.
    """

    labels: Labels
    pooling: Pooling
    causal: bool
    dropout: float
    reads_pairs: bool | None = None


@dataclass(frozen=True)
class Portable:
    """Weights with all that gives them a meaning.

    Attributes:
        config: Shape and parts of the network, ``vocab_size`` included.
        objective: What stands on the block stack: a head over the vocabulary (``mlm``, ``clm``),
            at most a pooler (``encoder``), or a ``classification``'s head.
        state: Tensors under our names: ``transformer.*``, and ``head.*``, ``pooler.*`` or
            ``classifier.*``.
        tokenizer_json: The content of its ``tokenizer.json``, if there is one.
        trained_len: Tokens in a row that it was trained on, where that is known.
        classifier: Of a classification, and only of it.
    """

    config: TransformerConfig
    objective: Objective
    state: dict[str, Tensor]
    tokenizer_json: str | None = None
    trained_len: int | None = None
    classifier: Classifier | None = None

    @property
    def causal(self) -> bool:
        """Whether the block stack reads from left to right."""
        return self.objective == "clm" or (self.classifier is not None and self.classifier.causal)

    @property
    def has_pooler(self) -> bool:
        """Whether the first token is pooled."""
        if self.classifier is not None:
            return self.classifier.pooling == "cls"
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
            trunk = Transformer(self.config, self.causal)
            parts["transformer"] = trunk
            if self.objective in ("mlm", "clm"):
                parts["head"] = LanguageModelHead(self.config, trunk.embeddings.token)
            if self.has_pooler:
                parts["pooler"] = Pooler(self.config)
            if self.classifier is not None:
                n_outputs = self.classifier.labels.n_outputs
                parts["classifier"] = nn.Linear(
                    self.config.d_model, n_outputs, bias=not self.causal
                )
        return {name: tensor.shape for name, tensor in parts.state_dict().items()}


def differences(missing: Iterable[str], extra: Iterable[str]) -> str:
    """``missing a, b; left over c``, the first few by name."""
    parts = []
    for what, found in (("missing", sorted(missing)), ("left over", sorted(extra))):
        if found:
            more = f" and {len(found) - 4} more" if len(found) > 4 else ""
            parts.append(f"{what} {', '.join(found[:4])}{more}")
    return "; ".join(parts)
