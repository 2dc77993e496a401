import logging
import random
import subprocess
import sys
import time

import pytest

from pretrain.data.source import SourceOptions, TextSource
from pretrain.data.tokenizer_training import TokenizerRule, resolve_tokenizer, train_tokenizer
from pretrain.errors import UserError

TEXTS = [
    " ".join(
        random.Random(n).choices(["learn", "learned", "learning", "deep", "deeper", "Net"], k=9)
    )
    for n in range(50)
]


def vocabulary(tokenizer):
    return tokenizer.backend.get_vocab(with_added_tokens=True)


def test_wordpiece_learns_words_in_lower_case_unless_told_otherwise():
    lower = vocabulary(train_tokenizer(TEXTS, TokenizerRule("wordpiece", 60)))
    assert {"learn", "deep", "net", "##ed"} <= lower.keys()
    assert "Net" in vocabulary(train_tokenizer(TEXTS, TokenizerRule("wordpiece", 60, False)))
    assert [lower[name] for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [*range(5)]


def test_every_byte_is_in_a_byte_level_vocabulary_with_or_without_an_end():
    with_end = train_tokenizer(TEXTS, TokenizerRule("bpe", 300))
    without = train_tokenizer(TEXTS, TokenizerRule("bpe", 300, end_token=False))
    assert sum(len(token) == 1 for token in vocabulary(with_end)) == 256
    assert with_end.end_id == 0
    assert without.end_id is None
    assert without.special_ids == ()


def test_characters_are_all_that_occur_and_nothing_else():
    tokenizer = train_tokenizer(["ab\n", "中 b"], TokenizerRule("char", vocab_size=3))
    assert set(vocabulary(tokenizer)) == {"<unk>", "<|endoftext|>", "a", "b", "\n", "中", " "}
    plain = train_tokenizer(["ab"], TokenizerRule("char", end_token=False))
    assert set(vocabulary(plain)) == {"<unk>", "a", "b"}


def test_training_is_the_same_in_every_process():
    # Hash tables are seeded anew in each process.
    texts = [*TEXTS, "a1 b2 c3 é中文 zyx wvu tsr qpo nml kji hgf edc"]
    rules = [TokenizerRule(kind, 300) for kind in ("wordpiece", "bpe", "char")]
    code = (
        "from pretrain.data.tokenizer_training import *\n"
        f"for rule in {rules!r}: print(train_tokenizer({texts!r}, rule).fingerprint)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.split() == [train_tokenizer(texts, rule).fingerprint for rule in rules]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_a_small_corpus_gives_a_smaller_vocabulary_and_says_so(kind, caplog):
    with caplog.at_level(logging.WARNING):
        tokenizer = train_tokenizer(["ten words are not enough"], TokenizerRule(kind, 5000))
    assert tokenizer.vocab_size < 5000
    assert f"a vocabulary of {tokenizer.vocab_size} tokens" in caplog.text
    assert "5000" in caplog.text


def test_more_characters_than_the_vocabulary_holds_leave_the_rarest_unknown():
    common, rare = "abcdefgh", "".join(map(chr, range(0x4E00, 0x4E00 + 100)))
    texts = [common, " ".join(common)] * 10 + [rare]
    tokenizer = train_tokenizer(texts, TokenizerRule("wordpiece", 60))
    assert tokenizer.vocab_size <= 60
    assert set(common) <= vocabulary(tokenizer).keys()
    assert any(character in vocabulary(tokenizer) for character in rare)
    again = train_tokenizer(iter(texts), TokenizerRule("wordpiece", 60))
    assert again.fingerprint == tokenizer.fingerprint


def test_chinese_text_gives_a_vocabulary_of_characters():
    text = "道可道非常道名可名非常名"
    tokenizer = train_tokenizer([text], TokenizerRule("wordpiece", 30))
    pieces = [tokenizer.backend.id_to_token(index) for index in tokenizer.encode_prompt(text)]
    assert pieces == list(text)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "char"])
def test_no_text_is_an_error(kind):
    with pytest.raises(UserError, match="no text to train"):
        train_tokenizer([], TokenizerRule(kind, 300))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "unigram"}, "wordpiece, bpe, char"),
        ({"kind": "bpe", "vocab_size": 256}, "at least 257"),
        ({"kind": "wordpiece", "vocab_size": 5}, "at least 7"),
    ],
)
def test_a_rule_that_can_not_be_followed_is_refused(options, said):
    with pytest.raises(UserError, match=said):
        TokenizerRule(**options)


def test_a_trained_tokenizer_knows_the_train_split_only_and_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    path.write_text("aaaa\nbbbb\ncccc\nzzzz\n")
    source = TextSource(str(path), options=SourceOptions(split="tail", split_share=0.25))
    rule = TokenizerRule("char")
    tokenizer = resolve_tokenizer(rule, source, tmp_path)
    assert "c" in vocabulary(tokenizer)
    assert "z" not in vocabulary(tokenizer)

    monkeypatch.setattr(TextSource, "texts", None)  # it is not read again
    assert resolve_tokenizer(rule, source, tmp_path).fingerprint == tokenizer.fingerprint
    assert resolve_tokenizer(str(next((tmp_path / "tokenizers").iterdir())), source, tmp_path)
    with pytest.raises(TypeError):
        resolve_tokenizer(TokenizerRule("char", end_token=False), source, tmp_path)


def test_a_bad_record_stops_the_training_with_its_own_message(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n{"text": null}\n')
    source = TextSource(str(path), str(path))
    for kind in ("wordpiece", "bpe", "char"):
        with pytest.raises(UserError, match=r"x\.jsonl:2: field"):
            resolve_tokenizer(TokenizerRule(kind, 300), source, tmp_path)


def test_a_document_of_a_million_characters_is_tokenized_in_linear_time():
    text = "".join(random.Random(0).choices("abcdefg \n", k=1_100_000))
    tokenizer = train_tokenizer([text], TokenizerRule("char"))
    start = time.perf_counter()
    (ids,) = tokenizer.encode_documents([text])
    assert len(ids) == len(text)
    assert time.perf_counter() - start < 3
