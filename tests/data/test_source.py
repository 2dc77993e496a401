import os
import pickle
from pathlib import Path

import pytest

from pretrain.data.source import SourceOptions, TextSource
from pretrain.errors import UserError


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"document {n}\n" for n in range(200)))
    return path


def test_documents_come_in_one_order_as_often_as_asked(corpus):
    source = TextSource(str(corpus))
    once = list(source.documents())
    assert once == list(source.documents())
    assert [document.text for _, document in once] == corpus.read_text().splitlines()
    for split in source.splits:
        assert list(source.texts(split)) == [found.text for side, found in once if side == split]


def test_a_document_stays_on_its_side_when_the_corpus_grows(corpus):
    before = {document.text: side for side, document in TextSource(str(corpus)).documents()}
    corpus.write_text("new first\n" + corpus.read_text() + "new last\n")
    after = {document.text: side for side, document in TextSource(str(corpus)).documents()}
    assert before.items() <= after.items()


def test_a_corpus_too_small_for_the_hash_is_told_what_to_do(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("only one\n")
    with pytest.raises(UserError, match=r"too small.*split=tail.*val_source"):
        list(TextSource(str(path)).documents())
    path.write_text("x\n")
    with pytest.raises(UserError, match=r"tail split of 0.05, which leaves no document for train"):
        list(TextSource(str(path), options=SourceOptions(split="tail")).documents())


@pytest.mark.parametrize("content", ["", "\n \n\r\n"])
@pytest.mark.parametrize("name", ["x.txt", "x.jsonl"])
def test_an_empty_source_is_an_error_that_says_so(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    for split in ("hash", "tail"):
        source = TextSource(str(path), options=SourceOptions(split=split))
        with pytest.raises(UserError, match=rf"{name} holds no document .*empty"):
            list(source.documents())


def test_a_source_of_bad_records_only_says_what_they_were(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"txt": "a"}\n{"txt": "b"}\n')
    source = TextSource(str(path), options=SourceOptions(on_bad_record="skip"))
    with pytest.raises(UserError, match=r'no document .*no field "text": 2'):
        list(source.documents())
    assert source.bad_records == {'no field "text"': 2}


def test_counts_of_bad_records_are_those_of_one_pass(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n{"text": null}\n{"text": "bcd"}\n')
    options = SourceOptions(split="tail", split_share=0.5, on_bad_record="skip")
    source = TextSource(str(path), options=options)
    for _ in range(2):
        assert len(list(source.documents())) == 3  # one of them is cut
        assert source.bad_records.total() == 1


def test_validation_text_of_its_own_leaves_the_source_whole(corpus, tmp_path):
    held_out = tmp_path / "other.jsonl"
    held_out.write_text('{"text": "v"}\n')
    source = TextSource(str(corpus), str(held_out))
    assert len(list(source.texts("train"))) == 200
    assert list(source.texts("validation")) == ["v"]
    assert source.local_bytes == corpus.stat().st_size + held_out.stat().st_size


def test_validation_text_in_a_named_folder_is_its_validation_part(corpus, tmp_path):
    folder = tmp_path / "named"
    folder.mkdir()
    (folder / "train.txt").write_text("seen in training\n")
    (folder / "dev.txt").write_text("v\n")
    assert list(TextSource(str(corpus), str(folder)).texts("validation")) == ["v"]


def test_the_fingerprint_changes_with_all_that_decides_the_documents(corpus, tmp_path):
    def fingerprint(**options):
        return TextSource(str(corpus), options=SourceOptions(**options)).fingerprint

    seen = {fingerprint()}
    assert fingerprint() in seen
    for options in (
        {"text_field": "body"},
        {"document": "file"},
        {"split": "tail"},
        {"split_share": 0.1},
        {"on_bad_record": "skip"},
    ):
        assert fingerprint(**options) not in seen
        seen.add(fingerprint(**options))
    seen.add(TextSource(str(corpus), str(corpus)).fingerprint)
    os.utime(corpus, (1, 1))
    assert fingerprint() not in seen
    assert len(seen) == 7


def test_a_source_travels_to_another_process(corpus):
    source = TextSource(str(corpus))
    assert list(pickle.loads(pickle.dumps(source)).documents()) == list(source.documents())


def test_reading_is_lazy(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"a\n" * 100_000 + b"\0\n")
    first = next(TextSource(str(path)).documents())
    assert first[1].text == "a"


def test_the_tail_of_the_shakespeare_file_is_the_published_one():
    data = os.environ.get("PRETRAIN_TEST_DATA")
    if not data:
        pytest.skip("PRETRAIN_TEST_DATA is not set")
    source = TextSource(
        str(Path(data) / "tinyshakespeare" / "input.txt"),
        options=SourceOptions(document="file", split="tail", split_share=0.1),
    )
    (train,), (validation,) = source.texts("train"), source.texts("validation")
    assert (len(train), len(validation)) == (1_003_854, 111_540)
