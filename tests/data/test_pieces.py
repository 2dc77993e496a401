import io
import itertools
import random
import re

import pytest

from pretrain.data import pieces as module
from pretrain.data.pieces import line_ends, pieces, text_records


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 12)
    monkeypatch.setattr(module, "_LOOK_BACK", 8)


def records(text, document):
    """The records of a file, and how many of them were cut."""
    cuts = []
    stream = io.StringIO(text, newline="" if document == "file" else None)
    return list(text_records(stream, document, lambda: cuts.append(1))), len(cuts)


@pytest.mark.parametrize("seed", range(50))
def test_pieces_joined_are_the_text_and_none_is_too_long(seed):
    letters = ["a", "b", " ", "\n", "\r\n", "\u4e2d", "word", "\u2028"]
    text = "".join(random.Random(seed).choices(letters, k=40))
    parts = pieces(text)
    assert "".join(parts) == text
    assert max(map(len, parts)) <= 12
    assert sum(map(line_ends, parts)) == line_ends(text)  # no CRLF is cut in two
    blanks = [found.start() for found in re.finditer(r"\r\n|\s", text)]
    ends = [len("".join(parts[:n])) for n in range(1, len(parts))]
    for start, end in itertools.pairwise([0, *ends]):
        near = [at for at in blanks if start + 4 < at <= start + 12]
        assert end == max(near, default=start + 12)


def test_a_text_that_is_short_enough_is_left_alone():
    for text in ("", "a", "a b c d e f ", "abcdefghijkl"):
        assert pieces(text) == [text]


def test_a_long_line_becomes_several_documents_with_the_line_that_it_stands_in():
    found, n_cut = records("one\ntwo three four five six\nseven\n", "line")
    assert found == [(1, "one"), (2, "two three"), (2, " four five"), (2, " six"), (3, "seven")]
    assert n_cut == 1


def test_a_line_of_just_the_length_is_whole():
    found, n_cut = records("abcdefghijkl\nmno", "line")
    assert found == [(1, "abcdefghijkl"), (2, "mno")]
    assert n_cut == 0


def test_a_long_paragraph_keeps_its_lines():
    found, n_cut = records("a b\nc d\ne f\ng h\n\n \nlast\n\n" + "x" * 30, "paragraph")
    assert found == [
        (1, "a b\nc d\ne f"), (3, "\ng h"), (7, "last"), (9, "x" * 12), (9, "x" * 12), (9, "x" * 6),
    ]  # fmt: skip
    assert n_cut == 2


def test_a_long_file_is_whole_when_its_pieces_are_joined():
    text = "".join(f"line {n}\r\n" for n in range(20))
    found, n_cut = records(text, "file")
    assert "".join(piece for _, piece in found) == text
    assert n_cut == 1
    number = 1
    for begins, piece in found:
        assert begins == number
        number += line_ends(piece)


@pytest.mark.parametrize("document", ["line", "paragraph", "file"])
def test_blank_text_of_any_length_is_no_document(document):
    assert records(" " * 50 + "\n \n\n" + "\t" * 13, document)[0] == []


@pytest.mark.parametrize("document", ["line", "paragraph", "file"])
@pytest.mark.parametrize("seed", range(30))
def test_no_character_but_white_space_is_lost(seed, document):
    letters = ["a", "b", " ", "\n", "\n\n", "word", "\u4e2d", "longer"]
    text = "".join(random.Random(seed).choices(letters, k=200))
    found, _ = records(text, document)
    assert "".join("".join(piece.split()) for _, piece in found) == "".join(text.split())
    lines = text.split("\n")
    for number, piece in found:
        assert piece.split()[0] in "\n".join(lines[number - 1 :])
