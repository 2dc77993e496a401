"""Our weights from a folder that ``transformers`` wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pretrain.errors import UserError
from pretrain.interop.classifier import read_classifier
from pretrain.interop.families import FAMILIES
from pretrain.interop.family import Family
from pretrain.interop.fields import Fields
from pretrain.interop.portable import CLASSIFIER, EMBEDDING, HEAD, Objective, Portable, differences
from pretrain.interop.rules import Rule, names, to_ours
from pretrain.interop.tokenizer_folder import check_vocabulary, read_tokenizer
from pretrain.interop.weights import read_json, read_weights
from pretrain.model import TransformerConfig

_LARGEST_SIZE = 2**24  # of one dimension; beyond it torch can't count the weights


def read_folder(folder: Path) -> tuple[Portable, list[str]]:
    """The model in ``folder``, float32, and one line for each thing that is worth knowing.

    Args:
        folder: ``config.json``, ``model.safetensors`` (or shards with their index), tokenizer.

    Raises:
        UserError: A file is missing, a field asks for what we can't compute, or tensors are
            missing or left over; heads that we have no place for are only named.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder.")
    fields = Fields(read_json(folder / "config.json"), folder / "config.json")
    family = _family(fields)
    config = _config(family, fields)
    weights = _Weights(folder, family, config, fields.values.get("architectures"))
    classifier = None
    if weights.objective == "classification":
        classifier = read_classifier(fields, weights.n_labels(), family.causal)
        labels = classifier.labels
        weights.notes.append(f"Labels ({labels.kind}): {', '.join(labels.names) or 'a number'}.")
    tokenizer_json, length = read_tokenizer(folder)
    if tokenizer_json is None:
        weights.notes.append("There is no tokenizer.json, vocab.json or vocab.txt: no tokenizer.")
    else:
        check_vocabulary(tokenizer_json, fields.size("vocab_size"), folder)
    # "No limit" is written as a huge number, so the longer of the two is never taken.
    trained_len = max(int(min(config.max_len, length or config.max_len)), 1)
    model = Portable(
        config, weights.objective, weights.state(), tokenizer_json, trained_len, classifier
    )
    model.check(folder)
    return model, weights.notes


def _family(fields: Fields) -> Family:
    known = {family.model_type: family for family in FAMILIES}
    kind = fields.get("model_type", "")
    if kind not in known:
        fields.refuse("model_type", kind, " or ".join(known))
    fields.only("quantization_config")
    return known[kind]


def _config(family: Family, fields: Fields) -> TransformerConfig:
    values = {"vocab_size": fields.size("vocab_size"), **family.read(fields)}
    largest = max(value for value in values.values() if isinstance(value, int))
    if largest > _LARGEST_SIZE:
        raise UserError(f"{fields.path}: {largest} is no size that a network has.")
    try:
        return TransformerConfig(**values)
    except ValueError as error:
        raise UserError(f"{fields.path}: {error}") from error


class _Weights:
    """The tensors of a folder under the family's full names, and what stands on the stack."""

    def __init__(
        self, folder: Path, family: Family, config: TransformerConfig, architectures: Any
    ) -> None:
        self.folder, self.family, self.config = folder, family, config
        self.notes: list[str] = []
        self.tensors = self._full_names(read_weights(folder))
        if config.n_layers > len(self.tensors):  # else a slip would name tensors without end
            raise UserError(
                f"{folder}: {len(self.tensors)} tensors can't be {config.n_layers} layers."
            )
        dtypes = {str(t.dtype).removeprefix("torch.") for t in self.tensors.values()} - {"float32"}
        if dtypes:
            self.notes.append(f"Weights in {', '.join(sorted(dtypes))} become float32.")
        self._drop_copies()
        self.objective = self._objective(architectures)
        pooler = f"{family.prefix}pooler."
        has_pooler = self.objective in ("encoder", "classification") and any(
            name.startswith(pooler) for name in self.tensors
        )
        self.rules = list(family.rules(config, self.objective, has_pooler))
        self._check_names()

    def state(self) -> dict[str, Tensor]:
        """All tensors under our names."""
        rules = [r for r in self.rules if self.tensors.keys() >= names([r])]
        try:
            state = to_ours(rules, self.tensors)
        except RuntimeError as error:
            raise UserError(f"{self.folder}: tensors of a wrong shape ({error}).") from error
        if self.objective in ("mlm", "clm") and HEAD not in state:
            state[HEAD] = state[EMBEDDING] if self.config.tie_embeddings else self._new_head()
        return state

    def n_labels(self) -> int:
        """How many outputs the classifier has."""
        rule = next(
            rule for rule in self.rules if isinstance(rule, Rule) and rule.ours == CLASSIFIER
        )
        return len(self.tensors[rule.theirs[0]])

    def _full_names(self, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """With the prefix of the block stack, whether it was saved with it or alone."""
        family = self.family
        begin = (family.prefix, family.lm_head, *family.other_heads, "cls.")
        tensors: dict[str, Tensor] = {}
        for name, tensor in found.items():
            if family.ignored.search(name):
                continue
            if not tensor.is_floating_point():
                raise UserError(f"{self.folder}: {name} is {tensor.dtype}, which is no weight.")
            full = name if name.startswith(begin) else family.prefix + name
            if full in tensors:
                raise UserError(f"{self.folder} holds {full} twice, with its prefix and without.")
            tensors[full] = tensor
        return tensors

    def _drop_copies(self) -> None:
        """A tied head that was saved all the same has to be the embedding."""
        if not self.config.tie_embeddings:
            return
        for copy, original in self.family.tied.items():
            tensor = self.tensors.get(copy)
            if tensor is None or original not in self.tensors:
                continue
            if not torch.equal(tensor, self.tensors[original]):
                raise UserError(
                    f"{self.folder}: tie_word_embeddings is true, but {copy} and {original} differ."
                )
            del self.tensors[copy]

    def _objective(self, architectures: Any) -> Objective:
        classes = self.family.classes
        if "classification" in classes and architectures == [classes["classification"]]:
            return "classification"
        if self.family.causal:
            return "clm"
        wanted = names(self.family.rules(self.config, "mlm", False))
        if any(name.startswith(self.family.lm_head) for name in wanted):
            headless = not any(name.startswith(self.family.lm_head) for name in self.tensors)
        else:  # the head is the embedding, so that only the name of the class tells
            headless = architectures == [classes["encoder"]]
        if headless:
            self.notes.append("There is no masked language model's head: it becomes an encoder.")
        return "encoder" if headless else "mlm"

    def _check_names(self) -> None:
        wanted = names(self.rules)
        missing, extra = wanted - self.tensors.keys(), self.tensors.keys() - wanted
        others = self.family.other_heads
        if self.objective == "classification":
            others = (*others, self.family.lm_head)
        heads = {name for name in extra if name.startswith(others)}
        if self.objective == "clm":
            missing.discard("lm_head.weight")
        if missing or extra - heads:
            raise UserError(
                f"The weights in {self.folder} are not those of its config.json: "
                f"{differences(missing, extra - heads)}."
            )
        if heads:
            dropped = sorted({name.rpartition(".")[0] for name in heads})
            self.notes.append(f"Dropped heads: {', '.join(dropped)}.")

    def _new_head(self) -> Tensor:
        self.notes.append("There is no lm_head: the head is new, from random weights.")
        shape = (self.config.vocab_size or 0, self.config.d_model)
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.02
