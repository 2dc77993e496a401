"""Tensors from and to safetensors files; pickles are not read, since they may run code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pretrain.errors import UserError

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
# What the norms of early BERT and GPT files call their parameters.
_OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}


def write_weights(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Write ``model.safetensors`` as ``transformers`` does: with the format in its metadata.

    Raises:
        OSError: It can't be written, as on a full disk.
    """
    try:
        save_file(dict(tensors), folder / WEIGHTS, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(str(error)) from error


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of ``model.safetensors`` or of the shards that its index names.

    Raises:
        UserError: There is none, a shard is missing, a tensor is in two of them, or a file can't
            be read.
    """
    tensors: dict[str, Tensor] = {}
    for name in _files(folder):
        if not (folder / name).is_file():
            raise UserError(f"{folder / INDEX} names {name}, but there is no such file.")
        try:
            shard = load_file(folder / name)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{folder / name} can't be read as safetensors ({error}).") from error
        twice = sorted(tensors.keys() & shard.keys())
        if twice:
            raise UserError(f"{folder / name} holds {twice[0]}, which another shard holds too.")
        tensors |= shard
    return {_new_name(name): tensor for name, tensor in tensors.items()}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        UserError: There is none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent} holds no {path.name}.") from None
    except (ValueError, RecursionError, OSError) as error:
        raise UserError(f"{path} can't be read as JSON ({error}).") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no JSON object.")
    return content


def _files(folder: Path) -> list[str]:
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    if (folder / INDEX).is_file():
        shards = read_json(folder / INDEX).get("weight_map")
        names = list(shards.values()) if isinstance(shards, dict) else []
        # A name of another folder's file is none of ours to open.
        if not names or not all(isinstance(n, str) and Path(n).name == n for n in names):
            raise UserError(f"{folder / INDEX} names no files beside it.")
        return sorted(set(names))
    pickles = sorted(path for path in folder.iterdir() if path.suffix in _PICKLES)
    if pickles:
        raise UserError(
            f"{pickles[0]} holds its weights as a pickle, which could run code: load them with "
            "transformers and save_pretrained, which writes the safetensors that are read here."
        )
    raise UserError(f"{folder} holds no {WEIGHTS} and no {INDEX}.")


def _new_name(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        if name.endswith(f"LayerNorm{old}"):
            return name.removesuffix(old) + new
    return name
