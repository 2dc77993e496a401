"""A model's architecture and tokenizer, taken from a checkpoint instead of the recipe."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import yaml

from pretrain.errors import UserError
from pretrain.model import TransformerConfig

Use = Literal["continue", "evaluate", "warm_start"]
"""What a checkpoint is taken for."""

# What may differ from the checkpoint: these change no weight and nothing that weights mean.
_FREE = {"dropout", "attention_dropout", "init", "load_balance_weight"}
# These change no weight either, but what the weights see: a longer context is reached by them.
# The base of rotary positions stays as it is: scaling "ntk" is the way to change it.
_CONTEXT = {"rotary_scaling", "rotary_factor", "sliding_window"}


def write_base_layer(
    checkpoint: Mapping[str, Any], model_class: str, data_class: str, path: Path
) -> None:
    """Write a configuration with the checkpoint's architecture, for the recipe to lie on top of.

    A classifier takes more from it: the direction of reading, the optimizer and rate that suit
    such weights, and what labels are read off. A masked language model without a pooler never
    learned to say anything at its first token: the mean over all tokens serves it better.
    """
    known = checkpoint["hyper_parameters"]
    model: dict[str, Any] = {"network": dict(known["network"])}
    if model_class.rpartition(".")[2] == "Classification":
        model |= {name: known[name] for name in ("lr", "optimizer") if name in known}
        model["causal"] = known.get("causal", checkpoint["objective"] == "clm")
        if checkpoint["objective"] in ("mlm", "classification"):
            model["pooling"] = known.get("pooling", "mean")
        elif checkpoint["objective"] == "encoder" and not known["pooler"]:
            model["pooling"] = "mean"
    layer = {
        "model": {"class_path": model_class, "init_args": model},
        "data": {"class_path": data_class},
    }
    path.write_text(yaml.safe_dump(layer), encoding="utf-8")


def refuse_contradictions(
    asked: Mapping[str, Any],
    network: Mapping[str, Any],
    checkpoint: str | Path,
    use: Use,
) -> str | None:
    """Raise ``UserError`` where the recipe asks for another architecture than the checkpoint's.

    Args:
        asked: What the recipe wants the network to be.
        network: What it is in the checkpoint; what an older version did not know is the default.
        checkpoint: Its path, for the message.
        use: A run that goes on keeps its network. Evaluation and a warm start may change how far
            the network sees, and a warm start the number of learned positions.

    Returns:
        One sentence that names what changes the context, if anything does.
    """
    recorded = {**asdict(TransformerConfig()), **network}
    free = set(_FREE)
    if use == "warm_start" or recorded["position"] != "learned":
        free.add("max_len")  # learned positions are weights, which only a warm start resizes
    if recorded["position"] == "sinusoidal" and recorded["position_scale"] is None:
        free.discard("init")  # it decides how large the sinusoids are
    if use != "continue":
        free |= _CONTEXT
    differs = {key: value for key, value in asked.items() if value != recorded.get(key, value)}
    for key, value in differs.items():
        if key not in free:
            raise UserError(
                f"model.network.{key} is {value}, but {checkpoint} has {recorded[key]}: "
                "leave the key out, or start without this checkpoint."
            )
    changes = [
        f"{key} {differs[key]} instead of {recorded[key]}"
        for key in sorted(_CONTEXT & differs.keys())
    ]
    return f"Another context than in {checkpoint}: {', '.join(changes)}." if changes else None
