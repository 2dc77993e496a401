"""The last word of a passage, given all before it (LAMBADA, Paperno et al. 2016)."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pretrain.evaluation.likelihood import Scorer
from pretrain.evaluation.records import read_records
from pretrain.evaluation.report import Report


class Passage(NamedTuple):
    """A text in two: the last word, with the space before it, and what stands before."""

    context: str
    word: str


@dataclass(frozen=True)
class LastWordReport(Report):
    """How well last words were foretold.

    Attributes:
        accuracy: Share of the passages in which every token of the word was the likeliest.
        perplexity: exp of the mean negative log-probability of a whole word.
        n_passages: How many there were.
    """

    accuracy: float
    perplexity: float
    n_passages: int


def read_passages(source: str, limit: int | None = None) -> list[Passage]:
    """Passages from rows with a field ``text``, cut before the last word.

    Raises:
        UserError: The file can't be read, or a text has no two words.
    """
    passages = []
    for record in itertools.islice(read_records(source), limit):
        text = record.text("text").rstrip()
        word = text.split()[-1]
        context = text.removesuffix(word).rstrip()
        if not context:
            record.refuse("the text has one word, so nothing foretells the last one")
        passages.append(Passage(context, text[len(context) :]))
    return passages


def last_words(scorer: Scorer, passages: Sequence[Passage]) -> LastWordReport:
    """Ask for each last word, its pieces one after the other, each given those before it.

    A masked model sees masks where the word's later pieces stand, so it knows their number, and
    that the text ends behind the word without a full stop, as few training texts do.

    Raises:
        UserError: A text can't be read, or the model computes NaN.
    """
    contexts, words = zip(*passages, strict=True)
    found = scorer.continuations(contexts, words, hides_rest=True)
    mean = sum(word.log_probability for word in found) / len(found)
    return LastWordReport(
        accuracy=sum(word.is_likeliest for word in found) / len(found),
        perplexity=math.exp(min(-mean, 700.0)),
        n_passages=len(found),
    )
