"""Text from a causal model, drawn token by token for a batch of prompts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.errors import UserError
from pretrain.tasks.continuation import Continuation, Pen, tokenizer_of
from pretrain.tasks.language_model import LanguageModel
from pretrain.tasks.logit_rules import (
    divide_by_temperature,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalize_repetition,
    seen_tokens,
    writable_tokens,
)
from pretrain.tasks.reader import Reader


@dataclass(frozen=True)
class Decoding:
    """How the next token is chosen, and when a text ends; by default the model is taken as it is.

    Rules apply in the order in which they stand here, after the repetition penalty.

    Attributes:
        n_tokens: The most tokens to write.
        temperature: Divides the scores; 0 takes the likeliest token.
        top_k: Draw among the k likeliest tokens.
        top_p: Draw among the fewest likeliest tokens whose mass reaches p.
        min_p: Draw among tokens at least p times as likely as the likeliest.
        repetition_penalty: Above 1 makes tokens less likely that are in the text already.
        n_beams: Above 1 looks for a likely text instead of drawing one; see ``beam_search``.
        stop_tokens: Ids that end a text, beside the tokenizer's end token.
        stop: Strings that end a text; they are no part of it.

    Raises:
        UserError: One sentence, for values that make no sense.
    """

    n_tokens: int = 100
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    n_beams: int = 1
    stop_tokens: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("n_tokens", "top_k", "n_beams"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}; it must be at least 1.")
        for name in ("top_p", "min_p"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise UserError(f"{name} is {value}; it must be above 0 and at most 1.")
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"temperature is {self.temperature}; it must be 0 or above.")
        if not 0.01 <= self.repetition_penalty <= 100:  # far more than is of use; none overflows
            raise UserError(
                f"repetition_penalty is {self.repetition_penalty}; it must be from 0.01 to 100."
            )
        if "" in self.stop:
            raise UserError("A stop string is empty, so nothing could be written: leave it out.")
        if self.n_beams > 1 and (self.temperature, self.top_k, self.top_p, self.min_p) != (
            1.0, None, None, None,
        ):  # fmt: skip
            raise UserError(
                "Beam search draws nothing: leave out temperature, top_k, top_p and min_p, "
                "or n_beams."
            )


class Scores:
    """The model's scores under the rules that hold for drawing and for beam search alike.

    Args:
        task: A causal language model.
        decoding: Penalty and stops.
        pen: Knows which tokens end a text.
    """

    def __init__(self, task: LanguageModel, decoding: Decoding, pen: Pen) -> None:
        self.reader = Reader(task)
        self.penalty = decoding.repetition_penalty
        n_tokens = task.head.decoder.out_features
        self._writable = writable_tokens(pen.tokenizer, n_tokens, pen.ends)

    def next_logits(self, rows: Sequence[Continuation]) -> Tensor:
        """``(batch, vocab)`` float32; -inf for tokens that are never written."""
        sequences = [row.sequence for row in rows]
        logits = self.reader.next_logits(sequences)
        if self.penalty != 1:
            seen = seen_tokens(sequences, logits.shape[-1])
            logits = penalize_repetition(logits, seen, self.penalty)
        return logits.masked_fill(~self._writable, -torch.inf)


@torch.inference_mode()
def sample(
    task: LanguageModel,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    seeds: Sequence[int],
) -> Iterator[list[Continuation]]:
    """Write after every prompt, and yield all rows after each step, until all have ended.

    Each row draws from its own source of randomness and sees nothing of the others, so its text
    is the same in any batch.

    Args:
        task: A causal language model.
        prompts: Token ids, at least one each, of any lengths.
        decoding: How tokens are chosen, ``n_beams`` being 1.
        seeds: One for each prompt.

    Raises:
        UserError: The checkpoint holds no tokenizer, or the model computes NaN.
    """
    pen = Pen(tokenizer_of(task), decoding.stop_tokens, decoding.stop)
    scores = Scores(task, decoding, pen)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    rows = [Continuation(tuple(prompt)) for prompt in prompts]
    for _ in range(decoding.n_tokens):
        tokens = _choose(scores.next_logits(rows), decoding, generators)
        rows = [
            row if row.ended else pen.add(row, token)
            for row, token in zip(rows, tokens, strict=True)
        ]
        yield rows
        if all(row.ended for row in rows):
            return


def _choose(logits: Tensor, decoding: Decoding, generators: list[torch.Generator]) -> list[int]:
    """One token for each row of ``logits`` ``(batch, vocab)``."""
    if decoding.temperature == 0:
        return logits.argmax(dim=-1).tolist()
    logits = divide_by_temperature(logits, decoding.temperature)
    if decoding.top_k is not None:
        logits = keep_top_k(logits, decoding.top_k)
    if decoding.top_p is not None:
        logits = keep_top_p(logits, decoding.top_p)
    if decoding.min_p is not None:
        logits = keep_min_p(logits, decoding.min_p)
    pairs = zip(logits.softmax(dim=-1), generators, strict=True)
    return [int(torch.multinomial(row, 1, generator=generator)) for row, generator in pairs]
