"""Documents of bounded length: a longer one becomes several, cut at white space.

So memory is bounded by a piece, whatever a file holds. Tokenizing the longest one costs 0.2 GB for
English and at most 0.75 GB (four byte-level tokens for each character).
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import IO

LONGEST = 1_250_000  # characters of a document
_LOOK_BACK = 10_000  # no word is longer; scripts without spaces are cut anywhere


def pieces(text: str) -> list[str]:
    """``text`` in parts of at most LONGEST characters, which joined are the text again."""
    found = []
    start = 0
    while len(text) - start > LONGEST:
        end = _place_to_cut(text, start + LONGEST, start)
        found.append(text[start:end])
        start = end
    return [*found, text[start:]]


def text_records(
    stream: IO[str], document: str, note_cut: Callable[[], None]
) -> Iterator[tuple[int, str]]:
    """(number of its first line, text) of every record, or piece of one, that is not blank.

    Args:
        stream: decoded text; in lines that end in LF, unless the whole file is the record.
        document: what a record is: ``line``, ``paragraph`` or ``file``.
        note_cut: called once for each record that is given in pieces.
    """
    read = stream.read if document == "file" else stream.readline
    is_lines = document == "line"
    parts: list[str] = []
    number, size, is_cut = 1, 0, False
    for fragment in chain(iter(partial(read, LONGEST + 1), ""), [""]):
        if is_lines and not size and len(fragment) <= LONGEST and fragment.endswith("\n"):
            if fragment.strip():
                yield number, fragment[:-1]
            number += 1
            continue  # the short way of nearly all lines
        parts.append(fragment)
        size += len(fragment)
        ends = _ends_record(fragment, document)
        if not ends and size <= LONGEST:
            continue
        text = "".join(parts)
        number_behind = number + line_ends(text)
        cut = pieces(_body(text, fragment, document) if ends else text)
        left = "" if ends else cut.pop()
        if not is_cut and (len(cut) > 1 or not ends):
            note_cut()
        for piece in cut:
            if piece.strip():
                yield number, piece
            number += line_ends(piece)
        number = number_behind if ends else number
        parts, size, is_cut = [left], len(left), not ends


def cut_note(name: str, n_cut: int) -> str:
    """One line for the user: so many documents of a source were cut."""
    return f"{name}: {n_cut:,} documents of more than {LONGEST:,} characters were cut into pieces"


def line_ends(text: str) -> int:
    """How many lines end in ``text``, by LF, CRLF or CR."""
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _ends_record(fragment: str, document: str) -> bool:
    if not fragment:  # the end of the file
        return True
    if document == "line":
        return fragment.endswith("\n")
    return document == "paragraph" and not fragment.strip()


def _body(text: str, fragment: str, document: str) -> str:
    """A record's text without what ends it."""
    if document == "file":
        return text
    if document == "paragraph":  # a blank line
        text = text[: len(text) - len(fragment)]
    return text.removesuffix("\n")


def _place_to_cut(text: str, latest: int, start: int) -> int:
    """The last white space up to ``latest``, where the next piece begins; else ``latest``."""
    for at in range(latest, max(start, latest - _LOOK_BACK), -1):
        if text[at].isspace() and text[at - 1 : at + 1] != "\r\n":
            return at
    return latest
