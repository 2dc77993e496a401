"""The file formats that tokenizers come in, and how each kind is put together."""

import json
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from pretrain.errors import UserError

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
END_OF_TEXT = "<|endoftext|>"


def wordpiece_backend(vocabulary: dict[str, int], lowercase: bool) -> Backend:
    """BERT's tokenizer (Devlin et al. 2019): Chinese characters stand alone, ``##`` continues."""
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase, handle_chinese_chars=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    _add_specials(backend, [token for token in BERT_SPECIALS if token in vocabulary])
    return backend


def byte_level_backend(
    vocabulary: dict[str, int] | None, merges: list[tuple[str, str]] | None
) -> Backend:
    """GPT-2's tokenizer (Radford et al. 2019): BPE over bytes, so that no text is unknown."""
    backend = Backend(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if vocabulary and END_OF_TEXT in vocabulary:
        _add_specials(backend, [END_OF_TEXT])
    return backend


def character_backend(vocabulary: dict[str, int], specials: list[str]) -> Backend:
    """One token a Unicode character: BPE without merges, several times as fast as splitting."""
    backend = Backend(models.BPE(vocabulary, [], unk_token="<unk>"))
    backend.decoder = decoders.Fuse()
    _add_specials(backend, specials)
    return backend


def read_backend(path: Path, lowercase: bool) -> Backend:
    """The tokenizer in a file or folder; raises UserError where there is none."""
    path = path.expanduser()
    try:
        path = _in_folder(path) if path.is_dir() else path
        is_there = path.is_file()
    except OSError:  # a name too long to be one: a text was given
        is_there = False
    if not is_there:
        raise UserError(f"{str(path)[:200]}: there is no such tokenizer file")
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".txt":
            return wordpiece_backend(_vocabulary_lines(path, text), lowercase)
        content = json.loads(text)
        # A vocabulary may hold the token "model".
        if isinstance(content, dict) and isinstance(content.get("model"), dict):
            return Backend.from_str(text)
        if isinstance(content, dict) and all(type(index) is int for index in content.values()):
            return byte_level_backend(content, _merges_beside(path))
    except UserError:
        raise
    # `tokenizers` raises bare Exceptions for whatever its JSON lacks.
    except Exception as error:
        raise UserError(f"{path} can't be read as a tokenizer ({error})") from error
    raise UserError(f"{path} is neither a tokenizer.json nor a vocabulary of token: id")


def _in_folder(folder: Path) -> Path:
    for name in ("tokenizer.json", "vocab.json", "vocab.txt"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} holds no tokenizer.json, no vocab.json and no vocab.txt")


def _vocabulary_lines(path: Path, text: str) -> dict[str, int]:
    # Only LF and CRLF end a line: vocabularies hold U+2028 and U+0085 as tokens.
    lines = text.removesuffix("\n").split("\n")
    vocabulary = {line.removesuffix("\r"): index for index, line in enumerate(lines)}
    if "[UNK]" not in vocabulary:
        raise UserError(f"{path} is no WordPiece vocabulary: it has no line [UNK]")
    return vocabulary


def _merges_beside(path: Path) -> list[tuple[str, str]]:
    beside = path.with_name(path.name.replace("vocab.json", "merges.txt"))
    if beside == path or not beside.is_file():
        raise UserError(f"{path} is a BPE vocabulary: its merges.txt must stand beside it")
    merges = []
    for line in beside.read_text(encoding="utf-8").split("\n"):
        pair = line.removesuffix("\r").split(" ")
        if len(pair) == 2 and not line.startswith("#version"):
            merges.append((pair[0], pair[1]))
    return merges


def _add_specials(backend: Backend, tokens: list[str]) -> None:
    backend.add_special_tokens([AddedToken(token, special=True) for token in tokens])
