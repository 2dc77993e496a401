"""Reads the files of a measure: rows with named fields, each checked."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from pretrain.data.corpora import open_corpus
from pretrain.data.document import RecordRule, SourceOptions, flaw
from pretrain.errors import UserError


class Record(NamedTuple):
    """A row of a file, and where it stands (``file:line``)."""

    row: dict[str, Any]
    where: str

    def text(self, name: str, *, may_be_empty: bool = False) -> str:
        """The text in the field ``name``.

        Raises:
            UserError: There is no such field, or it holds no text.
        """
        if name not in self.row:
            names = ", ".join(f'"{key}"' for key in self.row) or "none"
            self.refuse(f'there is no field "{name}" (its fields: {names})')
        return self.checked(self.row[name], f'field "{name}"', may_be_empty=may_be_empty)

    def checked(self, value: Any, what: str, *, may_be_empty: bool = False) -> str:
        """``value``, if it is text; raises UserError where it is none."""
        if not isinstance(value, str):
            self.refuse(f"{what} is {'null' if value is None else repr(value)}, not text")
        if not may_be_empty and not value.strip():
            self.refuse(f"{what} is empty")
        if reason := flaw(value):
            self.refuse(f"{what} holds {reason}")
        return value

    def refuse(self, reason: str) -> NoReturn:
        """Raise UserError with the row's place."""
        raise UserError(f"{self.where}: {reason}; mend the record.")


class _RowRule(RecordRule):
    """Hands whole rows on, where a corpus hands on their text."""

    def __init__(self) -> None:
        # No field is a text field: every column of a Parquet file is read.
        super().__init__(SourceOptions(text_field=""), Counter())

    def refuse(self, where: str, reason: str, detail: str = "") -> NoReturn:
        raise UserError(f"{where}: {reason}{detail}; mend the record.")

    def row(self, row: Any, where: str) -> Iterator[Any]:
        if not isinstance(row, dict):
            self.refuse(where, "the line is no JSON object")
        yield Record(row, where)


def read_records(source: str) -> Iterator[Record]:
    """All rows of a JSONL or Parquet file (plain or compressed), a folder, or a hub dataset.

    Raises:
        UserError: The source can't be read or holds no row; naming file and line.
    """
    corpus = open_corpus(source)
    rule = _RowRule()
    rows = itertools.chain.from_iterable(corpus.documents(part, rule) for part in corpus.parts)
    is_empty = True
    for record in rows:
        if not isinstance(record, Record):
            raise UserError(f"{source} is plain text: give a .jsonl file, one JSON object a line.")
        is_empty = False
        yield record
    if is_empty:
        raise UserError(f"{source} is empty: give a file with one JSON object a line.")
