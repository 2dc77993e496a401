"""What a pretrained model knows without further training, in figures that can be compared.

Reading order: queries, readings, likelihood, then the measures: blimp, last_word,
multiple_choice, text_loss. ``records`` reads their files, ``report`` shows what they found.
"""

from pretrain.evaluation.blimp import BlimpReport, blimp, read_pairs
from pretrain.evaluation.last_word import LastWordReport, last_words, read_passages
from pretrain.evaluation.likelihood import Likelihood, Scorer
from pretrain.evaluation.multiple_choice import ChoiceReport, multiple_choice, read_questions
from pretrain.evaluation.text_loss import CausalTextReport, MaskedTextReport, text_loss

__all__ = [
    "BlimpReport",
    "CausalTextReport",
    "ChoiceReport",
    "LastWordReport",
    "Likelihood",
    "MaskedTextReport",
    "Scorer",
    "blimp",
    "last_words",
    "multiple_choice",
    "read_pairs",
    "read_passages",
    "read_questions",
    "text_loss",
]
