import pytest
from judges import SENTENCES, ids_of, log_softmax, make_judge, slow_causal, slow_masked

from pretrain.data.tokenizer_training import TokenizerRule
from pretrain.errors import UserError
from pretrain.evaluation import Scorer, likelihood

KINDS = ("clm", "mlm")
CASES = (  # a network, and how many tokens are read at once
    ({}, 1),
    ({}, 4096),
    ({"position": "learned", "max_len": 40}, 60),
    ({"position": "alibi", "sliding_window": 4}, 60),
)


def slow_texts(task, tokenizer, texts):
    """One sentence and one mask at a time, float64 log-softmax, no batch, no filler."""
    for text in texts:
        ids = ids_of(tokenizer, text)
        if task.causal:
            yield slow_causal(task, [tokenizer.end_id, *ids], 1)
        else:
            row = [tokenizer.cls_id, *ids, tokenizer.sep_id]
            yield slow_masked(task, tokenizer, row, 1, len(row) - 1)


@pytest.mark.parametrize(("network", "n_tokens"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_as_likely_as_one_by_one(kind, network, n_tokens, monkeypatch):
    monkeypatch.setattr(likelihood, "TOKENS_ON_CPU", n_tokens)
    task, tokenizer = make_judge(kind, **network)
    found = Scorer(task, "32-true").texts(SENTENCES)
    for answer, expected in zip(found, slow_texts(task, tokenizer, SENTENCES), strict=True):
        assert answer.log_probability == pytest.approx(sum(expected), abs=1e-4)
        assert answer.n_tokens == len(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hides_rest", [False, True])
def test_continuations_are_as_likely_as_one_by_one(kind, hides_rest):
    task, tokenizer = make_judge(kind)
    contexts = ["the cat sat on the", "a dog ", "", "the dog"]
    continuations = [" mat.", "ran in the sun.", "a cat", " sat"]
    found = Scorer(task, "32-true").continuations(contexts, continuations, hides_rest)
    for context, continuation, answer in zip(contexts, continuations, found, strict=True):
        whole = ids_of(tokenizer, context + continuation)
        n_context = len(ids_of(tokenizer, context.rstrip()))
        if task.causal:
            expected = slow_causal(task, [tokenizer.end_id, *whole], 1 + n_context)
        else:
            row = [tokenizer.cls_id, *whole, tokenizer.sep_id]
            expected = slow_masked(task, tokenizer, row, 1 + n_context, len(row) - 1, hides_rest)
        assert answer.n_tokens == len(expected) == len(whole) - n_context
        assert answer.log_probability == pytest.approx(sum(expected), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_model_writes_itself_is_the_likeliest(kind):
    task, tokenizer = make_judge(kind)
    scorer = Scorer(task, "32-true")
    table = log_softmax(
        task,
        [tokenizer.end_id, *ids_of(tokenizer, "the cat")]
        if task.causal
        else [tokenizer.cls_id, *ids_of(tokenizer, "the cat"), tokenizer.mask_id, tokenizer.sep_id],
    )
    place = -1 if task.causal else -2
    letters = [" " + letter for letter in "abcdefghijklmnopqrstuvwxyz"]
    found = scorer.continuations(["the cat"] * 26, letters)
    single = [
        (answer, ids_of(tokenizer, "the cat" + letter)[-1])
        for letter, answer in zip(letters, found, strict=True)
        if answer.n_tokens == 1
    ]
    assert single
    for answer, token in single:
        assert answer.is_likeliest == (int(table[place].argmax()) == token)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_is_computed_once(kind, monkeypatch):
    task, _ = make_judge(kind)
    n_rows = []
    original = task.hidden_states

    def counted(batch):
        n_rows.append(len(batch["input_ids"]))
        return original(batch)

    monkeypatch.setattr(task, "hidden_states", counted)
    scorer = Scorer(task, "32-true")
    once = scorer.texts(["the cat sat.", "a dog."])
    n_once = sum(n_rows)
    n_rows.clear()
    assert scorer.texts(["a dog.", *["the cat sat."] * 5, "a dog."]) == [
        once[1], *[once[0]] * 5, once[1]
    ]  # fmt: skip
    assert sum(n_rows) == n_once


def test_the_head_sees_the_asked_for_positions_only(monkeypatch):
    task, tokenizer = make_judge("mlm")
    seen = []
    task.head.transform.register_forward_hook(lambda module, args, out: seen.append(len(args[0])))
    Scorer(task, "32-true").texts(SENTENCES)
    assert sum(seen) == sum(len(ids_of(tokenizer, text)) for text in set(SENTENCES))


def test_without_an_end_token_the_first_token_is_not_asked_for():
    task, tokenizer = make_judge("clm", TokenizerRule("char", end_token=False))
    assert tokenizer.end_id is None
    (answer,) = Scorer(task, "32-true").texts(["the cat"])
    expected = slow_causal(task, ids_of(tokenizer, "the cat"), 1)
    assert answer.n_tokens == 6
    assert answer.log_probability == pytest.approx(sum(expected), abs=1e-4)
    with pytest.raises(UserError, match="'t' has no token whose probability"):
        Scorer(task).texts(["t"])


def test_reduced_precision_is_near_and_the_default_is_the_machines():
    task, _ = make_judge("clm")
    exact = Scorer(task, "32-true")
    reduced = Scorer(task, "bf16-mixed")
    assert Scorer(task).precision in ("32-true", "bf16-mixed")
    pairs = zip(exact.texts(SENTENCES), reduced.texts(SENTENCES), strict=True)
    for one, other in pairs:
        assert one.log_probability == pytest.approx(other.log_probability, rel=0.05)


def test_a_model_that_computes_nan_is_refused():
    task, _ = make_judge("clm")
    task.head.decoder.weight.data.fill_(float("nan"))
    with pytest.raises(UserError, match="computes NaN"):
        Scorer(task).texts(["the cat"])


def test_no_texts_no_answers():
    assert Scorer(make_judge("mlm")[0]).texts([]) == []
