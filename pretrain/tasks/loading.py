"""A task from a checkpoint alone, and a checkpoint from a task that was not trained here."""

from pathlib import Path
from typing import Any

import lightning
import torch

from pretrain.data.files import written_whole
from pretrain.errors import UserError
from pretrain.tasks.base import TransformerTask
from pretrain.tasks.causal_lm import CausalLM
from pretrain.tasks.checkpoint_file import read_checkpoint
from pretrain.tasks.classification import Classification
from pretrain.tasks.encoder import Encoder
from pretrain.tasks.masked_lm import MaskedLM

TASKS: dict[str, type[TransformerTask]] = {
    task.objective: task for task in (MaskedLM, CausalLM, Encoder, Classification)
}


def load_task(path: str) -> Any:
    """The model in the file ``path``, in evaluation mode, of the class that it was trained as.

    Raises:
        UserError: The file is missing or is no checkpoint of this package.
    """
    objective = read_checkpoint(path)["objective"]
    if objective not in TASKS:
        raise UserError(f"{path} was trained for {objective!r}, which this version does not know.")
    task = TASKS[objective].load_from_checkpoint(
        path,
        map_location="cpu",
        weights_only=True,
        compile=False,  # a single use would compile for every new shape
    )
    return task.eval()


def save_task(task: TransformerTask, path: Path) -> None:
    """Write ``task`` as a checkpoint at step 0, whole or not at all.

    Raises:
        UserError: The file can't be written.
    """
    checkpoint: dict[str, Any] = {
        "state_dict": task.state_dict(),
        "hyper_parameters": dict(task.hparams),
        "epoch": 0,
        "global_step": 0,
        "pytorch-lightning_version": lightning.__version__,
    }
    task.on_save_checkpoint(checkpoint)
    with written_whole(path) as temporary:
        try:
            torch.save(checkpoint, temporary)
        except RuntimeError as error:  # what torch makes of a full disk
            raise UserError(f"{path} can't be written (is the disk full? {error})") from error
