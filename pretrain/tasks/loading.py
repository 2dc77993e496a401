"""A task from a checkpoint alone."""

from pretrain.errors import UserError
from pretrain.tasks.base import LanguageModel
from pretrain.tasks.causal_lm import CausalLM
from pretrain.tasks.masked_lm import MaskedLM
from pretrain.tasks.warm_start import read_checkpoint

TASKS: dict[str, type[LanguageModel]] = {task.objective: task for task in (MaskedLM, CausalLM)}


def load_task(path: str) -> LanguageModel:
    """The model in the file ``path``, in evaluation mode, of the class that it was trained as.

    Raises:
        UserError: The file is missing or is no checkpoint of this package.
    """
    objective = read_checkpoint(path)["objective"]
    if objective not in TASKS:
        raise UserError(f"{path} was trained for {objective!r}, which this version does not know.")
    task = TASKS[objective].load_from_checkpoint(path, map_location="cpu", weights_only=True)
    return task.eval()
