"""What a class of ``transformers`` can express, and which class fits a network."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pretrain.errors import UserError
from pretrain.interop.fields import Fields
from pretrain.interop.portable import Portable
from pretrain.interop.rules import Filler, Rule
from pretrain.model import TransformerConfig
from pretrain.model.pooling import Pooling

Values = tuple[Any, ...]
# Without a head over the vocabulary these say nothing.
_HEAD_FIELDS = ("head_transform", "head_bias")
# What no class here can express.
EVERYWHERE: dict[str, Values] = {
    "n_experts": (0,),
    "sliding_window": (None,),
    "parallel_blocks": (False,),
}


class Mismatch(NamedTuple):
    """A field, its value, and the values that a class could express."""

    name: str
    value: Any
    allowed: Values


@dataclass(frozen=True)
class Family:
    """One architecture of ``transformers``: configuration and names of tensors, both ways.

    Attributes:
        model_type: Its name in ``config.json``.
        classes: The class for each objective.
        prefix: What stands before the block stack's names where there is a head.
        lm_head: What the names of its language model's head begin with.
        needs: For each field of our configuration that is not free, the values that it can
            express, or a function from the configuration to them.
        write: Our configuration and the length to state, to the fields of ``config.json``.
        read: The fields of ``config.json`` to those of our configuration.
        rules: The tensors, for a configuration, an objective, and whether there is a pooler.
        tied: Names that may hold another tensor's copy where the head is tied: copy to original.
        other_heads: What the names of heads begin with that are dropped.
        ignored: Names of what is no weight.
        takes_segments: Whether its tokenizer tells the segments of a pair.
        pooling: What its class for classification takes for the text.
    """

    model_type: str
    classes: Mapping[str, str]
    prefix: str
    lm_head: str
    needs: Mapping[str, Values | Callable[[TransformerConfig], Values]]
    write: Callable[[TransformerConfig, int], dict[str, Any]]
    read: Callable[[Fields], dict[str, Any]]
    rules: Callable[[TransformerConfig, str, bool], Iterable[Rule | Filler]]
    tied: Mapping[str, str]
    other_heads: tuple[str, ...] = ()
    ignored: re.Pattern[str] = field(default_factory=lambda: re.compile(r"rotary_emb\.inv_freq$"))
    takes_segments: bool = False
    pooling: Pooling | None = None

    @property
    def causal(self) -> bool:
        """Whether it reads from left to right."""
        return "clm" in self.classes

    def serves(self, model: Portable) -> bool:
        """Whether it has a class with such a head."""
        return model.objective in self.classes and self.causal == model.causal

    def mismatches(self, model: Portable) -> list[Mismatch]:
        """What this class can't express."""
        found = []
        for name, values in {**EVERYWHERE, **self.needs}.items():
            if model.objective not in ("mlm", "clm") and name in _HEAD_FIELDS:
                continue
            allowed = values(model.config) if callable(values) else values
            value = getattr(model.config, name)
            if value not in allowed:
                found.append(Mismatch(name, value, allowed))
        if model.classifier is not None and self.pooling not in (None, model.classifier.pooling):
            found.append(Mismatch("pooling", model.classifier.pooling, (self.pooling,)))
        return found


def choose(model: Portable, families: Iterable[Family]) -> Family:
    """The family whose class computes exactly what ``model`` does.

    Raises:
        UserError: There is none; names what the nearest would need.
    """
    families = list(families)
    candidates = [family for family in families if family.serves(model)]
    if not candidates:
        raise UserError(f"A model for {model.objective!r} has no class of transformers to go to.")
    near = min(candidates, key=lambda family: len(family.mismatches(model)))
    wrong = near.mismatches(model)
    if not wrong:
        return near
    needed = ", ".join(
        f"{name} {' or '.join(map(_shown, allowed))} (it is {_shown(value)})"
        for name, value, allowed in wrong
    )
    raise UserError(
        f"No class of transformers computes this network: {_kin(model, families)}"
        f"{near.classes[model.objective]}, the nearest, needs {needed}."
    )


def _kin(model: Portable, families: Iterable[Family]) -> str:
    """Name the family that has this block stack, but no class with this head."""
    for family in families:
        other_head = family.causal == model.causal and not family.serves(model)
        if other_head and not family.mismatches(model):
            class_name = next(iter(family.classes.values()))
            return f"{class_name} has this block stack, but no classifier like this beside it; "
    return ""


def _shown(value: Any) -> str:
    """As it would stand in a recipe."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
