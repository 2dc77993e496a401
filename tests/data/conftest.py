from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from pretrain.data.source import Document
from pretrain.data.tokenizer import Tokenizer

N_WORDS = 200


class ListSource:
    """A corpus held in lists: (split, text) in order."""

    note = None
    local_bytes = None
    n_cut = 0

    def __init__(self, documents: list[tuple[str, str]], name: str = "list") -> None:
        self.items, self.name = documents, name
        self.splits = ("train", "validation")
        self.fingerprint = repr((name, documents))
        self.bad_records: Counter[str] = Counter()

    def documents(self) -> Iterator[tuple[str, Document]]:
        for number, (split, text) in enumerate(self.items):
            yield split, Document(text, f"{self.name}:{number + 1}")

    def texts(self, split: str) -> Iterator[str]:
        for other, document in self.documents():
            if other == split:
                yield document.text


def word_tokenizer(specials: list[str]) -> Tokenizer:
    vocabulary = [*specials, *(f"w{i}" for i in range(N_WORDS))]
    backend = Backend(
        models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=specials[0])
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(specials)
    return Tokenizer(backend)


@pytest.fixture(scope="session")
def list_source() -> type[ListSource]:
    return ListSource


@pytest.fixture(scope="session")
def bert_tokenizer() -> Tokenizer:
    return word_tokenizer(["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"])


@pytest.fixture(scope="session")
def gpt_tokenizer() -> Tokenizer:
    return word_tokenizer(["<|endoftext|>"])


def text_of(words: list[int]) -> str:
    return " ".join(f"w{word}" for word in words)


@pytest.fixture(scope="session")
def numbered_source() -> ListSource:
    """20 training and 5 validation documents of 3 to 22 words, each opening with its number."""
    train = [("train", text_of([i] + [100 + i] * (2 + i))) for i in range(20)]
    validation = [("validation", text_of([50 + i] + [150 + i] * (2 + i))) for i in range(5)]
    return ListSource([*train[:10], *validation, *train[10:]], "numbered")
