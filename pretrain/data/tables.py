"""CSV and TSV files to documents: the first line names the columns."""

import csv
from collections.abc import Iterator
from typing import IO

from pretrain.data.document import Document, RecordRule, flaw
from pretrain.errors import UserError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LONGEST_FIELD = 2**31 - 1  # Python's own limit is 131,072 characters


def read_table(stream: IO[str], name: str, rule: RecordRule, delimiter: str) -> Iterator[Document]:
    """The documents of a table; quotes as in RFC 4180, so that a field may hold line ends.

    Args:
        stream: decoded with `surrogateescape`, line ends as they are.
        name: of the file, for messages; a record is named by its first line.
        rule: what makes a document of a row.
        delimiter: between the fields.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    records = _records(stream, name, rule, delimiter)
    _, header = next(records, (0, []))
    twice = {column for column in header if header.count(column) > 1}
    if twice:
        raise UserError(f'{name}:1: two columns are called "{min(twice)}": rename one of them')
    for where, fields in records:
        if len(fields) != len(header):
            detail = f" ({len(fields)} where the first line names {len(header)})"
            rule.refuse(where, "wrong number of fields", detail)
        elif any(flaw(field) == "a lone surrogate" for field in fields):
            rule.refuse(where, "not UTF-8")
        else:
            yield from rule.row(dict(zip(header, fields, strict=True)), where)


def _records(
    stream: IO[str], name: str, rule: RecordRule, delimiter: str
) -> Iterator[tuple[str, list[str]]]:
    """(where it begins, fields) of every record; blank lines are ignored."""
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    while True:
        where = f"{name}:{reader.line_num + 1}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            rule.refuse(where, "quotes that don't match", f" ({error}; a quote inside is doubled)")
            continue
        if fields is None:
            return
        if fields:
            yield where, fields
