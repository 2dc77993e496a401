"""``config.yaml`` by dotted key, as on the command line, and the keys in which runs differ."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MISSING = "(missing)"
# Where a run lies says nothing about what it computes.
_PLACE = {"run_name", "runs_dir"}
_ORDER = ("model", "data", "seed_everything", "init_from", "trainer", "environment")


class Difference(NamedTuple):
    """A key, and what it says in each run, as text."""

    key: str
    values: tuple[str, ...]


def read_settings(path: Path) -> dict[str, Any]:
    """The configuration in ``path`` by dotted key; empty where there is none to be read."""
    import yaml  # not needed for the list of runs

    try:
        config = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return flatten(config) if isinstance(config, Mapping) else {}


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """``{"model": {"class_path": C, "init_args": {"lr": 1}}}`` as ``{"model": C, "model.lr": 1}``.

    Lists of plain values stay values; classes in a list are told apart by their names.
    """
    flat: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, Mapping) and value:
            for name, inner in value.items():
                hidden = prefix and name in ("class_path", "init_args")
                walk(prefix if hidden else f"{prefix}.{name}".lstrip("."), inner)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            names = [
                str(one.get("class_path", i)).rpartition(".")[2] for i, one in enumerate(value)
            ]
            for i, (name, one) in enumerate(zip(names, value, strict=True)):
                walk(f"{prefix}.{name if names.count(name) == 1 else i}", one)
        elif value != {} or prefix not in flat:  # no arguments of a class that stands there
            flat[prefix] = value

    walk("", config)
    return flat


def differences(settings: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """The keys that do not say the same in all of ``settings``, the model's first.

    An empty one is not known: its cells are ``MISSING``, and alone they make no difference.
    """
    keys = list(dict.fromkeys(key for one in settings for key in one if key not in _PLACE))
    keys.sort(key=_rank)
    rows = (
        Difference(key, tuple(in_words(one[key]) if key in one else MISSING for one in settings))
        for key in keys
    )
    known = [i for i, one in enumerate(settings) if one]
    return [row for row in rows if len({row.values[i] for i in known}) > 1]


def in_words(value: Any) -> str:
    """A setting as YAML writes it, equal for equal values."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(in_words, value))}]"
    if isinstance(value, int):
        return str(value)
    try:
        return f"{float(value):.12g}"  # YAML reads 1e-06 as a text and 1.0e-06 as a number
    except (TypeError, ValueError):
        return " ".join(str(value).split()) or '""'


def _rank(key: str) -> int:
    root = key.partition(".")[0]
    return _ORDER.index(root) if root in _ORDER else len(_ORDER) - 1
