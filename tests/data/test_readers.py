import bz2
import gzip
import lzma
import random
from collections import Counter

import fsspec
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from pretrain.data import pieces
from pretrain.data.document import RecordRule, SourceOptions
from pretrain.data.readers import DataFile, extension, read_documents
from pretrain.errors import UserError

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: zstandard.ZstdCompressor().compress(content),
}
A, B, C = b'{"text": "a"}', b'{"text": "b"}', b'{"text": "c"}'


@pytest.fixture
def read(tmp_path):
    """Write bytes under a name, read them back; returns [(text, where)] and the skip counts."""

    def write_and_read(content, name, compression="", **options):
        path = tmp_path / (name + compression)
        path.write_bytes(COMPRESS[compression](content))
        counts = Counter()
        rule = RecordRule(SourceOptions(**options), counts)
        file = DataFile(fsspec.filesystem("file"), str(path), path.name)
        return [(found.text, found.where) for found in read_documents(file, rule)], counts

    return write_and_read


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(A + b"\n" + B + b"\n\n" + C + b"\n", (1, 2, 4), id="blank line"),
        pytest.param(A + b"\n" + B + b"\n   \n" + C + b"\n", (1, 2, 4), id="line of spaces"),
        pytest.param(b"\xef\xbb\xbf" + A + b"\n" + B + b"\n" + C, (1, 2, 3), id="byte order mark"),
        pytest.param(A + b"\r\n" + B + b"\r\n" + C + b"\r\n", (1, 2, 3), id="CRLF"),
        pytest.param(A + b"\n" + B + b"\n" + C, (1, 2, 3), id="no final newline"),
    ],
)
def test_json_lines_with_harmless_oddities_hold_exactly_their_rows(
    read, compression, content, lines
):
    documents, _ = read(content, "x.jsonl", compression)
    expected = zip("abc", lines, strict=True)
    assert documents == [(text, f"x.jsonl{compression}:{line}") for text, line in expected]


BAD_ROWS = {
    "cut last line": (A + b"\n" + B + b'\n{"text": "c', 3, "not JSON"),
    "null": (A + b'\n{"text": null}\n', 2, 'field "text" is null, not text'),
    "empty": (b'{"text": ""}\n' + A, 1, 'field "text" is empty'),
    "only blanks": (b'{"text": " \\n "}\n' + A, 1, 'field "text" is empty'),
    "number": (A + b'\n\n{"text": 12}', 3, 'field "text" is int, not text'),
    "other key": (A + b'\n{"txt": "b", "n": 1}\n', 2, 'no field "text"'),
    "list": (A + b'\n["a"]\n', 2, "the line is no JSON object"),
    "not UTF-8": (A + b'\n{"text": "caf\xe9"}\n' + C, 2, "not UTF-8"),
    "lone surrogate": (b'{"text": "a \\ud83d b"}\n' + A, 1, 'field "text" holds a lone surrogate'),
    "NUL": (b'{"text": "a\\u0000b"}\n' + A, 1, 'field "text" holds a NUL character'),
    "deep nesting": (A + b"\n" + b"[" * 100_000, 2, "not JSON"),
    "huge number": (A + b'\n{"text": ' + b"1" * 5000 + b"}", 2, "not JSON"),
}


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("fault", BAD_ROWS)
def test_a_bad_row_is_named_by_file_and_line_or_counted(read, compression, fault):
    content, line, reason = BAD_ROWS[fault]
    with pytest.raises(UserError) as caught:
        read(content, "x.jsonl", compression)
    assert f"x.jsonl{compression}:{line}: {reason}" in str(caught.value)
    assert "on_bad_record=skip" in str(caught.value)

    documents, counts = read(content, "x.jsonl", compression, on_bad_record="skip")
    assert counts == {reason: 1}
    assert [text for text, _ in documents] == (
        ["a", "b"] if fault == "cut last line" else ["a", "c"] if fault == "not UTF-8" else ["a"]
    )


