"""Brings runs into Trackio's database that were logged without it, from their own files."""

from pathlib import Path
from typing import Any

import yaml

from pretrain.runs.card_reader import read_card
from pretrain.runs.folder import RunFolder
from pretrain.runs.metrics_file import STEP, read_rows
from pretrain.runs.samples_file import TABLE, as_table, by_step, read
from pretrain.runs.trackio_database import TrackioDatabase, table

_SECONDS = "time/seconds"  # of training, where a run has logged it


def bring_in(runs_dir: Path) -> list[str]:
    """Let the database hold the runs of ``runs_dir`` and no others; returns the names of all.

    A run is read again where its newest step is not the one in the database, such as a run from
    before Trackio was installed or one copied from elsewhere; one that is being trained logs by
    itself.

    Raises:
        sqlite3.Error, OSError: The database can't be written.
    """
    folders = [RunFolder(path) for path in sorted(runs_dir.iterdir()) if path.is_dir()]
    runs = {folder.name: folder for folder in folders if folder.metrics.is_file()}
    database = TrackioDatabase(runs_dir)
    newest = database.newest_steps()
    for name in newest.keys() - runs.keys():
        database.forget(name)
    for name, folder in runs.items():
        card = read_card(folder.card)
        rows = [row for row in read_rows(folder.metrics)[1] if row[STEP].isdigit()]
        is_known = bool(rows) and newest.get(name) == int(rows[-1][STEP])
        if not is_known and not (name in newest and card.get("status") == "running"):
            database.forget(name)
            _read(database, folder, rows, card)
    database.close()
    return list(runs)


def _read(
    database: TrackioDatabase, folder: RunFolder, rows: list[dict[str, str]], card: dict[str, Any]
) -> None:
    name = folder.name
    if folder.config.is_file():
        database.configure(name, yaml.safe_load(folder.config.read_text("utf-8")) or {})
    start = folder.metrics.stat().st_mtime - max(map(_seconds, rows), default=0.0)
    for row in rows:
        numbers = {key: float(text) for key, text in row.items() if text and key != STEP}
        database.log(name, int(row[STEP]), numbers, start + _seconds(row))
    for step, samples in by_step(read(folder.samples)).items():
        database.log(name, step, {TABLE: table(*as_table(samples))})
    for alert in card.get("alerts", ()):
        title = alert["name"].replace("_", " ").capitalize()
        database.alert(name, alert["step"], title, alert["text"])


def _seconds(row: dict[str, str]) -> float:
    return float(row.get(_SECONDS) or 0)
