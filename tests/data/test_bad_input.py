"""Odd, bad and damaged corpora of every format, cached and streamed, with labels and without."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from pretrain.data.classification import ClassificationDataModule
from pretrain.data.datamodule import CausalLMDataModule
from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.errors import UserError

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
HUB = "org/corpus"
BOTH_PATHS = pytest.mark.parametrize("cache", [True, False], ids=["cached", "streamed"])
END = "<|endoftext|>"


def write(folder: Path, name: str, rows: list) -> Path:
    """A file of the lines or, in Parquet, the texts of ``rows``."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    if path.suffix == ".parquet":
        numbers = list(range(len(rows)))
        table = pyarrow.table({"text": pyarrow.array(rows, pyarrow.string()), "n": numbers})
        pyarrow.parquet.write_table(table, path)
        return path
    header = {".csv": [b"n,text"], ".tsv": [b"n\ttext"]}.get(path.with_suffix("").suffix, [])
    header = {".csv": [b"n,text"], ".tsv": [b"n\ttext"]}.get(path.suffix, header)
    content = b"\n".join([*header, *rows])
    path.write_bytes(PACK.get(path.suffix, bytes)(content))
    return path


@pytest.fixture
def source_of(tmp_path, monkeypatch):
    """Write rows in a format; gives the name of the source."""

    def build(name, rows):
        if name != HUB:
            return str(write(tmp_path / "corpus", name, rows))
        write(tmp_path / "hub", "train.parquet", rows)
        real = datasets.load_dataset_builder
        monkeypatch.setattr(
            datasets, "load_dataset_builder", lambda path, name=None: real(str(tmp_path / "hub"))
        )
        return HUB

    return build


@pytest.fixture
def open_data(tmp_path):
    def build(source, **options):
        held_out = write(tmp_path, "held_out.txt", [b"xyz", b""])
        given = {"val_source": str(held_out), "tokenizer": TokenizerRule("char")}
        return CausalLMDataModule(
            source, cache_dir=str(tmp_path / "cache"), seq_len=256, batch_size=1, seed=1,
            **{**given, **options},
        )  # fmt: skip

    return build


def texts_trained_on(data) -> list[str]:
    """The documents of an epoch, sorted; each block is so long that it holds whole ones."""
    data.prepare_data()
    data.setup("fit")
    found = []
    for batch in data.train_dataloader():
        for tokens, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            real = [int(tokens[0]), *labels[labels >= 0].tolist()]
            found += data.tokenizer.decode(real).removesuffix(END).split(END)
    return sorted(found)


def json_row(text: str) -> bytes:
    return b'{"text": "%s"}' % text.encode()


def rows_of(name: str, *texts: str) -> list:
    if name == HUB or name.endswith(".parquet"):
        return list(texts)
    if ".jsonl" in name:
        return [json_row(text) for text in texts]
    comma = {"csv": b"1,", "tsv": b"1\t"}.get(name.split(".")[1], b"")
    return [comma + text.encode() for text in texts]


