"""A document, the options that decide what counts as one, and the rule that refuses a bad one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pretrain.data.pieces import pieces
from pretrain.errors import UserError

DocumentRule = Literal["line", "paragraph", "file"]
SplitRule = Literal["hash", "tail"]
BadRecordRule = Literal["error", "skip"]


@dataclass(frozen=True)
class Document:
    """One unit of text, and where it stands (``file:line``, or a row)."""

    text: str
    where: str


@dataclass(frozen=True)
class SourceOptions:
    """What makes a document, and which documents are held out.

    Attributes:
        text_field: the field of a JSONL, CSV, TSV, Parquet or hub row that holds the text.
        document: what one document of a plain text file is: each line, each block between blank
            lines, or the whole file exactly as it is.
        split: how validation text is chosen where none is named: by the ``hash`` of a document's
            text (it stays on its side when the corpus grows), or the ``tail`` of the corpus.
        split_share: the share held out, of documents (``hash``) or characters (``tail``).
        on_bad_record: stop at a record that is no text, or skip and count it.

    Raises UserError for a value outside these.
    """

    text_field: str = "text"
    document: DocumentRule = "line"
    split: SplitRule = "hash"
    split_share: float = 0.05
    on_bad_record: BadRecordRule = "error"

    def __post_init__(self) -> None:
        rules = {"document": DocumentRule, "split": SplitRule, "on_bad_record": BadRecordRule}
        for name, rule in rules.items():
            if getattr(self, name) not in get_args(rule):
                choices = ", ".join(get_args(rule))
                raise UserError(f"{name} is {getattr(self, name)!r}: choose one of {choices}")
        if not 0 < self.split_share < 1:
            raise UserError(f"split_share is {self.split_share}: it must lie between 0 and 1")


class RecordRule:
    """Refuses what is no text: one UserError, or a count when asked to skip.

    A record is bad when it is not UTF-8, not a JSON object, lacks the text field, holds there
    anything but a string with a visible character, holds U+0000 (it almost always means a binary
    or UTF-16 file) or half of a surrogate pair (no UTF-8 can express it).

    Attributes:
        counts: reason → records skipped.
        first_skipped: where the first of them stands, and what is wrong with it.
        n_cut: documents so long that they became several.
    """

    def __init__(self, options: SourceOptions, counts: Counter[str]) -> None:
        self.options = options
        self.counts = counts
        self.first_skipped: str | None = None
        self.n_cut = 0

    def note_cut(self) -> None:
        """Count a document that becomes several."""
        self.n_cut += 1

    @property
    def fields(self) -> list[str]:
        """The fields of a row that are read."""
        return [self.options.text_field]

    def refuse(self, where: str, reason: str, detail: str = "") -> None:
        """Raise UserError, or count ``reason`` when bad records are skipped."""
        if self.options.on_bad_record == "skip":
            self.counts[reason] += 1
            self.first_skipped = self.first_skipped or f"{where}: {reason}{detail}"
            return
        raise UserError(
            f"{where}: {reason}{detail}; mend the record, or skip such records with "
            "on_bad_record=skip"
        )

    def text(self, text: str, where: str) -> Document:
        """A document, or a piece of one, of a plain text file."""
        return Document(text, where)

    def row(self, row: Any, where: str) -> Iterator[Document]:
        """The document of a row of named fields: one, several if it is long, none if skipped."""
        reason, detail = self._wrong(row)
        if reason:
            self.refuse(where, reason, detail)
            return
        yield from self._documents(row, where)

    def _documents(self, row: dict[str, Any], where: str) -> Iterator[Document]:
        parts = pieces(row[self.options.text_field])
        if len(parts) > 1:
            self.note_cut()
        return (Document(part, where) for part in parts if part.strip())

    def _wrong(self, row: Any) -> tuple[str, str]:
        """(what is wrong, a detail of it), both empty for a good row."""
        if not isinstance(row, dict):
            return "the line is no JSON object", ""
        return self._wrong_text(row, "text_field")

    def _missing(self, row: dict[str, Any], option: str) -> tuple[str, str]:
        name = getattr(self.options, option)
        if name in row:
            return "", ""
        names = ", ".join(f'"{key}"' for key in row) or "none"
        return f'no field "{name}"', f" (its fields: {names}; {option} names another)"

    def _wrong_text(self, row: dict[str, Any], option: str) -> tuple[str, str]:
        missing = self._missing(row, option)
        if any(missing):
            return missing
        name = getattr(self.options, option)
        text = row[name]
        if not isinstance(text, str):
            kind = "null" if text is None else type(text).__name__
            return f'field "{name}" is {kind}, not text', ""
        if not text.strip():
            return f'field "{name}" is empty', ""
        reason = flaw(text)
        return (f'field "{name}" holds {reason}', "") if reason else ("", "")


def flaw(text: str) -> str | None:
    """What keeps ``text`` from being UTF-8 text, or None."""
    if "\0" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "a lone surrogate"
    return None
