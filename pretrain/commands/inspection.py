"""One text, and what a model of any kind does with it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pretrain.data.framing import Framing
from pretrain.data.labelled import Example
from pretrain.data.tokenizer import Tokenizer
from pretrain.diagnostics.attention_weights import Inside, look_inside
from pretrain.errors import UserError
from pretrain.pictures.attention_explorer import tokens_that_fit
from pretrain.tasks.continuation import tokenizer_of
from pretrain.tasks.labelling import label_examples
from pretrain.tasks.predicted_tokens import Expectation, expectations
from pretrain.tasks.shown_text import TokenNames, framed_row


@dataclass(frozen=True)
class Inspection:
    """What was seen.

    Attributes:
        ids: The row as the model reads it.
        n_cut: Tokens of the text that are not shown.
        inside: Attention and units.
        expected: What a language model expects at each place; empty for other models.
        verdict: What a classifier says of the whole text; None for other models.
        names: Readable tokens by id.
    """

    ids: list[int]
    n_cut: int
    inside: Inside
    expected: list[Expectation]
    verdict: dict[str, Any] | None
    names: TokenNames

    @property
    def tokens(self) -> list[str]:
        """The row, readable."""
        return [self.names[token] for token in self.ids]


def inspect_text(task: Any, text: str, pair: str | None, most_tokens: int) -> Inspection:
    """Read ``text`` (and ``pair``, for a classifier of pairs) with the model.

    Raises:
        UserError: There is nothing to read, or a pair where the model takes none.
    """
    tokenizer, is_classifier = tokenizer_of(task), task.objective == "classification"
    if pair is not None and not is_classifier:
        raise UserError("--pair is for classifiers of pairs; this model reads one text.")
    example = Example(text, "The text", pair)
    # Before anything else, since it says in words what is wrong with the texts.
    verdict = label_examples(task, [example])[0] if is_classifier else None
    most = _room(task, most_tokens)
    if is_classifier:
        batch, n_cut = _framed_example(tokenizer, example, most)
    else:
        row, n_cut = framed_row(task, tokenizer, text, most)
        batch = {"input_ids": torch.tensor([row])}
    inside = look_inside(task, {name: part.to(task.device) for name, part in batch.items()})
    if inside.states.isnan().any():
        raise UserError("This model computes NaN: its training has diverged.")
    ids = batch["input_ids"][0].tolist()
    expected = expectations(task, ids, inside.states) if task.objective in ("clm", "mlm") else []
    return Inspection(ids, n_cut, inside, expected, verdict, TokenNames(tokenizer))


def _room(task: Any, most_tokens: int) -> int:
    """Tokens in the row, so that the page stays small and the model is not overstretched."""
    config = task.config
    longest = config.max_len if config.position == "learned" else task.trained_len or most_tokens
    return min(tokens_that_fit(config.n_layers, config.n_heads, most_tokens), longest)


def _framed_example(
    tokenizer: Tokenizer, example: Example, most: int
) -> tuple[dict[str, Tensor], int]:
    """A classifier's row of one or two texts, and how many tokens were left out."""
    pairs = example.pair is not None
    framing = Framing(tokenizer, most, pairs)
    rows = framing.rows([example])
    length = int(rows.lengths[0])
    arrays = rows.padded(np.array([0]), length, framing.filler_id)
    del arrays["attention_mask"]  # nothing is padded
    if not (pairs and framing.has_frame):
        del arrays["segment_ids"]
    whole = Framing(tokenizer, 10**9, pairs).rows([example])
    return {k: torch.from_numpy(v) for k, v in arrays.items()}, int(whole.lengths[0]) - length
