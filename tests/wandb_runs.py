"""Reads back what a run has logged to Weights & Biases without a network, by W&B's own tool."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def history(run: Path) -> list[dict[str, Any]]:
    """The logged rows of every start of the run in the folder ``run``."""
    return [record["history"] for _, record in _records(run, "history")]


def config(run: Path) -> dict[str, Any]:
    """The run's configuration, as its last start left it."""
    updates = [record["config"]["update"] for _, record in _records(run, "config")]
    return {name: value for update in updates for name, value in update.items()}


def alerts(run: Path) -> list[dict[str, str]]:
    """``title``, ``text`` and ``level`` of every alert."""
    return [record["alert"] for _, record in _records(run, "alert")]


def tables(run: Path) -> list[dict[str, Any]]:
    """``name``, ``step``, ``columns`` and ``data`` of every table, in the order of logging."""
    found = _media(run, "table-file")
    return [{**json.loads(one.pop("text")), **one} for one in found]


def pages(run: Path) -> list[dict[str, Any]]:
    """``name``, ``step`` and ``text`` of every HTML page or picture."""
    return _media(run, "html-file")


def _media(run: Path, kind: str) -> list[dict[str, Any]]:
    found = []
    for start, record in _records(run, "history"):
        item = record["history"]["item"]
        for key in [key for key, value in item.items() if (key[-6:], value) == ("._type", kind)]:
            name = key.removesuffix("._type")
            text = (start / "files" / item[f"{name}.path"]).read_text("utf-8")
            found.append({"name": name, "step": item["trainer/global_step"], "text": text})
    return found


def _records(run: Path, kind: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder of each start, with each of its records of that type."""
    for file in sorted(run.glob("wandb/*run-*/*.wandb")):
        shown = subprocess.run(
            [str(Path(sys.executable).with_name("wandb")), "leet", "inspect", "--json", str(file)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        for record in map(json.loads, shown.stdout.splitlines()):
            if record["type"] == kind:
                yield file.parent, record
