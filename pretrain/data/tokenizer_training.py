"""Train a tokenizer by a rule: WordPiece for BERT, byte-level BPE for GPT, or characters."""

import hashlib
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args

from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers, trainers

from pretrain.data.source import TextSource
from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_files import (
    BERT_SPECIALS,
    END_OF_TEXT,
    byte_level_backend,
    character_backend,
    wordpiece_backend,
)
from pretrain.errors import UserError

TokenizerKind = Literal["wordpiece", "bpe", "char"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenizerRule:
    """How a tokenizer is trained on the train split.

    Attributes:
        kind: ``wordpiece`` (BERT), ``bpe`` (byte level, GPT) or ``char`` (every character).
        vocab_size: tokens asked for, special ones included; ``char`` takes what there is.
        lowercase: lower-case and strip accents (``wordpiece`` only).
        end_token: have ``<|endoftext|>`` (``bpe`` and ``char``; WordPiece has [SEP]).

    Raises UserError for an unknown kind or a size that can't hold the smallest vocabulary.
    """

    kind: TokenizerKind
    vocab_size: int = 8192
    lowercase: bool = True
    end_token: bool = True

    def __post_init__(self) -> None:
        if self.kind not in get_args(TokenizerKind):
            choices = ", ".join(get_args(TokenizerKind))
            raise UserError(f"tokenizer kind is {self.kind!r}: choose one of {choices}")
        smallest = {"wordpiece": len(BERT_SPECIALS) + 2, "bpe": 256 + self.end_token, "char": 0}
        if self.vocab_size < smallest[self.kind]:
            raise UserError(
                f"vocab_size is {self.vocab_size}: a {self.kind} tokenizer needs at least "
                f"{smallest[self.kind]}"
            )


def train_tokenizer(texts: Iterable[str], rule: TokenizerRule) -> Tokenizer:
    """Train on ``texts``: the same texts and rule give the same tokenizer, token for token.

    WordPiece reads the texts twice, so a one-shot iterator is held in memory for it. A text that
    gives fewer tokens than asked for makes a smaller vocabulary, said in one line of the log.

    Raises UserError if there is no text, or it has more characters than the vocabulary can hold.
    """
    if rule.kind == "char":
        return Tokenizer(_train_characters(texts, rule))
    train = _train_wordpiece if rule.kind == "wordpiece" else _train_byte_level
    tokenizer = Tokenizer(train(texts, rule))
    if tokenizer.vocab_size < rule.vocab_size:
        _log.warning(
            "The text gives a vocabulary of %d tokens, fewer than the %d asked for.",
            tokenizer.vocab_size,
            rule.vocab_size,
        )
    return tokenizer


def resolve_tokenizer(spec: str | TokenizerRule, source: TextSource, cache_dir: Path) -> Tokenizer:
    """The tokenizer at a path, or the one that a rule gives on the source's train split.

    A trained one is kept in ``cache_dir`` under its inputs, and is found there the next time.
    """
    if isinstance(spec, str):
        return Tokenizer.load(spec)
    inputs = [source.fingerprint, asdict(spec), metadata.version("tokenizers")]
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    kept = cache_dir / "tokenizers" / f"{key[:32]}.json"
    if kept.is_file():
        return Tokenizer.load(kept)
    tokenizer = train_tokenizer(TrainTexts(source), spec)
    tokenizer.save(kept)
    return tokenizer


class TrainTexts:
    """The texts of a source's train split, as often as they are asked for."""

    def __init__(self, source: TextSource) -> None:
        self._source = source

    def __iter__(self) -> Iterator[str]:
        return self._source.texts("train")


def _train_byte_level(texts: Iterable[str], rule: TokenizerRule) -> Backend:
    backend = byte_level_backend(None, None)
    trainer = trainers.BpeTrainer(
        vocab_size=rule.vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[END_OF_TEXT] if rule.end_token else [],
        show_progress=sys.stderr.isatty(),
    )
    backend.train_from_iterator(_some(texts), trainer)
    return backend


def _train_characters(texts: Iterable[str], rule: TokenizerRule) -> Backend:
    characters: set[str] = set()
    for text in _some(texts):
        characters.update(text)
    specials = ["<unk>", END_OF_TEXT] if rule.end_token else ["<unk>"]
    tokens = [*specials, *sorted(characters)]
    return character_backend({token: index for index, token in enumerate(tokens)}, specials)


def _train_wordpiece(texts: Iterable[str], rule: TokenizerRule) -> Backend:
    """Two passes: the alphabet first, then the pieces.

    The trainer numbers the ``##`` characters in the order of a hash table, and breaks ties by
    number, so it gives another vocabulary each time; with their numbers given it is deterministic.
    """
    if iter(texts) is texts:
        texts = list(texts)
    pieces = _train_pieces(texts, rule, vocab_size=0)
    kept = [piece for piece in pieces if len(piece) == 1]
    excess = len(pieces) + len(BERT_SPECIALS) - rule.vocab_size
    if excess > 0:
        kept = _most_frequent(texts, rule, kept, len(kept) - excess)
        pieces = _train_pieces(texts, rule, vocab_size=0, alphabet=kept)
    continuing = sorted(piece for piece in pieces if len(piece) > 1)
    tokens = _train_pieces(
        texts, rule, vocab_size=rule.vocab_size, alphabet=kept, first=[*BERT_SPECIALS, *continuing]
    )
    return wordpiece_backend(tokens, rule.lowercase)


def _train_pieces(
    texts: Iterable[str],
    rule: TokenizerRule,
    vocab_size: int,
    alphabet: list[str] | None = None,
    first: list[str] | None = None,
) -> dict[str, int]:
    backend = wordpiece_backend({"[UNK]": 0}, rule.lowercase)
    bounds: dict[str, Any] = {}
    if alphabet:
        bounds = {"limit_alphabet": len(alphabet), "initial_alphabet": alphabet}
    trainer = trainers.WordPieceTrainer(
        **bounds,
        vocab_size=vocab_size,
        special_tokens=first or [],
        show_progress=sys.stderr.isatty(),
    )
    backend.train_from_iterator(_some(texts), trainer)
    return json.loads(backend.to_str())["model"]["vocab"]


def _most_frequent(
    texts: Iterable[str], rule: TokenizerRule, alphabet: list[str], n_kept: int
) -> list[str]:
    """The characters to keep where the alphabet is larger than the vocabulary; the rest is [UNK].

    A character and its ``##`` form are two tokens at most, so that dropping as many characters as
    there are tokens too many is enough.
    """
    if n_kept < 1:
        raise UserError(
            f"vocab_size is {rule.vocab_size}, but the text has {len(alphabet)} different "
            "characters: ask for a larger vocabulary"
        )
    normalizer = wordpiece_backend({"[UNK]": 0}, rule.lowercase).normalizer
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    ranked = sorted(alphabet, key=lambda character: (-counts[character], character))
    return sorted(ranked[:n_kept])


def _some(texts: Iterable[str]) -> Iterator[str]:
    """Pass the texts on; raises UserError at the end if there was none."""
    empty = True
    for text in texts:
        empty = False
        yield text
    if empty:
        raise UserError("there is no text to train a tokenizer on")
