"""A model's architecture and tokenizer, taken from a checkpoint instead of the recipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pretrain.errors import UserError

# What may differ from the checkpoint: these change no weight and nothing that weights mean.
_FREE = {"dropout", "attention_dropout", "init"}


def write_base_layer(
    network: Mapping[str, Any], model_class: str, data_class: str, path: Path
) -> None:
    """Write a configuration with the checkpoint's architecture, for the recipe to lie on top of."""
    layer = {
        "model": {"class_path": model_class, "init_args": {"network": dict(network)}},
        "data": {"class_path": data_class},
    }
    path.write_text(yaml.safe_dump(layer), encoding="utf-8")


def refuse_contradictions(
    asked: Mapping[str, Any], network: Mapping[str, Any], checkpoint: str | Path
) -> None:
    """Raise ``UserError`` where the recipe asks for another architecture than the checkpoint's."""
    free = set(_FREE)
    if network.get("position") != "learned":
        free.add("max_len")  # only learned positions are weights
    for key, value in asked.items():
        if key in network and key not in free and value != network[key]:
            raise UserError(
                f"model.network.{key} is {value}, but {checkpoint} has {network[key]}: "
                "leave the key out, or start without this checkpoint."
            )
