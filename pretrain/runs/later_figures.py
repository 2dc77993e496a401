"""Figures measured after a run has ended, kept with the run."""

from collections.abc import Callable, Mapping
from pathlib import Path

from lightning.pytorch.loggers.logger import DummyExperiment

from pretrain.runs.card_reader import read_card
from pretrain.runs.folder import RunFolder
from pretrain.runs.loggers import ID_FILE, SafeWandbLogger, wandb_mode


def log_to_run(
    checkpoint: str | Path, figures: Mapping[str, float], step: int, note: Callable[[str], None]
) -> RunFolder | None:
    """Log ``figures`` into the W&B run that ``checkpoint`` comes from, under the run's own id.

    Offline that makes one folder more in the run's ``wandb/``, as going on with a run does: the
    same id puts both together. Whatever fails is told to ``note`` and stops nothing.

    Args:
        checkpoint: A file in the folder ``checkpoints`` of a run; links are not followed, so that
            a figure never goes to another run than the one named.
        figures: By name.
        step: The optimizer step of the checkpoint.
        note: Is told one line when something fails.

    Returns:
        The run's folder; None where there is no W&B run, or none is wanted (``WANDB_MODE``).
    """
    folder = RunFolder(Path(checkpoint).absolute().parent.parent)
    try:
        if not (folder.path / ID_FILE).is_file():
            return None
        mode = wandb_mode(note)
        if mode == "disabled":
            return None
        if read_card(folder.path).get("status") == "running":
            raise RuntimeError("the run is being trained at this moment")
        notes: list[str] = []
        logger = SafeWandbLogger(folder, mode != "online", notes.append)
        logger.log_metrics(dict(figures), step)
        logger.close()
        if isinstance(logger.experiment, DummyExperiment):
            raise RuntimeError(notes[-1].partition(": ")[2])
    except Exception as error:  # a folder that can't be written, a broken installation of wandb
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        note(f"The figures are not in the run's Weights & Biases: {reason}.")
        return None
    for line in notes:  # it went offline
        note(line)
    return folder
