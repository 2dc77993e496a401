"""A folder that ``transformers`` loads, from our weights."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.interop.classifier import write_classifier
from pretrain.interop.families import FAMILIES
from pretrain.interop.family import Family, choose
from pretrain.interop.model_card import model_card
from pretrain.interop.portable import HEAD, Portable, differences
from pretrain.interop.rules import Rule, to_theirs
from pretrain.interop.tokenizer_folder import check_vocabulary, special_ids, write_tokenizer
from pretrain.interop.weights import write_weights


def export_folder(model: Portable, folder: Path, figures: Mapping[str, Any]) -> str:
    """Write ``model`` as a folder for ``from_pretrained``, whole or not at all.

    Args:
        model: Weights, configuration, tokenizer.
        folder: Its name; it may exist if it is empty.
        figures: What is known of the training, for the model card; see ``model_card``.

    Returns:
        The name of the class that computes the same.

    Raises:
        UserError: No class does, the weights don't fit their configuration, or the folder can't
            be written.
    """
    family = choose(model, FAMILIES)
    model.check("The checkpoint")
    name = family.classes[model.objective]
    length = model.trained_len or model.config.max_len
    with _new_folder(folder) as temporary:
        _write_json(_config(model, family, length), temporary / "config.json")
        write_weights(_weights(model, family), temporary)
        if model.tokenizer_json is not None:
            segments = family.takes_segments and model.config.n_segments > 1
            write_tokenizer(
                model.tokenizer_json,
                length,
                segments,
                temporary,
                classifies=model.classifier is not None,
                writes=model.objective == "clm",
            )
        if model.objective == "clm":
            _write_json(_ids(model), temporary / "generation_config.json")
        card = model_card(folder.resolve().name, name, model, figures)
        (temporary / "README.md").write_text(card, encoding="utf-8")
    return name


def _config(model: Portable, family: Family, length: int) -> dict[str, Any]:
    assert model.config.vocab_size is not None
    if model.tokenizer_json is not None:
        check_vocabulary(model.tokenizer_json, model.config.vocab_size, "The checkpoint")
    head = {} if model.classifier is None else write_classifier(model.classifier)
    return {
        "architectures": [family.classes[model.objective]],
        "model_type": family.model_type,
        "dtype": "float32",
        "vocab_size": model.config.vocab_size,
        "tie_word_embeddings": model.config.tie_embeddings,
        "initializer_range": 0.02,
        **_ids(model),
        **family.write(model.config, length),
        **head,
    }


def _ids(model: Portable) -> dict[str, int | None]:
    """Ids of special tokens; null where a class would otherwise take another tokenizer's."""
    ids: dict[str, int] = {}
    if model.tokenizer_json is not None:
        ids = special_ids(Tokenizer.from_json(model.tokenizer_json), model.objective == "clm")
    found: dict[str, int | None] = {f"{r}_token_id": ids.get(r) for r in ("pad", "bos", "eos")}
    if model.objective != "clm":
        found |= {f"{r}_token_id": ids[r] for r in ("mask", "cls", "sep") if r in ids}
    return found


def _weights(model: Portable, family: Family) -> dict[str, Any]:
    rules = list(family.rules(model.config, model.objective, model.has_pooler))
    used = {rule.ours for rule in rules if isinstance(rule, Rule)}
    if model.config.tie_embeddings:
        used.add(HEAD)  # its numbers are the embedding's
    if model.state.keys() - used:
        left = differences((), model.state.keys() - used)
        raise UserError(f"{family.classes[model.objective]} has no place for all tensors: {left}.")
    tensors = to_theirs(rules, model.state)
    if model.objective != "encoder":
        return tensors
    # A class that is the block stack alone has no name for it.
    return {name.removeprefix(family.prefix): tensor for name, tensor in tensors.items()}


def _write_json(content: Mapping[str, Any], path: Path) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder beside ``folder`` that takes its name only if the block succeeds.

    Raises UserError where there is something already, or it can't be written.
    """
    folder = folder.resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} is there already: give the name of a new folder.")
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{folder.name}."
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix, suffix=".tmp"))
        yield temporary
        _share(temporary)
        temporary.replace(folder)
    except OSError as error:
        raise UserError(f"{folder} can't be written ({error.strerror or error}).") from error
    finally:
        if temporary is not None and temporary.exists():
            shutil.rmtree(temporary)


def _share(folder: Path) -> None:
    """Give the usual permissions: temporary folders and safetensors are their owner's alone."""
    umask = os.umask(0)
    os.umask(umask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~umask)
    folder.chmod(0o777 & ~umask)
