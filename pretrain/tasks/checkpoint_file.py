"""Reading a checkpoint file: plain tensors and plain values, whole, and nothing that could run."""

import pickle
import re
import warnings
import zipfile
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from pretrain.errors import UserError
from pretrain.model import TransformerConfig

_LONGEST_REASON = 150
_REFUSED = re.compile(r"WeightsUnpickler error: (.*?)(?: was not an allowed|[.,]? but got|\n|$)")


def load_plain(path: str | Path, mmap: bool = False) -> Any:
    """What the file ``path`` holds, on the CPU.

    torch reads a file with a flipped bit without complaint; the checksums that it writes are
    compared here, at 3 GB/s.

    Args:
        path: The file.
        mmap: Whether tensors are mapped instead of read.

    Raises:
        UserError: The file is missing, damaged, or holds anything but tensors and plain values,
            which could run code.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TorchScript, which is refused
            _check_whole(Path(path))
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except FileNotFoundError:
        raise UserError(f"There is no checkpoint at {path}.") from None
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is refused: it is no checkpoint, or it holds more than tensors and plain "
            f"values, so that reading it could run code ({_reason(error)})."
        ) from None
    # A damaged file makes torch and zipfile raise whatever they stumble on.
    except Exception as error:
        raise UserError(
            f"{path} cannot be read as a checkpoint, it may be cut off or damaged "
            f"({_reason(error)}); give the path of one such as runs/NAME/checkpoints/best.ckpt."
        ) from None


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """A checkpoint's content on the CPU, by memory map, plain types and tensors only.

    Raises:
        UserError: The file is missing or damaged, is no checkpoint of this package, is of a newer
            version, or holds code.
    """
    checkpoint = load_plain(path, mmap=True)
    if not isinstance(checkpoint, dict) or "objective" not in checkpoint:
        raise UserError(f"{path} is not a checkpoint of pretrain: it names no objective.")
    _check_parts(checkpoint, path)
    network = checkpoint["hyper_parameters"]["network"]
    unknown = sorted(network.keys() - {field.name for field in fields(TransformerConfig)})
    if unknown:
        raise UserError(
            f"{path} is of a newer version: its network has {unknown[0]}, which this one does not "
            "know."
        )
    try:
        TransformerConfig(**network)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} holds a network that can't be: {_reason(error)}") from error
    return checkpoint


class PlainlyLoaded(LightningModule):
    """A module whose ``load_from_checkpoint`` never runs what the file may hold."""

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As Lightning's, of a path, with ``weights_only=True`` whatever is asked for.

        Raises:
            UserError: As `read_checkpoint`, or the content does not fit together.
        """
        read_checkpoint(checkpoint_path)
        try:
            return super().load_from_checkpoint(
                checkpoint_path, *args, **{**kwargs, "weights_only": True}
            )
        except (ValueError, TypeError, RuntimeError, AttributeError, KeyError) as error:
            raise UserError(
                f"{checkpoint_path} holds no {cls.__name__} that can be built ({_reason(error)})."
            ) from error


def _check_whole(path: Path) -> None:
    """Raise an error for a file whose records don't have the checksums written beside them."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):  # torch's older format is a bare pickle
            raise OSError("it is none of the archives that torch.save writes")
        with zipfile.ZipFile(file) as records:
            damaged = records.testzip()
    if damaged is not None:
        raise OSError(f"the checksum of {damaged} is wrong")


def _check_parts(checkpoint: dict[str, Any], path: str | Path) -> None:
    """Raise UserError for a part that is not of the type that every command relies on."""
    known = checkpoint.get("hyper_parameters")
    parts = {
        "objective": (checkpoint["objective"], str),
        "hyper_parameters": (known, dict),
        "hyper_parameters.network": (known.get("network") if isinstance(known, dict) else 0, dict),
        "state_dict": (checkpoint.get("state_dict"), dict),
        "global_step": (checkpoint.get("global_step"), int),
        "tokenizer": (checkpoint.get("tokenizer"), str | None),
        "trained_len": (checkpoint.get("trained_len"), int | None),
        **{f"state_dict.{k}": (v, Tensor) for k, v in _items(checkpoint.get("state_dict"))},
    }
    for name, (value, kind) in parts.items():
        if not isinstance(value, kind):
            raise UserError(f"{path} is no checkpoint of pretrain: {name} is {value!r:.40}.")


def _items(weights: Any) -> Iterable[tuple[Any, Any]]:
    return weights.items() if isinstance(weights, dict) else ()


def _reason(error: Exception) -> str:
    """What went wrong in a few words, without torch's advice to switch the refusal off."""
    text = str(error).strip() or type(error).__name__
    refused = _REFUSED.search(text)
    said = refused[1] if refused else " ".join(text.split())
    return said[:_LONGEST_REASON].strip()
