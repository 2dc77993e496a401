"""Weights from a finished run as the start of a new one."""

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import nn

from pretrain.errors import UserError
from pretrain.model.resizing import interpolate_positions
from pretrain.tasks.checkpoint_file import read_checkpoint

_POSITIONS = "transformer.embeddings.position.weight"


def load_weights(task: nn.Module, path: str) -> None:
    """Copy the block stack from ``path``, and the head where it is the same; say what is new.

    Learned positions of another length are drawn out or cut to this network's.

    Raises:
        UserError: A tensor of the block stack is missing, unexpected or of another shape.
    """
    checkpoint = read_checkpoint(path)
    weights, own = dict(checkpoint["state_dict"]), task.state_dict()
    known = checkpoint["hyper_parameters"].get("labels")
    if known is not None and known != getattr(task, "hparams", {}).get("labels"):
        # Rows of the same number would stand for other labels.
        weights = {k: v for k, v in weights.items() if not k.startswith("classifier.")}
    _fit_positions(weights, own)
    wrong = [
        name
        for name in sorted(own.keys() | weights.keys())
        if name.startswith("transformer.")
        and (name not in own or name not in weights or own[name].shape != weights[name].shape)
    ]
    if wrong:
        raise UserError(
            f"The weights in {path} do not fit this network: {', '.join(wrong[:3])}"
            f"{' and more' if len(wrong) > 3 else ''} differ; use the architecture of that run."
        )
    fitting = {k: v for k, v in weights.items() if k in own and own[k].shape == v.shape}
    task.load_state_dict(fitting, strict=False)
    given = {own[name].data_ptr() for name in fitting}  # a tied head is one of them
    new = [name for name in own if name not in fitting and own[name].data_ptr() not in given]
    for names, what in (
        (sorted(weights.keys() - fitting.keys()), "dropped"),
        (sorted(new), "new, from random weights"),
    ):
        if names:
            rank_zero_info(f"Heads {what}: {', '.join(names)}")


def _fit_positions(weights: dict[str, torch.Tensor], own: dict[str, torch.Tensor]) -> None:
    """Bring learned positions in ``weights`` to the length of those in ``own``, and say so."""
    if _POSITIONS not in weights or _POSITIONS not in own:
        return
    table, new_len = weights[_POSITIONS], len(own[_POSITIONS])
    if len(table) == new_len or table.shape[1:] != own[_POSITIONS].shape[1:]:
        return
    weights[_POSITIONS] = interpolate_positions(table, new_len)
    how = "interpolated" if new_len > len(table) else "cut"
    rank_zero_info(f"The {len(table)} learned positions were {how} to {new_len} (max_len).")
