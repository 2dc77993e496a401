"""Weights & Biases: offline without a login, online with one, and never in the way of a run."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import DummyExperiment

from pretrain.runs.environment import is_first_rank
from pretrain.runs.folder import RunFolder

INIT_TIMEOUT_S = 30.0
FINISH_TIMEOUT_S = 30.0  # for what is not sent yet when a run ends
ID_FILE = "wandb/run_id.txt"  # one id for all starts of a run


def wandb_mode(note: Callable[[str], None]) -> str:
    """``online`` with a login, else ``offline``; ``WANDB_MODE`` may say so, or ``disabled``.

    ``note`` is told one line when there is a login that can't be used.
    """
    asked = os.environ.get("WANDB_MODE", "").lower()
    if asked in ("disabled", "offline", "dryrun"):
        return "offline" if asked == "dryrun" else asked
    if not is_first_rank():  # only the first rank logs
        return "offline"
    import wandb

    try:
        return "online" if wandb.login(prompt=False) else "offline"
    except Exception as error:  # whatever it raises must not stop a run
        note(f"Weights & Biases stays offline, since the login failed: {_first_line(error)}")
        return "offline"


class SafeWandbLogger(WandbLogger):
    """A ``WandbLogger`` that can't stop a run: what it can't send, it keeps or leaves out.

    Args:
        folder: the run's folder; the files go to ``wandb/`` in it.
        offline: whether to keep the metrics on this machine only.
        note: is told one line when something fails.
    """

    def __init__(self, folder: RunFolder, offline: bool, note: Callable[[str], None]) -> None:
        import wandb

        super().__init__(
            name=folder.name,
            save_dir=folder.path,
            id=_run_id(folder.path / ID_FILE),
            project=os.environ.get("WANDB_PROJECT", "pretrain"),
            offline=offline,
            settings=wandb.Settings(
                console="off",
                quiet=True,
                silent=True,
                init_timeout=INIT_TIMEOUT_S,
                finish_timeout=FINISH_TIMEOUT_S,
                finish_timeout_raises=True,
            ),
        )
        self._wandb_init.pop("anonymous", None)  # a setting that W&B warns of, set or not
        self._note = note

    @property
    def experiment(self) -> Any:
        """The W&B run; offline when it can't be opened online, a dummy when not even that."""
        if not is_first_rank():
            return DummyExperiment()
        if self._experiment is None:
            self._experiment = self._open()
        return self._experiment

    @rank_zero_only
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        """Log, and go on without when it fails."""
        try:
            super().log_metrics(metrics, step)
        except Exception as error:
            self._give_up(error)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Add to the run's configuration, and go on without when it fails."""
        try:
            super().log_hyperparams(params)
        except Exception as error:
            self._give_up(error)

    @rank_zero_only
    def alert(self, title: str, text: str) -> None:
        """Raise an alert in the run, and go on without when it fails."""
        try:
            self.experiment.alert(title=title, text=text, level="WARN")
        except Exception as error:
            self._give_up(error)

    @rank_zero_only
    def log_html(self, name: str, text: str, step: int) -> None:
        """Show a page or an SVG picture at optimizer step ``step``, and go on when it fails."""
        try:
            import wandb

            self._log_at(step, {name: wandb.Html(text, inject=False)})
        except Exception as error:
            self._give_up(error)

    @rank_zero_only
    def log_table(  # type: ignore[override]  # as our other loggers have it
        self, name: str, columns: list[str], rows: list[list[Any]], step: int
    ) -> None:
        """Show a table at optimizer step ``step``, and go on without when it fails."""
        try:
            import wandb

            self._log_at(step, {name: wandb.Table(columns=[*columns], data=rows)})
        except Exception as error:
            self._give_up(error)

    @rank_zero_only
    def close(self) -> None:
        """End the W&B run, so that the next one of this process is its own.

        What a lost network kept from being sent within ``FINISH_TIMEOUT_S`` stays in its folder.
        """
        run = self._experiment
        if run is None or isinstance(run, DummyExperiment):
            return
        try:
            run.finish()
        except Exception as error:
            folder = Path(self._wandb_init["dir"]) / "wandb"
            self._note(
                "Weights & Biases did not get everything, but it is kept: wandb sync "
                f"--include-online {folder}/run-* sends it later ({_first_line(error)})"
            )
            self._experiment = DummyExperiment()  # type: ignore[assignment]
            _stop_service()

    def _log_at(self, step: int, items: dict[str, Any]) -> None:
        self.experiment.log({**items, "trainer/global_step": step})

    def _open(self) -> Any:
        id_file = Path(self._wandb_init["dir"]) / ID_FILE
        id_file.parent.mkdir(parents=True, exist_ok=True)
        id_file.write_text(self._wandb_init["id"] + "\n", encoding="utf-8")
        for mode in ("offline",) if self._offline else ("online", "offline"):
            try:
                self._wandb_init["mode"] = mode
                return _init(self._wandb_init)
            except Exception as error:
                self._note(f"Weights & Biases could not start {mode}: {_first_line(error)}")
                _stop_service()  # it would refuse the same id in the next attempt
        return DummyExperiment()

    def _give_up(self, error: Exception) -> None:
        self._note(
            f"Weights & Biases failed, and metrics go to metrics.csv only: {_first_line(error)}"
        )
        self._experiment = DummyExperiment()  # type: ignore[assignment]


def _init(options: dict[str, Any]) -> Any:
    import wandb

    run = wandb.init(**options)
    run.define_metric("trainer/global_step")
    run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
    return run


def _stop_service() -> None:
    """End W&B's own process, which may be gone already."""
    import wandb

    with suppress(Exception):
        wandb.teardown()


def _run_id(file: Path) -> str:
    return file.read_text("utf-8").strip() if file.is_file() else secrets.token_hex(4)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