def test_a_missing_field_is_answered_with_the_fields_that_are_there(read):
    with pytest.raises(UserError, match=r'its fields: "title", "body"'):
        read(b'{"title": "t", "body": "b"}\n', "x.jsonl")
    assert read(b'{"title": "t", "body": "b"}\n', "x.jsonl", text_field="body")[0] == [
        ("b", "x.jsonl:1")
    ]


@pytest.mark.parametrize("compression", COMPRESS)
def test_only_lf_crlf_and_cr_end_a_line_of_text(read, compression):
    content = "one\u2028b\u2029c\vd\fe\u0085f\ntwo\r\nthree\rfour\n".encode()
    documents, _ = read(content, "x.txt", compression)
    assert documents == [
        (text, f"x.txt{compression}:{line}")
        for line, text in enumerate(["one\u2028b\u2029c\vd\fe\u0085f", "two", "three", "four"], 1)
    ]


def test_line_ends_may_fall_on_the_border_of_any_buffer(read):
    lines = ["x" * (n % 7000) for n in range(1, 60_000, 997)]
    content = "\r\n".join(lines).encode()
    assert [text for text, _ in read(content, "x.txt")[0]] == lines
    assert [text for text, _ in read(content, "x.txt", ".zst")[0]] == lines


def test_a_byte_order_mark_is_no_text_and_the_rest_is_kept_as_it_is(read):
    content = b"\xef\xbb\xbfone \n  two\n \n\t\n"
    assert read(content, "x.txt")[0] == [("one ", "x.txt:1"), ("  two", "x.txt:2")]
    whole, _ = read(b"\xef\xbb\xbf\n one\r\n\rtwo \n", "x.txt", document="file")
    assert whole == [("\n one\r\n\rtwo \n", "x.txt:1")]


def test_paragraphs_are_blocks_between_blank_lines(read):
    content = b"\n\na\nb\r\n \t\n\nc\n\nd"
    assert read(content, "x.txt", document="paragraph")[0] == [
        ("a\nb", "x.txt:3"),
        ("c", "x.txt:7"),
        ("d", "x.txt:9"),
    ]


@pytest.mark.parametrize("document", ["line", "paragraph", "file"])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [(b"caf\xe9", "not UTF-8"), (b"a\0b", "a NUL character"), (b"\xed\xa0\x80", "not UTF-8")],
)
def test_text_that_is_none_is_named_by_its_line(read, document, bad, reason):
    content = b"good\n\nfine\r\n" + bad + b"\n\nlast\n"
    with pytest.raises(UserError, match=rf"^x\.txt:4: {reason}"):
        read(content, "x.txt", document=document)
    documents, counts = read(content, "x.txt", document=document, on_bad_record="skip")
    assert counts == {reason: 1}
    left = {"line": ["good", "fine", "last"], "paragraph": ["good", "last"], "file": []}
    assert [text for text, _ in documents] == left[document]


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["x.jsonl", "x.txt"])
def test_a_compressed_file_that_was_cut_off_is_named(tmp_path, compression, name):
    lines = b"".join(b'{"text": "%d"}\n' % (n * n) for n in range(5000))
    path = tmp_path / (name + compression)
    path.write_bytes(COMPRESS[compression](lines)[:-20])
    rule = RecordRule(SourceOptions(on_bad_record="skip"), Counter())
    with pytest.raises(UserError, match=name + compression + ".* cut off or damaged"):
        list(read_documents(DataFile(fsspec.filesystem("file"), str(path), path.name), rule))


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_a_file_of_several_compressed_parts_is_read_to_its_end(tmp_path, compression):
    path = tmp_path / f"x.txt{compression}"
    path.write_bytes(COMPRESS[compression](b"one\ntw") + COMPRESS[compression](b"o\nthree\n"))
    rule = RecordRule(SourceOptions(), Counter())
    file = DataFile(fsspec.filesystem("file"), str(path), path.name)
    assert [found.text for found in read_documents(file, rule)] == ["one", "two", "three"]


