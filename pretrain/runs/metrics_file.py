"""``metrics.csv``: everything that a run logs, readable with any tool, kept across restarts."""

import csv
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

from pretrain.data.files import written_whole

STEP = "step"


class MetricsFile(Logger):
    """One row a step in a CSV file that is complete after every log call.

    Lightning's ``CSVLogger`` deletes the file of an earlier start in the same folder and writes one
    row a call; this one goes on with the file, and what several observers log at one step joins its
    row. A metric that comes later gets its column by rewriting.

    Args:
        path: the CSV file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._columns: list[str] = []
        self._is_open = False
        self._row: dict[str, Any] = {}
        self._row_start = 0  # where the last row begins in the file

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.parent.name

    @property
    def version(self) -> str:
        """One version: the run goes on in the same file."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run's folder."""
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing to do: the configuration stands beside, in ``config.yaml``."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add ``metrics`` to the row of ``step``."""
        if not self._is_open:
            self._columns, self._is_open = self._take_up(step), True
        is_same = bool(self._row) and self._row[STEP] == step
        self._row = {**(self._row if is_same else {}), STEP: step, **metrics}
        self._make_columns()
        with self.path.open("r+", newline="", encoding="utf-8") as file:
            if is_same:
                file.truncate(self._row_start)
            self._row_start = file.seek(0, os.SEEK_END)
            csv.DictWriter(file, self._columns).writerow(self._row)

    def _take_up(self, step: int | None) -> list[str]:
        """The columns that are there; a last row of ``step`` is one to add to.

        A run that goes on may repeat the validation at the step that it goes on from.
        """
        columns, rows = read_rows(self.path)
        if rows and rows[-1][STEP] == str(step):
            self._row = {name: value for name, value in rows.pop().items() if value} | {STEP: step}
            _write(self.path, columns, rows)
            self._row_start = self.path.stat().st_size
        return columns

    def _make_columns(self) -> None:
        """Make the file, or a column for what is logged for the first time."""
        if self._columns and not self._row.keys() - set(self._columns):
            return
        rows = read_rows(self.path)[1]
        if rows and self._row_start and rows[-1][STEP] == str(self._row[STEP]):
            rows.pop()  # the row that is about to be written again
        self._columns = [STEP, *sorted({*self._columns, *self._row} - {STEP})]
        _write(self.path, self._columns, rows)
        self._row_start = self.path.stat().st_size


def cut_back(path: Path, step: int) -> None:
    """Drop the rows after ``step``: a run that goes on from a checkpoint logs those steps anew."""
    if not path.is_file():
        return
    columns, rows = read_rows(path)
    kept = [row for row in rows if row[STEP].isdigit() and int(row[STEP]) <= step]
    _write(path, columns, kept)


def read_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and whole rows; a last row cut short by a crash is left out."""
    if not path.is_file():
        return [], []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = [row for row in reader if None not in row.values()]
        return list(reader.fieldnames or []), rows


def _write(path: Path, columns: list[str], rows: list[dict[str, str]]) -> None:
    with (
        written_whole(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
