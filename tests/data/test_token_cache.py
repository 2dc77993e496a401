import json
import pickle
import threading

import numpy as np
import pytest

from pretrain.data import token_cache
from pretrain.data.token_cache import TokenStream, cache_folder, fill_cache, read_meta
from pretrain.errors import UserError


def documents_of(stream: TokenStream) -> list[list[int]]:
    return [part.tolist() for part in np.split(stream.ids, stream.borders)[:-1]]


def expected(source, tokenizer, split) -> list[list[int]]:
    texts = [document.text for other, document in source.documents() if other == split]
    return [[*ids, tokenizer.end_id] for ids in tokenizer.encode_documents(texts)]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_holds_every_document_with_its_end_and_its_bytes(
    tmp_path, numbered_source, gpt_tokenizer, split
):
    stream = TokenStream(fill_cache(tmp_path, numbered_source, gpt_tokenizer), split)
    assert documents_of(stream) == expected(numbered_source, gpt_tokenizer, split)
    texts = [d.text for s, d in numbered_source.documents() if s == split]
    assert np.diff(stream.byte_ends, prepend=0).tolist() == [len(t.encode()) for t in texts]
    assert stream.ids.dtype == np.uint16


def test_a_stream_survives_the_way_to_a_worker(tmp_path, numbered_source, gpt_tokenizer):
    stream = TokenStream(fill_cache(tmp_path, numbered_source, gpt_tokenizer), "train")
    stream.ids  # noqa: B018 (opened, which must not travel)
    sent = pickle.dumps(stream)
    assert len(sent) < 1000
    assert np.array_equal(pickle.loads(sent).ids, stream.ids)


def test_bytes_are_spread_evenly_over_the_tokens_of_a_document(tmp_path, list_source):
    class Letters:
        fingerprint, vocab_size, end_id = "letters", 128, 0

        def encode_documents(self, texts):
            return [np.array(list(text.encode()), dtype=np.int32) for text in texts]

    source = list_source([("train", "abc"), ("train", "wxyz")])
    stream = TokenStream(fill_cache(tmp_path, source, Letters()), "train")
    shares = np.diff(stream.bytes_before(np.arange(stream.n_tokens + 1)))
    assert shares == pytest.approx([3 / 4] * 4 + [4 / 5] * 5)


def test_a_killed_fill_goes_on_where_it_stopped(
    tmp_path, monkeypatch, numbered_source, gpt_tokenizer
):
    monkeypatch.setattr(token_cache, "BATCH_CHARACTERS", 100)
    monkeypatch.setattr(token_cache, "BATCHES_PER_RECORD", 2)
    encoded = []

    class Dying:
        fingerprint, vocab_size = gpt_tokenizer.fingerprint, gpt_tokenizer.vocab_size
        end_id = gpt_tokenizer.end_id

        def encode_documents(self, texts):
            if len(encoded) > 12:
                raise KeyboardInterrupt
            encoded.extend(texts)
            return gpt_tokenizer.encode_documents(texts)

    with pytest.raises(KeyboardInterrupt):
        fill_cache(tmp_path, numbered_source, Dying())
    folder = cache_folder(tmp_path, numbered_source, gpt_tokenizer)
    assert not folder.exists()
    partial = folder.with_name(folder.name + ".partial")
    recorded = json.loads((partial / "progress.json").read_text())
    n_kept = sum(count["n_documents"] for count in recorded.values())
    assert 0 < n_kept < 25
    with (partial / "train.ids").open("ab") as file:
        file.write(b"half a token batch")  # what a kill leaves behind the record

    encoded.clear()
    monkeypatch.setattr(token_cache, "BATCH_CHARACTERS", 1_000_000)
    fill_cache(tmp_path, numbered_source, Dying())
    assert len(encoded) == 25 - n_kept
    for split in ("train", "validation"):
        stream = TokenStream(folder, split)
        assert documents_of(stream) == expected(numbered_source, gpt_tokenizer, split)
    assert not partial.exists()


def test_is_filled_once_even_by_two_at_a_time(tmp_path, numbered_source, gpt_tokenizer):
    passes = []

    class Counted(type(numbered_source)):
        def documents(self):
            passes.append(1)
            return super().documents()

    source = Counted(numbered_source.items, numbered_source.name)
    threads = [
        threading.Thread(target=fill_cache, args=(tmp_path, source, gpt_tokenizer))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passes) == 1


def test_another_tokenizer_or_source_has_another_folder(
    tmp_path, numbered_source, list_source, gpt_tokenizer, bert_tokenizer
):
    other = list_source([("train", "w1")])
    folders = {
        cache_folder(tmp_path, source, tokenizer)
        for source in (numbered_source, other)
        for tokenizer in (gpt_tokenizer, bert_tokenizer)
    }
    assert len(folders) == 4


def test_skipped_records_are_kept_on_file(tmp_path, list_source, gpt_tokenizer):
    source = list_source([("train", "w1 w2")])
    source.bad_records["no text"] = 3
    folder = fill_cache(tmp_path, source, gpt_tokenizer)
    assert read_meta(folder)["bad_records"] == {"no text": 3}


def test_a_folder_that_cannot_be_written_is_named(tmp_path, numbered_source, gpt_tokenizer):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match=f"{blocked}.*cache_dir"):
        fill_cache(blocked, numbered_source, gpt_tokenizer)


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, numbered_source, gpt_tokenizer):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(token_cache.os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        fill_cache(tmp_path, numbered_source, gpt_tokenizer)
