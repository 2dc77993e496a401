"""Trackio: a run's series, tables and alerts, for a dashboard on this machine."""

from argparse import Namespace
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

from lightning.pytorch.loggers import Logger

from pretrain.runs.environment import is_first_rank
from pretrain.runs.folder import RunFolder
from pretrain.runs.trackio_database import PROJECT, TrackioDatabase, table


def has_trackio() -> bool:
    """Whether the package that shows what is logged is there; it is not imported."""
    return find_spec("trackio") is not None


def _safely(method: Callable[..., None]) -> Callable[..., None]:
    """On the first rank only; after a failure one line is said and the run goes on without."""

    @wraps(method)
    def call(logger: "TrackioLogger", *args: Any, **kwargs: Any) -> None:
        if logger.has_failed or not is_first_rank():
            return
        try:
            method(logger, *args, **kwargs)
        except Exception as error:  # whatever it is must not stop a run
            logger.give_up(error)

    return call


class TrackioLogger(Logger):
    """Keeps a run in the Trackio project of its runs folder, and can't stop the run.

    The run has the name of its folder, so that all its starts are one run.

    Args:
        folder: The run's folder; the database lies beside it, in ``.trackio/``.
        note: Is told one line when something fails.
    """

    def __init__(self, folder: RunFolder, note: Callable[[str], None]) -> None:
        super().__init__()
        self._folder = folder
        self._note = note
        self._database = TrackioDatabase(folder.path.parent)
        self._step = 0  # the newest logged
        self.has_failed = False

    @property
    def name(self) -> str:
        """The Trackio project."""
        return PROJECT

    @property
    def version(self) -> str:
        """The run's name."""
        return self._folder.name

    @property
    def save_dir(self) -> str:
        """Where the database lies."""
        return str(self._database.folder)

    @_safely
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add numbers at optimizer step ``step``."""
        self._step = self._step if step is None else step
        self._database.log(self.version, self._step, metrics)

    @_safely
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Set the run's configuration."""
        plain = vars(params) if isinstance(params, Namespace) else params
        self._database.configure(self.version, plain)

    @_safely
    def alert(self, title: str, text: str) -> None:
        """Raise an alert at the newest step."""
        self._database.alert(self.version, self._step, title, text)

    @_safely
    def log_html(self, name: str, text: str, step: int) -> None:
        """Show a page or an SVG picture at optimizer step ``step``."""
        page = self._database.page(self.version, step, text)
        self._database.log(self.version, step, {name: page})

    @_safely
    def log_table(self, name: str, columns: list[str], rows: list[list[Any]], step: int) -> None:
        """Show a table at optimizer step ``step``."""
        self._database.log(self.version, step, {name: table(columns, rows)})

    @_safely
    def cut_back(self, step: int) -> None:
        """Drop what an earlier start logged behind ``step``; a run that begins (0) begins empty."""
        self._database.forget(self.version, step or -1)

    @_safely
    def close(self) -> None:
        """Leave the database."""
        self._database.close()

    def give_up(self, error: Exception) -> None:
        """Say that the run goes on without."""
        self.has_failed = True
        self._note(f"Trackio failed, and metrics go to metrics.csv only: {error}")
