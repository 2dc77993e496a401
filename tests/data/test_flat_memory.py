"""Memory does not grow with the corpus, on either data path."""

from __future__ import annotations

import gc
import gzip
import tracemalloc
from functools import partial

import pytest

from pretrain.data import pieces, token_cache
from pretrain.data.packing import CausalPacking
from pretrain.data.shards import StreamRules
from pretrain.data.source import Document, SourceOptions, TextSource
from pretrain.data.streaming import StreamLoader, TrainStream, start_of
from pretrain.data.token_cache import fill_cache


@pytest.fixture
def endless(list_source):
    """Makes a source of n documents that are written while they are read."""

    class Generated(list_source):
        def texts(self, split):
            # 29 lengths, so that each of the 4 shards gets all of them: the surplus of shards with
            # longer documents than others waits in memory, and would grow.
            return (f"w{i % 200} " * (20 + i % 29) for i in range(self.n_documents))

        def documents(self):
            for text in self.texts("train"):
                yield "train", Document(text, "")

    def build(n_documents):
        source = Generated([], f"{n_documents} documents")
        source.n_documents = n_documents
        return source

    return build


def peak_of(work) -> int:
    gc.collect()  # garbage of other tests is not this work's
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_of_a_cache_being_filled(endless, gpt_tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "BATCH_CHARACTERS", 10_000)
    tenth, whole = (
        peak_of(lambda n=n: fill_cache(tmp_path, endless(n), gpt_tokenizer)) for n in (400, 4000)
    )
    assert whole < 1.3 * tenth


def test_of_a_stream(endless, gpt_tokenizer):
    rules = StreamRules(CausalPacking(16, 0), 2, seed=1, n_shards=4, window_documents=8)

    def read(n_documents):
        stream = partial(TrainStream, endless(n_documents), gpt_tokenizer, rules, n_ranks=1, rank=0)
        loader = StreamLoader(stream, rules, n_workers=0, n_ranks=1, start=start_of(0, 4))
        assert sum(1 for _ in loader) > n_documents

    # The least of three: when the garbage collector runs is chance, growth is there every time.
    tenth, whole = (min(peak_of(lambda n=n: read(n)) for _ in range(3)) for n in (400, 4000))
    assert whole < 1.3 * tenth


@pytest.mark.parametrize(
    ("document", "word"), [("line", "w1 "), ("paragraph", "w1 w2\n"), ("file", "w1 w2\n\n")]
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_of_one_document_that_is_the_whole_corpus(
    tmp_path, gpt_tokenizer, monkeypatch, document, word, compress
):
    monkeypatch.setattr(pieces, "LONGEST", 10_000)
    monkeypatch.setattr(token_cache, "BATCH_CHARACTERS", 10_000)
    (tmp_path / "held_out.txt").write_text("w1 w2\n")
    name = "x.txt" if compress is bytes else "x.txt.gz"

    def fill(n_characters):
        path = tmp_path / str(n_characters) / name
        path.parent.mkdir()
        path.write_bytes(compress((word * (n_characters // len(word))).encode()))
        options = SourceOptions(document=document)
        source = TextSource(str(path), str(tmp_path / "held_out.txt"), options)
        peak = peak_of(lambda: fill_cache(tmp_path / "cache", source, gpt_tokenizer))
        assert source.n_cut == 1
        return peak

    tenth, whole = fill(100_000), fill(1_000_000)
    assert whole < 1.3 * tenth