def test_parquet_rows_obey_the_same_rule(tmp_path):
    path = tmp_path / "odd [1] name*.parquet"
    texts = ["a", None, "", "a\0b", "b\u2028c"]
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "n": range(5)}), path)
    file = DataFile(fsspec.filesystem("file"), str(path), "x.parquet")
    with pytest.raises(UserError, match=r'x\.parquet, row 2: field "text" is null'):
        list(read_documents(file, RecordRule(SourceOptions(), Counter())))

    counts = Counter()
    rule = RecordRule(SourceOptions(on_bad_record="skip"), counts)
    assert [found.text for found in read_documents(file, rule)] == ["a", "b\u2028c"]
    assert counts.total() == 3

    for options, said in [
        ({"text_field": "body"}, 'its fields: "text", "n"'),
        ({"text_field": "n"}, 'field "n" is int, not text'),
    ]:
        with pytest.raises(UserError, match=said):
            list(read_documents(file, RecordRule(SourceOptions(**options), Counter())))


def test_a_parquet_file_that_was_cut_off_is_named(tmp_path):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-20])
    file = DataFile(fsspec.filesystem("file"), str(path), path.name)
    with pytest.raises(UserError, match=r"x\.parquet can't be read to its end"):
        list(read_documents(file, RecordRule(SourceOptions(), Counter())))


def test_the_extension_is_found_behind_that_of_a_compression():
    assert extension("a/B.JSONL.GZ") == ".jsonl"
    assert extension("a.b/c.txt") == ".txt"
    assert extension("a.b/c") == ""
    assert extension("a.gz") == ""
    assert extension("https://host/a.jsonl.gz?download=true") == ".jsonl"
    assert extension("what?.txt") == ".txt"


