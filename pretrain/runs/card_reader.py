"""Reads a run's card, and tells whether its process still lives; without torch, so at once."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

# After so long without a sign of life a process on another host counts as gone. A validation of the
# whole split, during which nothing is written, may take some minutes.
STALE_AFTER_S = 900.0


def read_card(path: str | Path) -> dict[str, Any]:
    """The card at ``path`` (the file or its run folder).

    A card that says ``running`` while its process is gone reads ``interrupted``; one that is gone
    or no card is empty.
    """
    path = Path(path)
    try:
        card = json.loads((path / "summary.json" if path.is_dir() else path).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(card, dict):
        return {}
    if card.get("status") == "running" and not _is_alive(card):
        card["status"] = "interrupted"
    return card


def _is_alive(card: dict[str, Any]) -> bool:
    """Whether the card's process still lives; on another host, whether it wrote lately."""
    if card.get("host") != socket.gethostname():
        return time.time() - card.get("written_at", 0.0) < STALE_AFTER_S
    started = process_started(card.get("pid", 0))
    # A number may be used again by another process, so the start has to agree too.
    return started is not None and started == card.get("process_started")


def process_started(pid: int) -> str | None:
    """When process ``pid`` started, as a text to compare; None when there is no such process."""
    try:
        # The command's name may hold spaces and brackets; field 22 counts from behind it.
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    try:
        os.kill(pid, 0)
    except PermissionError:
        return "unknown"
    except OSError:
        return None
    return "unknown"
