import json
import math

import pytest
from judges import ids_of, log_softmax, make_judge, slow_causal, slow_masked

from pretrain.errors import UserError
from pretrain.evaluation import Scorer, last_words, read_passages
from pretrain.evaluation.last_word import Passage
from pretrain.evaluation.likelihood import Likelihood


def write(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return str(path)


def test_a_passage_is_cut_before_its_last_word(tmp_path):
    texts = ["the cat sat", "“A dog,” she said.\nAnd then   ran\n", "on on on"]
    passages = read_passages(write(tmp_path / "words.jsonl", texts))
    assert passages == [
        ("the cat", " sat"),
        ("“A dog,” she said.\nAnd then", "   ran"),
        ("on on", " on"),
    ]
    assert len(read_passages(str(tmp_path / "words.jsonl"), limit=2)) == 2


def test_a_single_word_is_refused_with_its_line(tmp_path):
    with pytest.raises(UserError, match=r"words.jsonl:2: the text has one word"):
        read_passages(write(tmp_path / "words.jsonl", ["a cat", "dog"]))


@pytest.mark.parametrize("kind", ["clm", "mlm"])
def test_words_are_foretold_piece_by_piece(kind):
    task, tokenizer = make_judge(kind)
    passages = [Passage("the cat sat on the", " xylophone"), Passage("a dog ran in", " the")]
    nats, hits = 0.0, []
    for context, word in passages:
        whole = ids_of(tokenizer, context + word)
        n_context = len(ids_of(tokenizer, context))
        if kind == "clm":
            row = [tokenizer.end_id, *whole]
            nats -= sum(slow_causal(task, row, 1 + n_context))
            guesses = log_softmax(task, row)[n_context:-1].argmax(-1).tolist()
            hits.append(guesses == whole[n_context:])
        else:
            row = [tokenizer.cls_id, *whole, tokenizer.sep_id]
            first, last = 1 + n_context, len(row) - 1
            assert last - first > 1 or word == " the"
            nats -= sum(slow_masked(task, tokenizer, row, first, last, hides_rest=True))
    report = last_words(Scorer(task, "32-true"), passages)
    assert report.n_passages == 2
    assert report.perplexity == pytest.approx(math.exp(nats / 2), rel=1e-4)
    if kind == "clm":
        assert report.accuracy == sum(hits) / 2


def test_accuracy_counts_words_foretold_to_their_last_piece():
    class Answers:
        def continuations(self, contexts, words, hides_rest):
            assert hides_rest
            return [Likelihood(-1.0, 1, True), Likelihood(-2.0, 3, False)]

    report = last_words(Answers(), [Passage("a", " b"), Passage("c", " d")])
    assert report.accuracy == 0.5
    assert report.perplexity == pytest.approx(math.exp(1.5))
