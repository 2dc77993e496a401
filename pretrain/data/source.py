"""A corpus by name: documents, each with its split, streamed in one fixed order."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pretrain.data.document import Document, SourceOptions

__all__ = ["Document", "SourceOptions", "TextSource"]


class TextSource:
    """The documents behind a source string.

    Skeleton: the parts that follow fill it in.
    """

    name: str
    note: str | None
    splits: tuple[str, ...]
    fingerprint: str
    local_bytes: int | None
    bad_records: Counter[str]

    def __init__(
        self,
        source: str,
        val_source: str | None = None,
        options: SourceOptions | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        raise NotImplementedError

    def documents(self) -> Iterator[tuple[str, Document]]:
        """(split, document) for all splits in one deterministic order."""
        raise NotImplementedError

    def texts(self, split: str) -> Iterator[str]:
        """The texts of one split."""
        raise NotImplementedError
