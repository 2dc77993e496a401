import numpy as np
import pytest
from judges import ids_of, make_judge

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.evaluation.queries import Framing


def test_a_masked_text_is_framed_and_its_frame_is_not_asked_for():
    task, tokenizer = make_judge("mlm")
    (query,) = Framing(task).texts(["the cat"])
    ids = ids_of(tokenizer, "the cat")
    assert query.ids.tolist() == [tokenizer.cls_id, *ids, tokenizer.sep_id]
    assert (query.first, query.last) == (1, 1 + len(ids))


def test_a_causal_text_follows_an_end_token():
    task, tokenizer = make_judge("clm")
    (query,) = Framing(task).texts(["the cat"])
    ids = ids_of(tokenizer, "the cat")
    assert query.ids.tolist() == [tokenizer.end_id, *ids]
    assert (query.first, query.last) == (1, 1 + len(ids))


def test_a_text_cannot_forge_special_tokens():
    task, tokenizer = make_judge("mlm")
    (query,) = Framing(task).texts(["the [MASK] cat"])
    assert tokenizer.mask_id not in query.ids


def test_a_piece_across_the_border_belongs_to_the_continuation():
    task, tokenizer = make_judge("clm", TokenizerRule("bpe", 300))
    for context, continuation in [("the ca", "t sat"), ("the cat ", "sat"), ("the cat", " sat")]:
        (query,) = Framing(task).continuations([context], [continuation], False)
        assert query.ids[1:].tolist() == ids_of(tokenizer, context + continuation)
        kept = tokenizer.decode(query.ids[1 : query.first])
        assert context.startswith(kept)
        assert tokenizer.decode(query.ids[1:]) == context + continuation
        if context.rstrip() == "the cat":
            assert kept == "the cat"  # the space goes with the word behind it


@pytest.mark.parametrize("kind", ["clm", "mlm"])
def test_a_context_beyond_the_trained_length_loses_its_beginning(kind):
    rule = TokenizerRule("char") if kind == "clm" else None
    task, tokenizer = make_judge(kind, rule, position="learned", max_len=12)
    task.trained_len = 12
    context, continuation = "the cat sat on the mat. a dog ran in", " the sun."
    whole = ids_of(tokenizer, context + continuation)
    (query,) = Framing(task).continuations([context], [continuation], False)
    n_asked = query.n_tokens
    assert query.last - query.first == n_asked > 0
    n_read = len(query.ids) - (kind == "clm")  # a causal model does not read the last token
    assert n_read == 12
    inner = query.ids[1:] if kind == "clm" else query.ids[1:-1]
    assert np.array_equal(inner, whole[len(whole) - len(inner) :])
    first = tokenizer.end_id if kind == "clm" else tokenizer.cls_id
    assert query.ids[0] == first


@pytest.mark.parametrize(("kind", "most"), [("clm", 12), ("mlm", 10)])
def test_as_many_tokens_as_there_are_positions_and_not_one_more(kind, most):
    rule = TokenizerRule("char") if kind == "clm" else None
    task, _ = make_judge(kind, rule, position="learned", max_len=12)
    letters = "abcdefghijklmn"
    text = letters if kind == "clm" else " ".join(letters)
    step = 1 if kind == "clm" else 2
    framing = Framing(task)
    assert framing.texts([text[: most * step]])[0].n_tokens == most
    with pytest.raises(UserError, match="has 13 tokens to read; the model has 12 positions"):
        framing.texts([text[: (most + 1) * step]])


def test_without_learned_positions_a_text_may_be_longer_than_in_training():
    task, tokenizer = make_judge("clm", max_len=4)
    task.trained_len = 4
    text = "the cat sat on the mat."
    assert Framing(task).texts([text])[0].n_tokens == len(ids_of(tokenizer, text)) > 4


def test_what_cannot_be_asked_is_refused():
    task, _ = make_judge("clm")
    with pytest.raises(UserError, match="'' has no token whose probability"):
        Framing(task).texts([""])
    task.objective = "encoder"
    with pytest.raises(UserError, match="'encoder' gives no probabilities"):
        Framing(task)
    task, _ = make_judge("mlm")
    task.tokenizer_json = train_tokenizer(["abc"], TokenizerRule("char")).to_json()
    with pytest.raises(UserError, match=r"no \[MASK\]"):
        Framing(task)