@pytest.mark.parametrize("seed", range(20))
def test_lines_of_any_bytes_are_those_of_bytes_splitlines(read, seed):
    pieces = [b"\n", b"\r", b"\r\n", b"a", b" ", b"\x0b", b"\x0c", b"\x1c", b"\xe2\x80\xa8",
              b"\xc2\x85", b"\xff", b"\0", "\u4e2d".encode()]  # fmt: skip
    content = b"".join(random.Random(seed).choices(pieces, k=30_000))
    good, n_bad = [], 0
    for number, line in enumerate(content.splitlines(), 1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            n_bad += 1
            continue
        n_bad += "\0" in text
        if text.strip() and "\0" not in text:
            good.append((text, f"x.txt:{number}"))
    documents, counts = read(content, "x.txt", on_bad_record="skip")
    assert documents == good
    assert counts.total() == n_bad


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(("name", "comma"), [("x.csv", b","), ("x.tsv", b"\t")])
def test_the_first_line_of_a_table_names_its_columns(read, compression, name, comma):
    lines = [b"n,text", b"1,a", b"", b'2,"b, ""c""\td"', b'3,"two\nlines\r\n"', b"4,last"]
    content = b"\xef\xbb\xbf" + b"\r\n".join(line.replace(b",", comma, 1) for line in lines)
    documents, _ = read(content, name, compression)
    where = name + compression
    assert documents == [
        ("a", f"{where}:2"),
        ('b, "c"\td', f"{where}:4"),
        ("two\nlines\r\n", f"{where}:5"),
        ("last", f"{where}:8"),
    ]


BAD_TABLE_ROWS = {
    "too few fields": (b"2\n", "wrong number of fields"),
    "too many fields": (b"2,b,c\n", "wrong number of fields"),
    "empty text": (b"2,\n", 'field "text" is empty'),
    "text behind a quote": (b'2,"b"c\n', "quotes that don't match"),
    "not UTF-8": (b"2,caf\xe9\n", "not UTF-8"),
    "NUL": (b"2,a\0b\n", 'field "text" holds a NUL character'),
}


@pytest.mark.parametrize("fault", BAD_TABLE_ROWS)
def test_a_bad_row_of_a_table_is_named_by_its_first_line_or_counted(read, fault):
    row, reason = BAD_TABLE_ROWS[fault]
    content = b'n,text\n1,"a\na"\n' + row + b"3,c\n"
    with pytest.raises(UserError, match=rf"^x\.csv:4: {reason}.*on_bad_record=skip"):
        read(content, "x.csv")
    documents, counts = read(content, "x.csv", on_bad_record="skip")
    assert documents == [("a\na", "x.csv:2"), ("c", "x.csv:5")]
    assert counts == {reason: 1}


def test_a_table_without_the_columns_says_which_it_has(read):
    with pytest.raises(UserError, match=r'x\.csv:2: no field "text" \(its fields: "a", "b"'):
        read(b"a,b\n1,2\n", "x.csv")
    with pytest.raises(UserError, match='two columns are called "text"'):
        read(b"text,text\n1,2\n", "x.csv")
    assert read(b"", "x.csv")[0] == []
    with pytest.raises(UserError, match=r"x\.csv:2: quotes that don't match"):
        read(b'text\n"never closed\nb\n', "x.csv")


def test_a_field_of_a_table_may_be_long(read):
    text = "x" * 200_000
    assert read(f"text\n{text}\n".encode(), "x.csv")[0] == [(text, "x.csv:2")]


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet"])
def test_a_long_text_of_a_row_becomes_several_documents(tmp_path, monkeypatch, name, compression):
    monkeypatch.setattr(pieces, "LONGEST", 12)
    texts = ["one two three four", "five"]
    path = tmp_path / (name + compression)
    if name == "x.parquet":
        path = tmp_path / name
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path)
    else:
        rows = ["text", *texts] if name == "x.csv" else [f'{{"text": "{text}"}}' for text in texts]
        path.write_bytes(COMPRESS[compression]("\n".join(rows).encode()))
    rule = RecordRule(SourceOptions(), Counter())
    file = DataFile(fsspec.filesystem("file"), str(path), path.name)
    documents = list(read_documents(file, rule))
    assert [found.text for found in documents] == ["one two", " three four", "five"]
    assert documents[0].where == documents[1].where != documents[2].where
    assert rule.n_cut == 1


def test_a_bad_byte_of_a_long_document_is_named_by_its_line(read, monkeypatch):
    monkeypatch.setattr(pieces, "LONGEST", 12)
    content = b"one\ntwo\nthree\nfour\nfive\ncaf\xe9\nseven\n"
    for document in ("line", "file"):
        with pytest.raises(UserError, match=r"^x\.txt:6: not UTF-8"):
            read(content, "x.txt", document=document)
    documents, counts = read(content, "x.txt", document="file", on_bad_record="skip")
    assert counts == {"not UTF-8": 1}
    assert "".join(text for text, _ in documents).split()[:4] == ["one", "two", "three", "four"]


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_file_without_a_byte_is_cut_off(tmp_path, compression):
    path = tmp_path / f"a.txt{compression}"
    path.touch()
    rule = RecordRule(SourceOptions(), Counter())
    with pytest.raises(UserError, match=f"a.txt{compression} .*cut off or damaged"):
        list(read_documents(DataFile(fsspec.filesystem("file"), str(path), path.name), rule))


def test_a_parquet_file_of_a_type_that_arrow_lacks_is_named(tmp_path, monkeypatch):
    def lacks(*args, **kwargs):
        raise pyarrow.ArrowNotImplementedError("Integers with more than 64 bits")

    monkeypatch.setattr("datasets.load_dataset", lacks)
    file = DataFile(fsspec.filesystem("file"), str(tmp_path / "a.parquet"), "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet .* damaged \(Integers with more than 64"):
        list(read_documents(file, RecordRule(SourceOptions(), Counter())))
