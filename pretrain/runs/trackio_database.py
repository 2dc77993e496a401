"""Trackio's database of a runs folder, written with SQLite alone.

Trackio's own ``init`` takes a second, prints, asks the Hub who is logged in, and stays with one
folder a process. So only the dashboard imports Trackio. A training run writes the tables of its
schema (version 2, since Trackio 0.24), and Trackio adds what else it wants when it opens the file:
it brings older schemas up to date.

All of it can be deleted at any time: ``pretrain dashboard`` makes it anew from the run folders.
"""

import json
import math
import shutil
import sqlite3
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = ".trackio"  # in the runs folder; what TRACKIO_DIR is for Trackio
PROJECT = "pretrain"
_TIMEOUT_S = 5.0  # for another process that is writing

_TABLES = """
CREATE TABLE IF NOT EXISTS metrics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,
    run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_metrics_run_step ON metrics(run_id, step);
CREATE TABLE IF NOT EXISTS configs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name TEXT NOT NULL,
    config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id)
);
CREATE TABLE IF NOT EXISTS alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,
    run_name TEXT NOT NULL, title TEXT NOT NULL, text TEXT, level TEXT NOT NULL DEFAULT 'warn',
    step INTEGER, alert_id TEXT
);
"""


class TrackioDatabase:
    """Writes runs, by their names, into the one project of a runs folder.

    Every method is on disk when it returns, as far as a killed process is concerned.

    Args:
        runs_dir: The folder that holds the run folders.

    Raises:
        sqlite3.Error, OSError: From every method, where the file can't be read or written.
    """

    def __init__(self, runs_dir: Path) -> None:
        self.folder = runs_dir / FOLDER
        self.file = self.folder / f"{PROJECT}.db"
        self._open: sqlite3.Connection | None = None

    def log(self, run: str, step: int, items: Mapping[str, Any], at: float | None = None) -> None:
        """Add a row: numbers, tables and pages by name; ``at`` is its time, None for now."""
        row = (run, _moment(at), run, step, _json(items))
        self._write(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?,?,?,?,?)",
            row,
        )

    def configure(self, run: str, config: Mapping[str, Any]) -> None:
        """Set the configuration of a run: plain values, nested or not."""
        self._write(
            "INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) "
            "VALUES (?,?,?,?)",
            (run, run, _json(config), _moment(None)),
        )

    def alert(self, run: str, step: int, title: str, text: str, at: float | None = None) -> None:
        """Raise an alert in a run."""
        self._write(
            "INSERT INTO alerts (run_id, timestamp, run_name, title, text, level, step) "
            "VALUES (?,?,?,?,?,'warn',?)",
            (run, _moment(at), run, title, text, step),
        )

    def page(self, run: str, step: int, text: str) -> dict[str, Any]:
        """Keep an HTML page or an SVG picture; returns what ``log`` takes for it."""
        place = self._media(run) / str(step) / f"{uuid.uuid4()}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not text.lstrip().lower().startswith(("<!doctype", "<html")):
            text = f'<!doctype html><html><meta charset="utf-8"><body>{text}</body></html>'
        place.write_text(text, encoding="utf-8")
        where = place.relative_to(self.folder / "media").as_posix()
        return {"_type": "trackio.html", "file_path": where, "caption": None}

    def forget(self, run: str, after: int = -1) -> None:
        """Drop what a run has logged behind step ``after``; by default all of it."""
        if not self.file.is_file():
            return
        for table in ("metrics", "alerts"):
            self._write(f"DELETE FROM {table} WHERE run_id = ? AND step > ?", (run, after))
        if after < 0:
            self._write("DELETE FROM configs WHERE run_id = ?", (run,))
        with suppress(FileNotFoundError):
            for place in self._media(run).iterdir():
                if int(place.name) > after:
                    shutil.rmtree(place)

    def newest_steps(self) -> dict[str, int]:
        """Of every run the last step that has a row."""
        if not self.file.is_file():
            return {}
        rows = self._connection().execute("SELECT run_id, MAX(step) FROM metrics GROUP BY run_id")
        return dict(rows.fetchall())

    def close(self) -> None:
        """Put everything into the one file, and leave it."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _media(self, run: str) -> Path:
        return self.folder / "media" / PROJECT / run

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        connection = self._connection()
        with connection:
            connection.execute(statement, values)

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.file, timeout=_TIMEOUT_S)
            # As Trackio does: writers don't wait for the dashboard, nor for the disk.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_TABLES)
            self._open = connection
        return self._open


def table(columns: list[str], rows: list[list[Any]]) -> dict[str, Any]:
    """What ``TrackioDatabase.log`` takes for a table."""
    return {
        "_type": "trackio.table",
        "_value": [dict(zip(columns, row, strict=True)) for row in rows],
    }


def _moment(at: float | None) -> str:
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).isoformat()


def _json(items: Mapping[str, Any]) -> str:
    # Without spaces, which Trackio relies on when it looks for what a project holds.
    return json.dumps(_plain(items), default=str, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Numbers that JSON does not know, as Trackio writes them."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
