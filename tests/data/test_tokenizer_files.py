import json
import os
from pathlib import Path

import pytest

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError

AWKWARD = [
    "Hello, world! It's a naïve café's résumé — isn't it?",
    "  two  spaces, a\ttab\nand lines\r\n\n",
    "中文和English混合，日本語の漢字、한국어。",
    "emoji \U0001f600\U0001f469\u200d\U0001f469 and symbols ∑ ≠ ½ ™",
    "zero\u200bwidth, soft\u00adhyphen, nbsp\u00a0here, \u2028 line separator, \ufeff mark",
    "combining e\u0301 against é; Straße; İstanbul; ﬁne ligature",
    "1234567890 3.14 1,000 0x1F http://a.b/c?d=e&f#g",
    "supercalifragilisticexpialidocious " + "x" * 150,
    "don't [brackets] {braces} <tags> | pipes || `code`",
    "Ünïcödé ÀÉÎÕÜ ß œ Æ ǅ ﷺ",
    "",
]


@pytest.fixture(scope="module")
def folder():
    if not os.environ.get("PRETRAIN_TEST_DATA"):
        pytest.skip("PRETRAIN_TEST_DATA is not set")
    return Path(os.environ["PRETRAIN_TEST_DATA"]) / "tokenizers"


def ids_of(tokenizer):
    return [ids.tolist() for ids in tokenizer.encode_documents(AWKWARD)]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("language", ["uncased", "chinese"])
def test_a_bert_vocabulary_gives_the_ids_of_berts_own_python_code(folder, language, lowercase):
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    path = folder / f"bert-base-{language}-vocab.txt"
    peer = BertTokenizerLegacy(str(path), do_lower_case=lowercase)
    ours = Tokenizer.load(path, lowercase=lowercase)
    expected = [peer.convert_tokens_to_ids(peer.tokenize(text)) for text in AWKWARD]
    assert ids_of(ours) == expected
    assert ours.vocab_size == len(path.read_text().split("\n")) - 1
    assert [ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id] == [
        peer.pad_token_id,
        peer.unk_token_id,
        peer.cls_token_id,
        peer.sep_token_id,
        peer.mask_token_id,
    ]


def test_a_tokenizer_json_that_says_to_cut_does_not_cut(folder):
    from transformers import PreTrainedTokenizerFast

    path = folder / "bert-base-uncased-tokenizer.json"
    assert json.loads(path.read_text())["truncation"]["max_length"] == 128
    peer = PreTrainedTokenizerFast(tokenizer_file=str(path))
    ours = Tokenizer.load(path)
    assert ids_of(ours) == [peer(text, add_special_tokens=False).input_ids for text in AWKWARD]
    assert len(ours.encode_documents(["word " * 1000])[0]) == 1000
    assert ids_of(ours) == ids_of(Tokenizer.load(folder / "bert-base-uncased-vocab.txt"))


def test_gpt2s_vocabulary_and_merges_give_its_ids_and_lose_nothing(folder):
    from transformers import GPT2Tokenizer

    vocabulary, merges = folder / "gpt2-vocab.json", folder / "gpt2-merges.txt"
    peer = GPT2Tokenizer(str(vocabulary), str(merges))
    ours = Tokenizer.load(vocabulary)
    assert ids_of(ours) == [peer(text).input_ids for text in AWKWARD]
    assert [ours.decode(ids) for ids in ids_of(ours)] == AWKWARD
    assert ours.vocab_size == 50257
    assert ours.end_id == ours.eos_id == 50256
    assert ours.encode_prompt("a<|endoftext|>b")[1] == 50256


def test_chinese_characters_stand_alone_in_a_wordpiece(folder):
    ours = Tokenizer.load(folder / "bert-base-chinese-vocab.txt")
    text = "道可道非常道"
    assert [ours.backend.id_to_token(i) for i in ours.encode_prompt(text)] == list(text)


def test_a_folder_is_read_by_the_usual_names(folder, tmp_path):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((folder / f"gpt2-{name}").read_bytes())
    assert Tokenizer.load(tmp_path).vocab_size == 50257


def test_a_vocabulary_may_hold_line_separators_and_crlf(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\r\n[UNK]\r\n\u2028\r\na\r\n".encode())
    assert Tokenizer.load(path).encode_prompt("a b") == [3, 1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer.json", '{"model": {"type": "Nonsense"}}', "can't be read as a tokenizer"),
        ("tokenizer.json", '{"model": ', "can't be read as a tokenizer"),
        ("tokenizer.json", '["a"]', "neither a tokenizer.json nor a vocabulary"),
        ("vocab.json", '{"a": 0}', r"merges.txt must stand beside"),
        ("vocab.txt", "a\nb\n", "no line .UNK."),
        ("vocab.txt", b"\xff\xfe", "can't be read as a tokenizer"),
        ("spiece.model", "", "holds no tokenizer.json"),
    ],
)
def test_what_is_no_tokenizer_is_one_sentence(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=said):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.json: there is no such tokenizer"):
        Tokenizer.load(tmp_path / "none.json")


def test_a_text_in_the_place_of_a_path_is_one_sentence():
    with pytest.raises(UserError, match="there is no such tokenizer") as refused:
        Tokenizer.load("a text " * 1000)
    assert len(str(refused.value)) < 300
