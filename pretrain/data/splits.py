"""Which documents are held out: by name, by the hash of their text, or from the tail."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import PurePosixPath

from pretrain.data.document import Document

TRAIN, VALIDATION, TEST = "train", "validation", "test"

_NAMES = {
    "train": TRAIN,
    "validation": VALIDATION,
    "valid": VALIDATION,
    "val": VALIDATION,
    "dev": VALIDATION,
    "test": TEST,
}
_SHARD = re.compile(r"[-_]\d+([-_]of[-_]\d+)?$")


def split_of_name(name: str) -> str | None:
    """The split that a hub split or a file of this name serves as, or None.

    The name counts up to its first dot and without a shard number: ``train-00000-of-00003.txt.gz``
    is train, ``trainer.txt`` is not.
    """
    stem = _SHARD.sub("", name.split(".")[0].lower())
    return _NAMES.get(stem)


def split_of_path(relative: str) -> str | None:
    """The split of a file in a folder: by its own name, else by its nearest folder's."""
    path = PurePosixPath(relative)
    for part in (path.name, *(parent.name for parent in path.parents)):
        if split := split_of_name(part):
            return split
    return None


def named_parts(splits: dict[str, str | None]) -> tuple[dict[str, list[str]], list[str]]:
    """Sort names into parts.

    Args:
        splits: name → the split that it is called after, or None.

    Returns:
        part → names, and the names left out. Names of no split are training text unless some are
        called train; where no training text is left, the names decide nothing: all is train.
    """
    parts: dict[str, list[str]] = {TRAIN: [], VALIDATION: [], TEST: []}
    nameless = [name for name, split in splits.items() if split is None]
    for name, split in splits.items():
        if split is not None:
            parts[split].append(name)
    if not parts[TRAIN]:
        parts[TRAIN], nameless = nameless, []
    if not parts[TRAIN]:
        return {TRAIN: list(splits)}, []
    return {part: names for part, names in parts.items() if names}, nameless


def hash_side(text: str, share: float) -> str:
    """Train or validation, by the text alone, so that it stays when the corpus grows."""
    digest = blake2b(text.encode(), digest_size=8).digest()
    return VALIDATION if int.from_bytes(digest) / 2**64 < share else TRAIN


def tail_sides(
    documents: Iterable[Document], total_characters: int, share: float
) -> Iterator[tuple[str, Document]]:
    """The first ``int(total · (1 − share))`` characters are train, the rest validation.

    A document that the border falls into is cut there, and serves on both sides.
    """
    left = int(total_characters * (1 - share))
    for document in documents:
        head, tail = document.text[:left], document.text[left:]
        left -= len(head)
        if head:
            yield TRAIN, Document(head, document.where)
        if tail:
            yield VALIDATION, Document(tail, document.where)
