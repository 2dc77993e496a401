"""Rotary positions in ``config.json``."""

from typing import Any

from pretrain.interop.fields import Fields
from pretrain.model import TransformerConfig


def write_rotary(config: TransformerConfig) -> dict[str, Any]:
    """Base and scaling, in the form of ``transformers`` 5 and in that of the versions before."""
    base, factor = config.rotary_base, config.rotary_factor
    if config.rotary_scaling == "ntk":
        # A changed base is all that it is (see `model/positions.py`).
        base *= factor ** (config.head_dim / (config.head_dim - 2)) if factor != 1 else 1
        factor = 1.0
    kind = {"rope_type": "default"} if factor == 1 else {"rope_type": "linear", "factor": factor}
    return {
        "rope_parameters": {**kind, "rope_theta": base},
        "rope_theta": base,
        "rope_scaling": None if factor == 1 else kind,
    }


def read_rotary(fields: Fields) -> dict[str, Any]:
    """The same as fields of our configuration.

    Raises:
        UserError: Another scaling than ``linear``, or heads that are turned in part.
    """
    name = "rope_scaling" if fields.values.get("rope_scaling") else "rope_parameters"
    values = fields.values.get(name) or {}
    if not isinstance(values, dict):
        fields.refuse(name, values, "a table")
    rope = Fields(values, fields.path)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "linear"):
        fields.refuse(f"{name}.rope_type", kind, "default or linear")
    for table in (fields, rope):
        table.only("partial_rotary_factor", 1)
    return {
        "position": "rotary",
        "rotary_base": rope.get("rope_theta", fields.get("rope_theta", 10_000.0)),
        "rotary_factor": rope.get("factor", 1.0) if kind == "linear" else 1.0,
    }
