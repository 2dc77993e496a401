"""``samples.jsonl``: what a model wrote or filled at each validation, kept across restarts."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pretrain.data.files import written_whole

TABLE = "samples/texts"  # what trackers call them


def append(path: Path, samples: Iterable[dict[str, Any]]) -> None:
    """Add one line for each sample: its ``step`` and plain values."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples))


def read(path: Path) -> list[dict[str, Any]]:
    """All samples, without a last line cut short by a crash; none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def cut_back(path: Path, step: int) -> None:
    """Drop the samples after ``step``: a run that goes on from a checkpoint makes them anew."""
    if not path.is_file():
        return
    kept = [sample for sample in read(path) if sample["step"] <= step]
    with written_whole(path) as temporary:
        append(temporary, kept)


def as_table(samples: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """The samples of one step as columns and rows."""
    columns = [name for name in samples[0] if name != "step"]
    return columns, [[sample[name] for name in columns] for sample in samples]


def by_step(samples: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """The samples of each step."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for sample in samples:
        groups.setdefault(sample["step"], []).append(sample)
    return groups
