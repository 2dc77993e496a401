import itertools

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from pretrain.data.tokenizer import Tokenizer
from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.tasks.continuation import Continuation, Pen, encode_prompt


def write(pen, prompt, ids):
    """The row after each of ``ids``."""
    row, rows = Continuation(tuple(prompt)), []
    for token in ids:
        row = pen.add(row, token)
        rows.append(row)
    return rows


def test_a_character_of_several_tokens_appears_when_it_is_complete():
    tokenizer = train_tokenizer(["ab"], TokenizerRule("bpe", 260))
    ids = tokenizer.encode_prompt("a€b")
    assert len(ids) == 5
    rows = write(Pen(tokenizer), tokenizer.encode_prompt("b"), ids)
    assert [row.text for row in rows] == ["a", "a", "a", "a€", "a€b"]


def test_a_prompt_that_ends_inside_a_character_is_completed():
    tokenizer = train_tokenizer(["ab"], TokenizerRule("bpe", 260))
    ids = tokenizer.encode_prompt("b€a")
    assert [row.text for row in write(Pen(tokenizer), ids[:2], ids[2:])] == ["", "€", "€a"]


def test_the_space_between_prompt_and_text_is_kept():
    vocabulary = {"[UNK]": 0, "the": 1, "cat": 2, "##s": 3}
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    assert write(Pen(Tokenizer(backend)), [1], [2, 3])[-1].text == " cats"


def test_a_reader_does_not_see_what_may_become_a_stop_string():
    tokenizer = train_tokenizer(["abc\nd"], TokenizerRule("char"))
    pen = Pen(tokenizer, stop=("\n\n", "bcd"))
    text = "ab\na\nbcab\n\nd"
    rows = write(pen, [3], tokenizer.encode_prompt(text)[:-1])
    seen = [pen.settled(row) for row in rows]
    assert seen[:9] == ["a", "a", "ab", "ab\na", "ab\na", "ab\na\n", "ab\na\n", "ab\na\nbca",
                        "ab\na\nbca"]  # fmt: skip
    assert rows[-1].text == seen[-1] == "ab\na\nbcab"
    assert rows[-1].ended
    for before, after in itertools.pairwise(seen):
        assert after.startswith(before)


def test_an_empty_prompt_is_where_a_document_begins():
    tokenizer = train_tokenizer(["abc"], TokenizerRule("char"))
    assert encode_prompt(tokenizer, "") == [tokenizer.end_id]
    assert encode_prompt(tokenizer, "ab") == tokenizer.encode_prompt("ab")
    endless = train_tokenizer(["abc"], TokenizerRule("char", end_token=False))
    assert encode_prompt(endless, "") == [0]


def test_a_prompt_begins_with_the_token_that_the_tokenizer_begins_texts_with():
    backend = Backend(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2}, unk_token="a"))
    assert encode_prompt(Tokenizer(backend), "a") == [2]  # an ordinary piece of text with markup
    backend.add_special_tokens(["<s>", "</s>"])
    tokenizer = Tokenizer(backend)
    assert encode_prompt(tokenizer, "a") == [0, 2]
    assert encode_prompt(tokenizer, "<s>a") == [0, 2]
    assert encode_prompt(tokenizer, "") == [0]
