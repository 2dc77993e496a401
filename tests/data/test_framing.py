import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from pretrain.data.framing import Framing, kept_lengths, padded_width
from pretrain.data.labelled import Example
from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError

BERT = 5  # its w0 has this id, GPT's has 1
CLS, SEP = 2, 3


def text_of(words):
    return " ".join(f"w{word}" for word in words)


def rows_of(framing, *examples):
    """The rows of (text, pair) as lists of ids."""
    rows = framing.rows([Example(text, "x:1", pair) for text, pair in examples])
    ids = [rows.tokens[at : at + n].tolist() for at, n in
           zip(rows.starts, rows.lengths, strict=True)]  # fmt: skip
    return ids, rows.firsts.tolist(), rows.n_cut


def test_the_frames(bert_tokenizer, gpt_tokenizer):
    text, pair = text_of([0, 1]), text_of([2])
    assert rows_of(Framing(bert_tokenizer, 8), (text, None)) == ([[CLS, 5, 6, SEP]], [4], 0)
    assert rows_of(Framing(bert_tokenizer, 8, pairs=True), (text, pair)) == (
        [[CLS, 5, 6, SEP, 7, SEP]],
        [4],
        0,
    )
    assert rows_of(Framing(gpt_tokenizer, 8), (text, None)) == ([[1, 2]], [2], 0)
    assert rows_of(Framing(gpt_tokenizer, 8, pairs=True), (text, pair)) == ([[1, 2, 0, 3]], [3], 0)


@pytest.mark.parametrize("n_tokens", [7, 8, 9])
def test_what_does_not_fit_is_cut_at_its_end(bert_tokenizer, gpt_tokenizer, n_tokens):
    words = list(range(n_tokens))
    n_cut = int(n_tokens > 8)
    ids, _, cut = rows_of(Framing(gpt_tokenizer, 8), (text_of(words), None))
    assert ids == [[1 + word for word in words[:8]]]
    assert cut == n_cut
    framed = text_of(words[2:])  # so that the row with its frame has n_tokens
    ids, _, cut = rows_of(Framing(bert_tokenizer, 8), (framed, None))
    assert ids == [[CLS, *(BERT + word for word in words[2:8]), SEP]]
    assert cut == n_cut


@pytest.mark.parametrize("max_len", [5, 8, 9])
def test_pairs_are_cut_as_the_library_cuts_them(bert_tokenizer, max_len):
    peer = Backend.from_str(bert_tokenizer.to_json())
    peer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    peer.enable_truncation(max_len, strategy="longest_first")
    framing = Framing(bert_tokenizer, max_len, pairs=True)
    lengths = [(a, b) for a in range(1, 12) for b in range(1, 12)]
    examples = [Example(text_of(range(a)), "x:1", text_of(range(50, 50 + b))) for a, b in lengths]
    rows = framing.rows(examples)
    batch = rows.padded(np.arange(len(examples)), max_len, 0)
    for n, example in enumerate(examples):
        expected = peer.encode(example.text, example.pair)
        real = batch["attention_mask"][n]
        assert batch["input_ids"][n][real].tolist() == expected.ids
        assert batch["segment_ids"][n][real].tolist() == expected.type_ids
    assert rows.n_cut == sum(a + b + 3 > max_len for a, b in lengths)


def test_kept_lengths_by_taking_one_token_after_another():
    for first in range(9):
        for second in range(9):
            for room in range(2, 12):
                a, b = first, second
                while a + b > room:
                    # the second text goes first where both are of one length from the start on,
                    # else the one that was longer keeps the odd token
                    if a > b or (a == b and first <= second):
                        a -= 1
                    else:
                        b -= 1
                assert kept_lengths(first, second, room) == (a, b)


def test_padding_follows_lengths_and_never_ids(gpt_tokenizer):
    framing = Framing(gpt_tokenizer, 8, pairs=True)
    assert framing.filler_id == 0
    end_as_filler = 0  # the end token of a pair is the padding token too
    rows = framing.rows([Example("w0", "x:1", "w1"), Example("w0 w1 w2", "x:2", "w3")])
    batch = rows.padded(np.array([1, 0, -1]), 8, end_as_filler)
    assert batch["input_ids"].tolist() == [
        [1, 2, 3, 0, 4, 0, 0, 0],
        [1, 0, 2, 0, 0, 0, 0, 0],
        [0] * 8,
    ]
    assert batch["attention_mask"].sum(axis=1).tolist() == [5, 3, 0]
    assert batch["attention_mask"].dtype == bool
    assert batch["input_ids"].dtype == np.int64


def test_no_examples_and_texts_without_tokens(gpt_tokenizer):
    assert len(Framing(gpt_tokenizer, 8).rows([])) == 0
    rows = Framing(gpt_tokenizer, 8).rows([Example(" ", "x:1"), Example("w1", "x:2")])
    assert rows.lengths.tolist() == [0, 1]


def test_widths_are_multiples_of_eight_within_the_limit():
    assert [padded_width(n, 20) for n in (0, 1, 8, 9, 16, 17, 20)] == [8, 8, 8, 16, 16, 20, 20]


def test_what_has_no_room_or_no_border_is_refused(bert_tokenizer):
    assert Framing(bert_tokenizer, 5, pairs=True).room == 2
    for max_len, pairs in ((2, False), (4, True), (0, False)):
        with pytest.raises(UserError, match="no room"):
            Framing(bert_tokenizer, max_len, pairs)
    bare = Backend.from_str(bert_tokenizer.to_json().replace("[SEP]", "[other]"))
    assert Framing(Tokenizer(bare), 8).room == 8
    with pytest.raises(UserError, match="stand between"):
        Framing(Tokenizer(bare), 8, pairs=True)
