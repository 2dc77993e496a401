"""What a class of ``transformers`` can express, and which class fits a network."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pretrain.errors import UserError
from pretrain.interop.fields import Fields
from pretrain.interop.portable import Portable
from pretrain.interop.rules import Filler, Rule
from pretrain.model import TransformerConfig

Values = tuple[Any, ...]
# An encoder has no head, so these say nothing about it.
_HEAD_FIELDS = ("head_transform", "head_bias")
# What no class here can express.
EVERYWHERE: dict[str, Values] = {
    "n_experts": (0,),
    "sliding_window": (None,),
    "parallel_blocks": (False,),
}


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

    def mismatches(self, config: TransformerConfig, objective: str) -> dict[str, Values]:
        """The fields that this class can't express, with the values that it could."""
        found = {}
        for name, values in {**EVERYWHERE, **self.needs}.items():
            if objective == "encoder" and name in _HEAD_FIELDS:
                continue
            allowed = values(config) if callable(values) else values
            if getattr(config, name) not in allowed:
                found[name] = allowed
        return found


def choose(model: Portable, families: Iterable[Family]) -> Family:
    """The family whose class computes exactly what ``model`` does.

    Raises:
        UserError: There is none; names what the nearest would need.
    """
    candidates = [family for family in families if model.objective in family.classes]
    if not candidates:
        raise UserError(f"A model for {model.objective!r} has no class of transformers to go to.")
    near = min(candidates, key=lambda f: len(f.mismatches(model.config, model.objective)))
    wrong = near.mismatches(model.config, model.objective)
    if not wrong:
        return near
    needed = ", ".join(
        f"{name} {' or '.join(map(_shown, allowed))} (it is {_shown(getattr(model.config, name))})"
        for name, allowed in wrong.items()
    )
    raise UserError(
        f"No class of transformers computes this network: {near.classes[model.objective]}, the "
        f"nearest, needs {needed}."
    )


def _shown(value: Any) -> str:
    """As it would stand in a recipe."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
