import json

import pytest
import transformers
from tokenizers import processors

from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.interop.tokenizer_folder import (
    check_vocabulary,
    read_tokenizer,
    special_ids,
    write_tokenizer,
)

TEXTS = ["the cat sat on the mat", "The dog ran; a cat!"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Cat", "cat", "é", "e"]


def trained(kind, **options):
    return train_tokenizer(TEXTS, TokenizerRule(kind, vocab_size=270, **options))


def read_with(folder, **settings):
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return read_tokenizer(folder)


def test_a_bert_is_framed_and_told_segments(tmp_path):
    ours = trained("wordpiece")
    write_tokenizer(ours.to_json(), 16, True, tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    cls, sep = ours.cls_id, ours.sep_id
    first, second = ours.encode_prompt("the cat"), ours.encode_prompt("a dog")
    pair = theirs("the cat", "a dog")
    assert theirs("the cat")["input_ids"] == [cls, *first, sep]
    assert pair["input_ids"] == [cls, *first, sep, *second, sep]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert theirs.model_max_length == 16
    named = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(theirs, f"{role}_token_id") for role in named] == [
        getattr(ours, f"{role}_id") for role in named
    ]
    assert theirs.eos_token is None


@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_a_gpt_fills_with_its_end_token_and_has_no_segments(kind, tmp_path):
    ours = trained(kind)
    write_tokenizer(ours.to_json(), 16, False, tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.pad_token_id == theirs.bos_token_id == theirs.eos_token_id == ours.eos_id
    encoded = theirs(["the cat", "a"], padding=True)
    assert encoded.keys() == {"input_ids", "attention_mask"}
    assert encoded["attention_mask"][1][-1] == 0


def test_a_gpt_with_berts_tokenizer_goes_on_with_a_text_and_ends_with_sep(tmp_path):
    ours = trained("wordpiece")
    write_tokenizer(ours.to_json(), 16, False, tmp_path, writes=True)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs("the cat")["input_ids"] == ours.encode_prompt("the cat")
    assert theirs.bos_token_id == theirs.eos_token_id == ours.sep_id
    assert theirs.pad_token_id == ours.pad_id


def test_a_classifiers_texts_get_nothing_but_the_end_token_between_two(tmp_path):
    ours = trained("bpe")
    # What a published tokenizer may put around texts was not there in training.
    ours.backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A $B",
        special_tokens=[("<|endoftext|>", ours.eos_id)],
    )  # fmt: skip
    write_tokenizer(ours.to_json(), 16, False, tmp_path, classifies=True)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    first, second = ours.encode_prompt("the cat"), ours.encode_prompt("a dog")
    assert theirs("the cat")["input_ids"] == first
    assert theirs("the cat", "a dog")["input_ids"] == [*first, ours.eos_id, *second]


def test_a_tokenizer_without_an_end_token_has_no_roles_for_it(tmp_path):
    ours = trained("bpe", end_token=False)
    assert special_ids(ours) == {}
    write_tokenizer(ours.to_json(), 16, False, tmp_path)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path).eos_token is None


def test_saved_truncation_and_padding_stay_behind(tmp_path):
    ours = trained("wordpiece")
    ours.backend.enable_truncation(4)
    ours.backend.enable_padding(length=4)
    write_tokenizer(ours.backend.to_str(), 16, True, tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    assert content["truncation"] is content["padding"] is None


@pytest.mark.parametrize(("lowercase", "pieces"), [(True, ["cat"]), (False, ["Cat"])])
def test_a_word_list_is_read_as_its_settings_say(lowercase, pieces, tmp_path):
    text, _ = read_with(tmp_path, do_lower_case=lowercase, strip_accents=None)
    tokenizer = Tokenizer.from_json(text)
    assert [VOCABULARY[i] for i in tokenizer.encode_prompt("Cat")] == pieces


def test_a_word_list_is_lower_cased_where_nothing_is_said(tmp_path):
    tokenizer = Tokenizer.from_json(read_with(tmp_path)[0])
    assert [VOCABULARY[i] for i in tokenizer.encode_prompt("Cat é")] == ["cat", "e"]


@pytest.mark.parametrize("settings", [{"strip_accents": False}, {"tokenize_chinese_chars": False}])
def test_rules_that_our_word_lists_lack_are_refused_by_name(settings, tmp_path):
    with pytest.raises(UserError, match=next(iter(settings))):
        read_with(tmp_path, **settings)


def test_lengths_are_passed_on_and_nonsense_is_none(tmp_path):
    assert read_with(tmp_path, model_max_length=512)[1] == 512
    assert read_with(tmp_path, model_max_length=None)[1] is None
    assert read_tokenizer(tmp_path / "nowhere") == (None, None)


def test_more_tokens_than_embeddings_are_refused_with_both_numbers():
    text = trained("bpe").to_json()
    n_tokens = Tokenizer.from_json(text).vocab_size
    check_vocabulary(text, n_tokens, "x")
    with pytest.raises(UserError, match=f"{n_tokens} tokens, but the model {n_tokens - 1}"):
        check_vocabulary(text, n_tokens - 1, "x")