LINES = ["x.txt", "x.jsonl", "x.csv", "x.tsv", "x.txt.gz", "x.jsonl.gz", "x.csv.zst"]
FORMATS = [*LINES, "x.parquet", HUB]
ODD = {
    "blank line": lambda lines: [lines[0], b"", *lines[1:], b""],
    "CRLF": lambda lines: [line + b"\r" for line in lines] + [b""],
    "no final newline": lambda lines: lines,
    "final newline": lambda lines: [*lines, b""],
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", LINES)
@BOTH_PATHS
def test_harmless_oddities_of_lines_change_no_text(source_of, open_data, name, odd, cache):
    rows = ODD[odd](rows_of(name, "one", "two", "three"))
    assert texts_trained_on(open_data(source_of(name, rows), cache=cache)) == [
        "one", "three", "two",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.csv"])
@BOTH_PATHS
def test_a_byte_order_mark_and_a_line_of_spaces_are_no_text(tmp_path, open_data, name, cache):
    rows = rows_of(name, "one", "two", "three")
    rows.insert(1, b"   " if name != "x.csv" else b"")
    path = write(tmp_path / "corpus", name, rows)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    data = open_data(str(path), cache=cache)
    assert texts_trained_on(data) == ["one", "three", "two"]


@pytest.mark.parametrize("name", FORMATS)
@BOTH_PATHS
def test_only_real_line_ends_part_documents(source_of, open_data, name, cache):
    odd = "a\u2028b\u2029c\x0bd\x0ce\u0085f"
    rows = rows_of(name, odd, "two", "three", "four")
    if ".jsonl" in name:  # JSON writes control characters as escapes
        rows[0] = json.dumps({"text": odd}, ensure_ascii=False).encode()
    found = texts_trained_on(open_data(source_of(name, rows), cache=cache))
    assert found == sorted([odd, "two", "three", "four"])


BAD = [
    *(
        (name, bad, said)
        for name in ("x.txt", "x.txt.gz")
        for bad, said in [
            (b"caf\xe9", "not UTF-8"),
            (b"a\0b", "a NUL character"),
            (b"\xed\xa0\xbd", "not UTF-8"),
        ]
    ),
    *(
        (name, bad, said)
        for name in ("x.jsonl", "x.jsonl.gz")
        for bad, said in [
            (b'{"text": null}', 'field "text" is null, not text'),
            (b'{"text": ""}', 'field "text" is empty'),
            (b'{"text": 12}', 'field "text" is int, not text'),
            (b'{"txt": "b"}', 'no field "text"'),
            (b'{"text": "caf\xe9"}', "not UTF-8"),
            (b'{"text": "a \\ud83d"}', 'field "text" holds a lone surrogate'),
            (b'{"text": "a\\u0000b"}', 'field "text" holds a NUL character'),
            (b'{"text": "cut', "not JSON"),
        ]
    ),
    *(
        (name, bad.replace(b",", b"\t") if name == "x.tsv" else bad, said)
        for name in ("x.csv", "x.tsv")
        for bad, said in [
            (b"2,", 'field "text" is empty'),
            (b"2", "wrong number of fields"),
            (b"2,caf\xe9", "not UTF-8"),
            (b"2,a\0b", 'field "text" holds a NUL character'),
        ]
    ),
    *(
        (name, bad, said)
        for name in ("x.parquet", HUB)
        for bad, said in [
            (None, 'field "text" is null, not text'),
            ("", 'field "text" is empty'),
            ("a\0b", 'field "text" holds a NUL character'),
        ]
    ),
]


@pytest.mark.parametrize(("name", "bad", "said"), BAD)
@BOTH_PATHS
def test_a_bad_record_is_named_or_counted(source_of, open_data, name, bad, said, cache):
    good = rows_of(name, "one", "three")
    source = source_of(name, [good[0], bad, good[1]])
    place = {".csv": ":3", ".tsv": ":3"}.get(Path(name).suffix, ":2")
    place = ", row 2" if name in (HUB, "x.parquet") else place
    with pytest.raises(UserError) as caught:
        texts_trained_on(open_data(source, cache=cache))
    assert f"{place}: {said}" in str(caught.value)
    assert Path(name).name in str(caught.value)

    data = open_data(source, cache=cache, on_bad_record="skip")
    assert texts_trained_on(data) == ["one", "three"]
    assert data.bad_records == {said: 1}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("on_bad_record", ["error", "skip"])
@BOTH_PATHS
def test_an_unknown_column_is_answered_with_those_there_are(
    source_of, open_data, name, on_bad_record, cache
):
    if ".txt" in name:
        return  # it has no columns
    source = source_of(name, rows_of(name, "one", "two"))
    columns = '"text"' if ".jsonl" in name else '"n", "text"|"text", "n"'
    with pytest.raises(UserError, match=rf'no field "body".* \(its fields: ({columns});'):
        texts_trained_on(
            open_data(source, text_field="body", cache=cache, on_bad_record=on_bad_record)
        )


@pytest.mark.parametrize("name", FORMATS)
@BOTH_PATHS
def test_a_corpus_without_a_document_is_an_error(source_of, open_data, name, cache):
    rows = [] if name in (HUB, "x.parquet") else [b"", b"  " if ".csv" not in name else b"", b""]
    rows = [] if name == "x.tsv" else rows
    source = source_of(name, rows)
    with pytest.raises(UserError, match=r"holds no document for train \(empty or blank\)"):
        texts_trained_on(open_data(source, cache=cache))


def damaged(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


@pytest.mark.parametrize("name", [f"x.jsonl{packed}" for packed in PACK] + ["x.parquet"])
@pytest.mark.parametrize("on_bad_record", ["error", "skip"])
@BOTH_PATHS
def test_the_shard_that_was_cut_off_is_named(tmp_path, open_data, name, on_bad_record, cache):
    for number in range(3):
        texts = [f"{n * 7919 % 10007} {n * number}" for n in range(300)]
        path = write(tmp_path / "corpus", f"{number}.{name[2:]}", rows_of(name, *texts))
        if number == 1:
            damaged(path)
    with pytest.raises(UserError, match=rf"/1\.{name[2:]} can't be read to its end"):
        texts_trained_on(
            open_data(str(tmp_path / "corpus"), cache=cache, on_bad_record=on_bad_record)
        )


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("stage", ["fit", "validate"])
@BOTH_PATHS
def test_a_split_of_no_block_is_an_error(tmp_path, open_data, split, stage, cache, bert_tokenizer):
    """A tokenizer without an end token makes one token of a letter, and no target."""
    bert_tokenizer.save(tmp_path / "bert.json")
    tokenizer = json.loads((tmp_path / "bert.json").read_text())
    tokenizer["added_tokens"] = []
    for token in ("[SEP]", "[CLS]"):
        del tokenizer["model"]["vocab"][token]
    (tmp_path / "bare.json").write_text(json.dumps(tokenizer))
    files = {"train": b"w1 w2 w3", "validation": b"w4 w5 w6", split: b"w1"}
    for name, content in files.items():
        write(tmp_path / "corpus", f"{name}.txt", [content])
    data = open_data(
        str(tmp_path / "corpus"), val_source=None, tokenizer=str(tmp_path / "bare.json"),
        cache=cache,
    )  # fmt: skip
    if (split, stage) == ("train", "validate"):
        return

    def use():
        data.prepare_data()
        data.setup(stage)
        return [*(data.train_dataloader() if stage == "fit" else ()), *data.val_dataloader()]

    with pytest.raises(UserError, match="nothing to predict"):
        use()


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("held_out", ["by hash", "of its own"])
@BOTH_PATHS
def test_skipped_records_are_counted_on_every_path_and_after_a_resume(
    tmp_path, open_data, num_workers, held_out, cache
):
    rows = [row for n in range(60) for row in (json_row(f"text {n}"), b'{"text": null}')]
    source = str(write(tmp_path / "corpus", "x.jsonl", rows))
    val_source = None
    if held_out == "of its own":
        val_source = str(write(tmp_path / "other", "x.jsonl", [*rows[:10], b'{"text": 1}']))

    def opened():
        data = open_data(
            source, cache=cache, val_source=val_source, on_bad_record="skip",
            num_workers=num_workers, split_share=0.3,
        )  # fmt: skip
        data.prepare_data()
        data.setup("fit")
        return data

    expected = {'field "text" is null, not text': 60}
    if val_source is not None:
        expected = {'field "text" is null, not text': 65, 'field "text" is int, not text': 1}
    data = opened()
    list(data.val_dataloader())
    for batch in data.train_dataloader():
        data.trained_on(batch)
    assert data.bad_records == expected

    other = opened()
    other.load_state_dict(data.state_dict())
    batches = iter(other.train_dataloader())
    other.trained_on(next(batches))
    list(other.val_dataloader())
    assert other.bad_records == expected


# ---- with labels


@pytest.fixture
def open_labelled(tmp_path, gpt_tokenizer):
    gpt_tokenizer.save(tmp_path / "tokenizer.json")

    def build(source, **options):
        return ClassificationDataModule(
            source, tokenizer=str(tmp_path / "tokenizer.json"),
            cache_dir=str(tmp_path / "cache"), max_len=16, batch_size=2, **options,
        )  # fmt: skip

    return build


def write_labelled(folder: Path, name: str, texts: list) -> Path:
    """Rows with a label; a text may be None."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    labels = [f"l{n % 2}" for n in range(len(texts))]
    if path.suffix == ".parquet":
        table = pyarrow.table({"text": pyarrow.array(texts, pyarrow.string()), "label": labels})
        pyarrow.parquet.write_table(table, path)
    elif ".csv" in name:
        lines = [f"{text or ''},{label}\n" for text, label in zip(texts, labels, strict=True)]
        path.write_text("text,label\n" + "".join(lines))
    else:
        rows = [{"text": text, "label": one} for text, one in zip(texts, labels, strict=True)]
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(PACK.get(path.suffix, bytes)(content))
    return path


LABELLED = ["x.jsonl", "x.csv", "x.parquet", "x.jsonl.gz"]
WORDS = [f"w{n} w{n + 1}" for n in range(40)]


@pytest.mark.parametrize("name", LABELLED)
def test_a_bad_example_is_named_or_counted(tmp_path, open_labelled, name):
    source = str(write_labelled(tmp_path / "set", name, [*WORDS, None]))
    with pytest.raises(UserError, match=r'x\..*(:41|:42|row 41): field "text" is (null|empty)'):
        open_labelled(source).setup("fit")
    data = open_labelled(source, on_bad_record="skip")
    data.setup("fit")
    assert sum(data.bad_records.values()) == 1
    assert sum(data.facts(split).n_examples for split in ("train", "validation")) == 40


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("option", ["text_field", "label_field", "pair_field"])
@pytest.mark.parametrize("on_bad_record", ["error", "skip"])
def test_an_unknown_column_of_examples_is_answered_with_those_there_are(
    tmp_path, open_labelled, name, option, on_bad_record
):
    source = str(write_labelled(tmp_path / "set", name, WORDS))
    data = open_labelled(source, on_bad_record=on_bad_record, **{option: "other"})
    with pytest.raises(
        UserError, match=rf'no field "other".*\(its fields: "text", "label"; {option} '
    ):
        data.setup("fit")


@pytest.mark.parametrize("name", LABELLED)
def test_an_empty_set_of_examples_is_an_error(tmp_path, open_labelled, name):
    source = str(write_labelled(tmp_path / "set", name, []))
    with pytest.raises(UserError, match="holds no document"):
        open_labelled(source).setup("fit")


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.parquet"])
def test_the_shard_of_examples_that_was_cut_off_is_named(tmp_path, open_labelled, name):
    for number in range(2):
        path = write_labelled(tmp_path / "set", f"{number}.{name[2:]}", WORDS)
    damaged(path)
    with pytest.raises(UserError, match=rf"/1\.{name[2:]} can't be read to its end"):
        open_labelled(str(tmp_path / "set"), on_bad_record="skip").setup("fit")
