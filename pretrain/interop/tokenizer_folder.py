"""The tokenizer of an exported or published folder."""

import json
from pathlib import Path
from typing import Any

from tokenizers import processors

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.interop.fields import Fields
from pretrain.interop.weights import read_json

_FILES = ("tokenizer.json", "vocab.json", "vocab.txt")
_SETTINGS = "tokenizer_config.json"


def special_ids(tokenizer: Tokenizer, writes: bool = False) -> dict[str, int]:
    """The id of each role that the tokenizer can fill, by the names that ``transformers`` has.

    Of a model that ``writes`` the end token is what closes a document, be it BERT's [SEP].
    """
    found = {
        "pad": tokenizer.pad_id,
        "unk": tokenizer.unk_id,
        "cls": tokenizer.cls_id,
        "sep": tokenizer.sep_id,
        "mask": tokenizer.mask_id,
        "eos": tokenizer.end_id if writes else tokenizer.eos_id,
    }
    if writes or tokenizer.cls_id is None:
        # What closes a document here also opens the next; others have a token of its own for that.
        found["bos"] = found["eos"] if tokenizer.bos_id is None else tokenizer.bos_id
        if tokenizer.pad_id is None:
            found["pad"] = found["eos"]  # the mask says what is filler
    return {role: index for role, index in found.items() if index is not None}


def write_tokenizer(
    tokenizer_json: str,
    length: int,
    segments: bool,
    folder: Path,
    classifies: bool = False,
    writes: bool = False,
) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``, so that AutoTokenizer reads them.

    Args:
        tokenizer_json: The content of our file; BERT's frame is put around texts here.
        length: Tokens in a row that the model is good for.
        segments: Whether the model is to be told the segments of a pair.
        folder: Where to write.
        classifies: Whether texts without BERT's frame are a classifier's: nothing is put around
            one, and the end token between two, as in training.
        writes: Whether the model goes on with a text, so that no frame may close it.
    """
    tokenizer = Tokenizer.from_json(tokenizer_json)
    backend = tokenizer.backend
    if tokenizer.cls_id is not None and tokenizer.sep_id is not None:
        cls, sep = (backend.id_to_token(i) for i in (tokenizer.cls_id, tokenizer.sep_id))
        backend.post_processor = processors.TemplateProcessing(
            single="$A" if writes else f"{cls} $A {sep}",
            pair="$A $B" if writes else f"{cls} $A {sep} $B:1 {sep}:1",
            special_tokens=[(cls, tokenizer.cls_id), (sep, tokenizer.sep_id)],
        )
    elif classifies:
        end = [(backend.id_to_token(i), i) for i in (tokenizer.end_id,) if i is not None]
        between = "".join(f"{name} " for name, _ in end)
        backend.post_processor = processors.TemplateProcessing(
            single="$A", pair=f"$A {between}$B", special_tokens=end
        )
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": length,
        # GPT-2 would add a token's embedding for each segment.
        "model_input_names": inputs if segments else [n for n in inputs if n != "token_type_ids"],
        "clean_up_tokenization_spaces": False,
    }
    for role, index in special_ids(tokenizer, writes).items():
        settings[f"{role}_token"] = backend.id_to_token(index)
    (folder / "tokenizer.json").write_text(backend.to_str(pretty=True), encoding="utf-8")
    (folder / _SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def read_tokenizer(folder: Path) -> tuple[str | None, float | None]:
    """The content of our ``tokenizer.json``, and the length that the folder states.

    Both are None where nothing is said; the huge number that stands for "no limit" is passed on.

    Raises:
        UserError: The files can't be read, or ask for what our tokenizers don't do.
    """
    path = folder / _SETTINGS
    settings = Fields(read_json(path) if path.is_file() else {}, path)
    length = settings.values.get("model_max_length")
    length = length if isinstance(length, int | float) and length > 0 else None
    first = next((name for name in _FILES if (folder / name).is_file()), None)
    if first is None:
        return None, length
    lowercase = settings.get("do_lower_case", True)
    if first == "vocab.txt":
        settings.only("tokenize_chinese_chars", True)
        settings.only("strip_accents", lowercase)
    elif first == "vocab.json":
        settings.only("add_prefix_space", False)
    return Tokenizer.load(folder, lowercase).to_json(), length


def check_vocabulary(tokenizer_json: str, vocab_size: int, where: object) -> None:
    """Refuse a tokenizer with more tokens than there are embeddings.

    Raises:
        UserError: With both numbers.
    """
    n_tokens = Tokenizer.from_json(tokenizer_json).vocab_size
    if n_tokens > vocab_size:
        raise UserError(
            f"{where}: the tokenizer has {n_tokens} tokens, but the model {vocab_size} embeddings."
        )
