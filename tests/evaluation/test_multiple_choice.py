import json

import pytest
from judges import ids_of, make_judge, slow_causal

from pretrain.errors import UserError
from pretrain.evaluation import Scorer, multiple_choice, read_questions
from pretrain.evaluation.likelihood import Likelihood
from pretrain.evaluation.multiple_choice import Question


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


class Table:
    """Gives each continuation the likelihood that a table has for it."""

    def __init__(self, values):
        self.values, self.asked = values, []

    def continuations(self, contexts, continuations):
        self.asked += zip(contexts, continuations, strict=True)
        return [Likelihood(self.values[text.strip()], 1, False) for text in continuations]


def test_by_the_sum_short_answers_win_and_per_byte_they_need_not():
    scorer = Table({"ab": -2.0, "abcdefgh": -3.0, "é": -3.1, "x": -3.0})
    questions = [Question("q", ("ab", "abcdefgh"), 1), Question("q", ("é", "x"), 0)]
    report = multiple_choice(scorer, questions)
    assert report.accuracy == 0.0
    assert report.accuracy_per_byte == 1.0  # -3 / 8 beats -2 / 2; é has two bytes
    assert report.chance == 0.5
    assert report.n_questions == 2


def test_one_space_stands_between_question_and_answer():
    scorer = Table({"a": -1.0, "b": -2.0})
    questions = [
        Question("why?", ("a", "b"), 0),
        Question("why? ", ("a", "b"), 0),
        Question("why?", (" a", "\nb"), 0),
        Question("", ("a", "b"), 0),
    ]
    assert multiple_choice(scorer, questions).accuracy == 1.0
    assert [context + answer for context, answer in scorer.asked] == [
        "why? a", "why? b", "why? a", "why? b", "why? a", "why?\nb", "a", "b"
    ]  # fmt: skip


def test_a_models_choice_is_the_likeliest_continuation():
    task, tokenizer = make_judge("clm")
    context, choices = "the cat sat on", ("the mat", "a dog", "xyz")
    sums = []
    for choice in choices:
        row = [tokenizer.end_id, *ids_of(tokenizer, f"{context} {choice}")]
        sums.append(sum(slow_causal(task, row, 1 + len(ids_of(tokenizer, context)))))
    best = sums.index(max(sums))
    for label in range(3):
        report = multiple_choice(Scorer(task, "32-true"), [Question(context, choices, label)])
        assert report.accuracy == (label == best)
    assert report.chance == pytest.approx(1 / 3)


def test_questions_are_read_by_either_name(tmp_path):
    path = write(
        tmp_path / "quiz.jsonl",
        {"question": "q", "choices": ["a", "b", "c"], "label": 2, "text": "not read"},
        {"context": "", "choices": ["a", "b"], "label": 0},
    )
    assert read_questions(path) == [("q", ("a", "b", "c"), 2), ("", ("a", "b"), 0)]
    assert len(read_questions(path, limit=1)) == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"question": None}, 'field "question" is null, not text'),
        ({"context": "c"}, 'one field "context" or "question"'),
        ({"choices": "ab"}, '"choices" must be a list of at least two'),
        ({"choices": ["a"]}, '"choices" must be a list of at least two'),
        ({"choices": ["a", 3]}, "choice 1 is 3, not text"),
        ({"choices": ["a", " "]}, "choice 1 is empty"),
        ({"label": 2}, "must be the number of the right choice, from 0 to 1"),
        ({"label": -1}, "must be the number"),
        ({"label": True}, "must be the number"),
        ({"label": "a"}, "must be the number"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(change, complaint, tmp_path):
    good = {"question": "q", "choices": ["a", "b"], "label": 0}
    with pytest.raises(UserError, match=r"quiz\.jsonl:2: ") as refused:
        read_questions(write(tmp_path / "quiz.jsonl", good, {**good, **change}))
    assert complaint in str(refused.value)
