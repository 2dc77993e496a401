from __future__ import annotations

import pytest

from pretrain.data import pieces
from pretrain.data.prepared import MAX_CACHED_BYTES, JoinedSource, PreparedCorpus
from pretrain.data.source import SourceOptions
from pretrain.errors import UserError


@pytest.fixture
def open_corpus(tmp_path, gpt_tokenizer):
    gpt_tokenizer.save(tmp_path / "tokenizer.json")

    def build(source, val_source=None, cache=None):
        corpus = PreparedCorpus.open(
            source,
            val_source,
            SourceOptions(),
            tokenizer=str(tmp_path / "tokenizer.json"),
            cache=cache,
            cache_dir=tmp_path / "cache",
        )
        corpus.fill()
        return corpus

    return build


def text_file(path, first, n_lines):
    path.write_text("".join(f"w{first + i} w1 w2\n" for i in range(n_lines)))
    return str(path)


def test_local_files_are_cached_up_to_a_size(tmp_path, open_corpus, monkeypatch):
    source, held_out = text_file(tmp_path / "a.txt", 0, 9), text_file(tmp_path / "b.txt", 0, 3)
    assert open_corpus(source, held_out).uses_cache
    assert not open_corpus(source, held_out, cache=False).uses_cache
    monkeypatch.setattr(
        "pretrain.data.source.TextSource.local_bytes", property(lambda _: int(MAX_CACHED_BYTES) + 1)
    )
    assert not open_corpus(source, held_out).uses_cache
    assert open_corpus(source, held_out, cache=True).uses_cache


def test_text_of_elsewhere_is_streamed(tmp_path, open_corpus, monkeypatch):
    source, held_out = text_file(tmp_path / "a.txt", 0, 9), text_file(tmp_path / "b.txt", 0, 3)
    monkeypatch.setattr("pretrain.data.source.TextSource.local_bytes", property(lambda _: None))
    corpus = open_corpus(source, held_out)
    assert not corpus.uses_cache
    assert corpus.streams("train") == []
    assert any("streamed" in note for note in corpus.notes)


def test_a_shared_validation_text_counts_once(tmp_path, open_corpus):
    one, two = text_file(tmp_path / "a.txt", 0, 9), text_file(tmp_path / "b.txt", 20, 5)
    held_out = text_file(tmp_path / "c.txt", 40, 3)
    corpus = open_corpus({one: 1.0, two: 1.0}, held_out)
    assert [stream.n_documents for stream in corpus.streams("train")] == [9, 5]
    assert [stream.n_documents for stream in corpus.streams("validation")] == [3]


def test_skipped_records_are_told(tmp_path, gpt_tokenizer):
    gpt_tokenizer.save(tmp_path / "tokenizer.json")
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "w1 w2"}\n{"text": null}\n{"text": "w3"}\n')
    corpus = PreparedCorpus.open(
        str(source),
        text_file(tmp_path / "b.txt", 0, 3),
        SourceOptions(on_bad_record="skip"),
        tokenizer=str(tmp_path / "tokenizer.json"),
        cache=True,
        cache_dir=tmp_path / "cache",
    )
    corpus.fill()
    assert any("1 records skipped" in note for note in corpus.notes)


def test_sources_are_joined_for_the_tokenizer(list_source):
    one, two = list_source([("train", "w1")], "one"), list_source([("train", "w2")], "two")
    joined = JoinedSource([one, two])
    assert list(joined.texts("train")) == ["w1", "w2"]
    assert joined.fingerprint != JoinedSource([two, one]).fingerprint
    assert joined.local_bytes is None


def test_weights_are_checked_before_anything_is_read(open_corpus):
    with pytest.raises(UserError, match="weight"):
        open_corpus({"/nowhere.txt": -1.0})


def test_documents_that_were_cut_are_told(tmp_path, open_corpus, monkeypatch):
    monkeypatch.setattr(pieces, "LONGEST", 12)
    source = tmp_path / "a.txt"
    source.write_text("w1 w2 w3 w4 w5 w6 w7\nw1\n")
    corpus = open_corpus(str(source), text_file(tmp_path / "b.txt", 0, 3))
    assert any(
        "1 documents of more than 12 characters were cut into" in note for note in corpus.notes
    )
    assert corpus.streams("train")[0].n_documents == 3
    other = open_corpus(text_file(tmp_path / "c.txt", 0, 3), str(tmp_path / "b.txt"))
    assert not any("cut into pieces" in note for note in other.notes)
