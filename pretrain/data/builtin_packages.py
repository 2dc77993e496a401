"""The built-in corpus as a classification task: which package does this text come from?

Names of packages, as they are installed, imported or usually called, are replaced by one neutral
word in all texts: what is left to tell by is what a package is about.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from pretrain.data import builtin
from pretrain.data.builtin import BuiltinDocument
from pretrain.data.document import Document, RecordRule
from pretrain.data.splits import TRAIN

FEWEST = 200  # documents of a package that is a class
MOST = 1000  # documents taken of a package: those with the smallest hashes
PLACEHOLDER = "package"

_FORMAT = 1  # raise it when the rules of this file change
_ALIASES = (
    *("hf", "hugging face", "huggingface", "mp", "np", "nx", "pd", "pl"),
    *("w&b", "weights & biases", "weights and biases"),
)
_LONG = 5  # letters from which a name is replaced inside longer words too, as in PyTorch


class PackageCorpus:
    """Documentation texts with the package that each stands in, its name masked."""

    parts = (TRAIN,)
    note = (
        f"builtin: labels are the packages with at least {FEWEST} texts, {MOST:,} of each at most"
    )
    local_bytes = builtin.TYPICAL_BYTES

    def __init__(self, cache_dir: Path | None) -> None:
        self._cache_dir = cache_dir

    def identity(self) -> str:
        """The versions of Python and of every package read, and the rules of the selection."""
        return f"{builtin.versions_key()} {_FORMAT} {FEWEST} {MOST} {PLACEHOLDER}"

    def documents(self, part: str, rule: RecordRule) -> Iterator[Document]:
        """The chosen texts, sorted by package and path; the rule says what becomes of a row."""
        options = vars(rule.options)
        for found in self._chosen:
            row = {options["text_field"]: found.text, options["label_field"]: found.package}
            yield from rule.row(row, found.where)

    @cached_property
    def _chosen(self) -> list[BuiltinDocument]:
        found = list(builtin.builtin_documents(self._cache_dir))
        mask = masker(found)
        return [
            BuiltinDocument(mask(document.text), document.package, document.where)
            for document in choose(found, FEWEST, MOST)
        ]


def choose(
    documents: Iterable[BuiltinDocument], fewest: int, most: int
) -> Iterator[BuiltinDocument]:
    """Of every package with at least ``fewest`` documents ``most`` at most, in their order."""
    by_package: dict[str, list[BuiltinDocument]] = defaultdict(list)
    for document in documents:
        by_package[document.package].append(document)
    for held in by_package.values():
        if len(held) >= fewest:
            chosen = sorted(range(len(held)), key=lambda n: _hash(held[n].text))[:most]
            yield from (held[n] for n in sorted(chosen))


def masker(documents: Iterable[BuiltinDocument]) -> Callable[[str], str]:
    """What replaces the names of all packages of ``documents`` in a text.

    A name counts wherever it is a word or a part of an identifier (``torch_geometric``), and one of
    five letters or more inside a longer word too (``PyTorch``); upper case is no difference. Of the
    standard library only ``python`` is a name: its modules are called ``time`` or ``string``.
    """
    names = {"python", *_ALIASES}
    for document in documents:
        names.add(document.package.lower())
        if document.package != "python":
            names.add(_import_name(document.where))
    words = {name for name in names if name.isalnum()}
    long = _alternatives(name for name in words if len(name) >= _LONG)
    phrases = "|".join(re.sub(r"[-_]", "[-_. ]", re.escape(name).replace(r"\-", "-"))
                       for name in sorted(names - words, key=_longest_first))  # fmt: skip
    pattern = re.compile(rf"(?<![^\W_])(?:(?:{phrases})(?![^\W_])|[^\W_]+)", re.IGNORECASE)

    @cache
    def masked(word: str) -> str:
        lower = word.lower()
        if lower in words or not lower.isalnum():
            return PLACEHOLDER
        return long.sub(PLACEHOLDER, word)

    return lambda text: pattern.sub(lambda match: masked(match[0]), text)


def _alternatives(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=_longest_first))), re.IGNORECASE)


def _longest_first(name: str) -> tuple[int, str]:
    return -len(name), name


def _import_name(where: str) -> str:
    return PurePosixPath(where.rpartition(":")[0]).parts[0].removesuffix(".py").strip("_").lower()


def _hash(text: str) -> bytes:
    # Of its own kind: a split by the plain hash would hold out the very texts chosen here.
    return blake2b(text.encode(), digest_size=8, person=b"choice").digest()
