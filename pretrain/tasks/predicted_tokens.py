"""What a language model expects at each place of a text, and how much the token there surprises."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.tasks.continuation import tokenizer_of
from pretrain.tasks.language_model import LanguageModel

_ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Expectation:
    """One place of a text.

    Attributes:
        token: Id of the token there; None behind the end of the text.
        surprisal: -ln p(token) in nats; None where the text says nothing of the token (a mask,
            the place behind the end) or the model says nothing of it (the frame, a first token).
        guesses: Ids of the likeliest tokens with their probabilities, best first; empty where the
            model says nothing.
    """

    token: int | None
    surprisal: float | None = None
    guesses: tuple[tuple[int, float], ...] = ()


@torch.inference_mode()
def expectations(
    task: LanguageModel, ids: list[int], states: Tensor, top_k: int = 5
) -> list[Expectation]:
    """For every token of ``ids``; of a causal model also for the one that would come next.

    A causal model expects a token from those before it. A masked one is shown the text with this
    token hidden, one after the other, for its head learned from hidden tokens only: the sum of
    these surprisals is the pseudo-log-likelihood (Salazar et al. 2020).

    Args:
        task: The model, in evaluation mode.
        ids: A row as the model reads it, frame included.
        states: What leaves its block stack for this row, ``(len(ids), d_model)``.
        top_k: Guesses for each place.

    Raises:
        UserError: The model computes NaN.
    """
    if task.causal:
        places, targets = _log_probabilities(task, states), [*ids[1:], None]
        return [Expectation(ids[0]), *_compared(places, targets, top_k)]
    tokenizer = tokenizer_of(task)
    silent = {tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id}
    asked = [place for place, token in enumerate(ids) if token not in silent]
    hidden = _states_where_hidden(task, tokenizer, ids, asked)
    targets = [None if ids[place] == tokenizer.mask_id else ids[place] for place in asked]
    found = dict(
        zip(asked, _compared(_log_probabilities(task, hidden), targets, top_k), strict=True)
    )
    return [
        Expectation(token, found[place].surprisal, found[place].guesses)
        if place in found
        else Expectation(token)
        for place, token in enumerate(ids)
    ]


def _states_where_hidden(
    task: LanguageModel, tokenizer: Tokenizer, ids: list[int], places: list[int]
) -> Tensor:
    """The state at each of ``places`` when a mask stands there, ``(len(places), d_model)``."""
    if tokenizer.mask_id is None:
        raise UserError("This model's tokenizer has no [MASK]: it can't be asked for tokens.")
    rows = torch.tensor(ids, device=task.device).repeat(len(places), 1)
    columns = torch.tensor(places, dtype=torch.int64, device=task.device)
    rows[torch.arange(len(places)), columns] = tokenizer.mask_id
    parts = [
        task.transformer(part)[torch.arange(len(part)), column]
        for part, column in zip(
            rows.split(_ROWS_AT_ONCE), columns.split(_ROWS_AT_ONCE), strict=True
        )
        if len(part)
    ]
    return torch.cat([torch.zeros(0, task.config.d_model, device=task.device), *parts])


def _log_probabilities(task: LanguageModel, states: Tensor) -> Tensor:
    """``(n, vocab_size)`` float32 on the CPU."""
    scores = task.head(states).float().log_softmax(-1).cpu()
    if scores.isnan().any():
        raise UserError("This model computes NaN: its training has diverged.")
    return scores


def _compared(scores: Tensor, targets: list[int | None], top_k: int) -> list[Expectation]:
    best = scores.topk(min(top_k, scores.shape[-1]))
    found = []
    for row, target in enumerate(targets):
        pairs = zip(best.indices[row].tolist(), best.values[row].exp().tolist(), strict=True)
        surprisal = None if target is None else max(0.0, -scores[row, target].item())
        found.append(Expectation(target, surprisal, tuple(pairs)))
    return found
