"""Text to token ids and back: one wrapper over `tokenizers`, whatever the kind."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend

from pretrain.data.files import written_whole
from pretrain.errors import UserError

# What the usual tokenizers call their special tokens, the likeliest first.
_ROLES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("[MASK]", "<mask>"),
    "eos": ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"),
}
_BEGINNINGS = ("<s>", "<|begin_of_text|>", "<bos>")


class Tokenizer:
    """A tokenizer with its special tokens' roles.

    A corpus can't forge special tokens: ``encode_documents`` turns their names into ordinary
    pieces. A prompt may hold them: ``encode_prompt`` recognises them. Neither adds any, and
    neither cuts or pads, whatever the file said.

    Attributes:
        backend: the `tokenizers` object that prompts go through.
        pad_id, unk_id, cls_id, sep_id, mask_id, bos_id, eos_id: ids, None for a role that is not
            there.
        special_ids: every token flagged special, and every role's, sorted.
        end_id: what closes a document: [SEP] beside a [CLS], else the end of text, else None.
        vocab_size: the largest id + 1.
    """

    def __init__(self, backend: Backend) -> None:
        # Truncation saved in a file would cut documents in silence.
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        # A second copy, since the switch is state of the object and is not saved with it.
        self._corpus_backend = _backend_of(backend.to_str())
        self._corpus_backend.encode_special_tokens = True
        flagged = {
            token.content: index
            for index, token in backend.get_added_tokens_decoder().items()
            if token.special
        }
        vocabulary = backend.get_vocab(with_added_tokens=True)
        roles = {role: _first(names, flagged, vocabulary) for role, names in _ROLES.items()}
        self.pad_id, self.unk_id = roles["pad"], roles["unk"]
        self.cls_id, self.sep_id = roles["cls"], roles["sep"]
        self.mask_id, self.eos_id = roles["mask"], roles["eos"]
        # Only what is flagged: "<s>" may well be an ordinary piece of text with markup.
        self.bos_id = _first(_BEGINNINGS, flagged, {})
        known = {index for index in roles.values() if index is not None}
        self.special_ids: tuple[int, ...] = tuple(sorted(known | set(flagged.values())))
        has_bert_frame = self.cls_id is not None and self.sep_id is not None
        self.end_id: int | None = self.sep_id if has_bert_frame else self.eos_id
        self.vocab_size: int = max(vocabulary.values(), default=-1) + 1

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the ids, in hex."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @cached_property
    def vocabulary_fingerprint(self) -> str:
        """SHA-256 of which id stands for which token, in hex; the same however it is written."""
        vocabulary = sorted(self.backend.get_vocab(with_added_tokens=True).items())
        return hashlib.sha256(json.dumps(vocabulary).encode()).hexdigest()

    def encode_documents(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, int32 (n_tokens,), in parallel over texts.

        Raises UserError for a tokenizer without a token for what it does not know.
        """
        with _told("The tokenizer can't read every text"):
            encodings = self._corpus_backend.encode_batch_fast(
                list(texts), add_special_tokens=False
            )
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a prompt in which ``[MASK]`` or ``<|endoftext|>`` means the token.

        Raises UserError for bytes that are no UTF-8, which a command line passes on as surrogates.
        """
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise UserError("The text holds bytes that are no UTF-8.")
        with _told("The tokenizer can't read every text"):
            return self.backend.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``, special tokens shown by name."""
        return self.backend.decode([int(index) for index in ids], skip_special_tokens=False)

    def to_json(self) -> str:
        """The content of a ``tokenizer.json``."""
        return self.backend.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """The inverse of `to_json`; raises UserError for what is none."""
        return cls(_backend_of(text))

    def save(self, path: str | Path) -> None:
        """Write a ``tokenizer.json``, whole or not at all."""
        with written_whole(Path(path)) as temporary:
            temporary.write_text(self.backend.to_str(pretty=True), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, lowercase: bool = True) -> "Tokenizer":
        """A ``tokenizer.json``, a BERT ``vocab.txt``, GPT-2's ``vocab.json`` or their folder.

        Args:
            path: the file or folder; GPT-2's ``merges.txt`` is found beside its vocabulary.
            lowercase: whether text is lower-cased for a ``vocab.txt`` (the others say so).

        Raises UserError for a path that holds no tokenizer.
        """
        from pretrain.data.tokenizer_files import read_backend

        return cls(read_backend(Path(path), lowercase))

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_json, (self.to_json(),)


def _backend_of(text: str) -> Backend:
    with _told("The content of a tokenizer.json is damaged"):
        return Backend.from_str(text)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Say in one sentence what `tokenizers` raises: bare Exceptions, and Rust's panics."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{what} ({error})") from error


def _first(names: Sequence[str], flagged: dict[str, int], vocabulary: dict[str, int]) -> int | None:
    for table in (flagged, vocabulary):
        for name in names:
            if name in table:
                return table[name]
    return None
