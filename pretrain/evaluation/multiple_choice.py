"""Multiple choice by likelihood: the answer that a model finds likeliest behind the question."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pretrain.evaluation.likelihood import Likelihood, Scorer
from pretrain.evaluation.records import Record, read_records
from pretrain.evaluation.report import Report

_CONTEXT_FIELDS = ("context", "question")


class Question(NamedTuple):
    """What comes before, the answers to choose from, and the number of the right one."""

    context: str
    choices: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class ChoiceReport(Report):
    """How many right answers were found likeliest.

    Attributes:
        accuracy: By the summed log-probability of an answer, which favours short ones.
        accuracy_per_byte: By that sum divided by the answer's UTF-8 bytes, which does not depend
            on the tokenizer.
        chance: What guessing would reach.
        n_questions: How many there were.
    """

    accuracy: float
    accuracy_per_byte: float
    chance: float
    n_questions: int


def read_questions(source: str, limit: int | None = None) -> list[Question]:
    """Questions from rows ``{"context" or "question", "choices": [...], "label": 0, 1, ...}``.

    Raises:
        UserError: The file can't be read, or a row is no such question.
    """
    return [_question(record) for record in itertools.islice(read_records(source), limit)]


def multiple_choice(scorer: Scorer, questions: Sequence[Question]) -> ChoiceReport:
    """Ask for the tokens of every answer behind its question, a space between them.

    Of a masked model's answer every token is hidden in turn, the others being seen.

    Raises:
        UserError: A text can't be read, or the model computes NaN.
    """
    contexts = [question.context for question in questions for _ in question.choices]
    answers = [answer for question in questions for answer in question.choices]
    spaced = [
        answer if not context or context[-1].isspace() or answer[0].isspace() else f" {answer}"
        for context, answer in zip(contexts, answers, strict=True)
    ]
    found = iter(scorer.continuations(contexts, spaced))
    n_right = n_right_per_byte = 0
    for question in questions:
        of_question = list(itertools.islice(found, len(question.choices)))
        sizes = [len(answer.encode()) for answer in question.choices]
        n_right += _best(of_question, [1] * len(sizes)) == question.label
        n_right_per_byte += _best(of_question, sizes) == question.label
    n = len(questions)
    chance = sum(1 / len(question.choices) for question in questions) / n
    return ChoiceReport(n_right / n, n_right_per_byte / n, chance, n)


def _best(answers: Sequence[Likelihood], sizes: Sequence[int]) -> int:
    """The likeliest answer by its size; the first of equals."""
    per_size = [answer.log_probability / size for answer, size in zip(answers, sizes, strict=True)]
    return per_size.index(max(per_size))


def _question(record: Record) -> Question:
    names = [name for name in _CONTEXT_FIELDS if name in record.row]
    if len(names) != 1:
        record.refuse('a row needs one field "context" or "question"')
    context = record.text(names[0], may_be_empty=True)
    choices = record.row.get("choices")
    if not isinstance(choices, list) or len(choices) < 2:
        record.refuse('field "choices" must be a list of at least two answers')
    answers = tuple(
        record.checked(choice, f"choice {number}") for number, choice in enumerate(choices)
    )
    label = record.row.get("label")
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < len(answers):
        record.refuse(
            f'field "label" is {label!r}: it must be the number of the right choice, from 0 to '
            f"{len(answers) - 1}"
        )
    return Question(context, answers, label)
