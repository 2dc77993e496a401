import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Backend

from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError

WORDS = "Hello world! The test of a [SEP] and [MASK], or <|endoftext|>; naïve 中文 \U0001f600."
TEXTS = [f"{WORDS} Line {n}\n\tand more" for n in range(20)]


@pytest.fixture(scope="module", params=["wordpiece", "bpe", "char"])
def trained(request):
    return train_tokenizer(TEXTS, TokenizerRule(request.param, vocab_size=400))


def test_a_corpus_can_not_forge_special_tokens(trained):
    texts = ["hello [SEP] world [MASK] test", "a <|endoftext|> b", "<unk> [PAD] [CLS] [UNK]"]
    for ids in trained.encode_documents(texts):
        forged = set(trained.special_ids) - {trained.unk_id}
        assert not forged & set(ids.tolist())
        assert len(ids) > 5


def test_a_prompt_may_hold_special_tokens_and_gets_no_others(trained):
    special = trained.mask_id if trained.mask_id is not None else trained.eos_id
    name = trained.backend.id_to_token(special)
    ids = trained.encode_prompt(f"hello {name} world")
    assert [index for index in ids if index in trained.special_ids] == [special]


def test_documents_come_as_int32_without_frame_or_filler(trained):
    encoded = trained.encode_documents(["hello", "", "hello world"])
    assert [ids.dtype for ids in encoded] == [np.int32] * 3
    assert len(encoded[1]) == 0
    np.testing.assert_array_equal(encoded[2][: len(encoded[0])], encoded[0])
    assert trained.encode_documents([]) == []


def test_the_end_of_a_document_is_sep_for_bert_and_end_of_text_else(trained):
    if trained.cls_id is not None:
        assert (trained.end_id, trained.eos_id) == (trained.sep_id, None)
        assert trained.special_ids == (0, 1, 2, 3, 4)
        assert (trained.pad_id, trained.unk_id, trained.mask_id) == (0, 1, 4)
    else:
        assert trained.end_id == trained.eos_id == trained.backend.token_to_id("<|endoftext|>")
        assert trained.pad_id is None


def test_json_file_and_pickle_bring_back_the_same_tokenizer(trained, tmp_path):
    trained.save(tmp_path / "tokenizer.json")
    copies = [
        Tokenizer.from_json(trained.to_json()),
        Tokenizer.load(tmp_path / "tokenizer.json"),
        Tokenizer.load(tmp_path),
        pickle.loads(pickle.dumps(trained)),
    ]
    for copy in copies:
        assert copy.fingerprint == trained.fingerprint
        assert copy.special_ids == trained.special_ids
        np.testing.assert_array_equal(
            copy.encode_documents([WORDS])[0], trained.encode_documents([WORDS])[0]
        )


def test_bytes_and_characters_decode_without_loss():
    texts = [*TEXTS, "  two  spaces ", "\r\n", "naïve <|endoftext|>"]
    for kind in ("bpe", "char"):
        tokenizer = train_tokenizer(texts, TokenizerRule(kind, vocab_size=400))
        for text, ids in zip(texts, tokenizer.encode_documents(texts), strict=True):
            assert tokenizer.decode(ids) == text


def test_a_byte_level_tokenizer_knows_every_text():
    tokenizer = train_tokenizer(["only ascii"], TokenizerRule("bpe", vocab_size=300))
    text = "中文 \U0001f600 \u2028 é"
    assert tokenizer.unk_id is None
    assert tokenizer.decode(tokenizer.encode_documents([text])[0]) == text


def test_an_unknown_character_is_one_unknown_token():
    tokenizer = train_tokenizer(["abc"], TokenizerRule("char"))
    assert tokenizer.encode_documents(["a中文b"])[0].tolist() == [
        tokenizer.backend.token_to_id("a"),
        tokenizer.unk_id,
        tokenizer.unk_id,
        tokenizer.backend.token_to_id("b"),
    ]


def test_truncation_and_padding_of_a_file_are_never_applied():
    backend = Backend(models.WordLevel({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]"))
    backend.enable_truncation(3)
    backend.enable_padding(length=8)
    tokenizer = Tokenizer.from_json(backend.to_str())
    assert len(tokenizer.encode_documents(["one"])[0]) == 1
    content = json.loads(tokenizer.to_json())
    assert content["truncation"] is None
    assert content["padding"] is None


def test_the_vocabulary_size_follows_from_the_largest_id_with_added_tokens():
    backend = Backend(models.WordLevel({"<unk>": 0, "a": 7}, unk_token="<unk>"))
    backend.add_tokens(["plain"])
    backend.add_special_tokens([AddedToken("<extra>", special=True)])
    tokenizer = Tokenizer(backend)
    largest = max(backend.token_to_id(token) for token in ("a", "plain", "<extra>"))
    assert tokenizer.vocab_size == largest + 1
    assert tokenizer.special_ids == (0, backend.token_to_id("<extra>"))
    assert tokenizer.end_id is None


@pytest.mark.parametrize(
    ("tokens", "role", "name"),
    [
        (["<pad>", "</s>", "<unk>"], "eos_id", "</s>"),
        (["<eos>", "<unk>"], "eos_id", "<eos>"),
        (["<|end_of_text|>", "<unk>"], "eos_id", "<|end_of_text|>"),
        (["<pad>", "<mask>", "<unk>"], "mask_id", "<mask>"),
        (["<pad>", "<unk>"], "pad_id", "<pad>"),
    ],
)
def test_roles_are_found_by_the_usual_names(tokens, role, name):
    backend = Backend(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    backend.add_special_tokens([AddedToken(token, special=True) for token in tokens])
    assert getattr(Tokenizer(backend), role) == backend.token_to_id(name)


def test_threads_that_encode_corpora_and_prompts_do_not_disturb_each_other(trained):
    def both(number):
        text = f"a [MASK] <|endoftext|> {number}"
        return trained.encode_prompt(text), trained.encode_documents([text])[0].tolist()

    alone = [both(number) for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(both, range(200))) == alone


def test_a_tokenizer_without_its_unknown_token_says_so(bert_tokenizer):
    content = json.loads(bert_tokenizer.to_json())
    content["model"]["unk_token"] = "[GONE]"
    lacking = Tokenizer.from_json(json.dumps(content))
    for read in (lacking.encode_prompt, lambda text: lacking.encode_documents([text])):
        with pytest.raises(UserError, match="can't read every text"):
            read("w1 never seen")
    with pytest.raises(UserError, match="damaged"):
        Tokenizer.from_json(bert_tokenizer.to_json()[:-9])
