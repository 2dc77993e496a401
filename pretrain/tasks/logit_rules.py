"""Rules that reshape next-token scores before one is taken.

Each takes logits ``(batch, vocab)``, gives logits of the same shape, and works on every row by
itself. A token that a rule rules out gets -inf; no rule rules out a row's likeliest token.
"""

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from pretrain.data.tokenizer import Tokenizer


def divide_by_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Sharpen (below 1) or flatten (above 1) the distribution; ``temperature`` is above 0.

    Scores are taken relative to the likeliest, so that a tiny temperature can't overflow them.
    """
    relative = logits - logits.amax(dim=-1, keepdim=True)
    return (relative.double() / temperature).to(logits.dtype)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the ``k`` likeliest tokens, and what ties with the last of them (Fan et al. 2018)."""
    if k >= logits.shape[-1]:
        return logits
    smallest = logits.topk(k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < smallest, -torch.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the nucleus (Holtzman et al. 2020): the fewest likeliest tokens with a mass of ``p``.

    A token stays as long as those before it have not reached ``p``, so the likeliest always stays.
    """
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    mass = ranked.softmax(dim=-1)
    beyond = mass.cumsum(dim=-1) - mass >= p
    beyond[:, 0] = False  # however small p is: float32 may take it for 0
    return logits.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), -torch.inf)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """Keep tokens at least ``p`` times as likely as the likeliest (Nguyen et al. 2024)."""
    smallest = logits.amax(dim=-1, keepdim=True) + math.log(p)
    return logits.masked_fill(logits < smallest, -torch.inf)


def penalize_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make tokens that are there already less likely (Keskar et al. 2019, CTRL, section 4.1).

    Positive scores are divided by ``penalty`` and negative ones multiplied by it: division alone,
    as in the paper's formula, would make tokens with negative scores likelier.

    Args:
        logits: ``(batch, vocab)``, as the model gives them: the sign matters.
        seen: ``(batch, vocab)`` bool, True for tokens of the prompt and what was written so far.
        penalty: Above 1 to discourage; 1 changes nothing.
    """
    penalized = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, penalized, logits)


def seen_tokens(sequences: Sequence[Sequence[int]], n_tokens: int) -> Tensor:
    """Which of the ``n_tokens`` rows of a vocabulary each sequence holds: ``(batch, n_tokens)``."""
    seen = torch.zeros(len(sequences), n_tokens, dtype=torch.bool)
    for row, ids in enumerate(sequences):
        seen[row, list(ids)] = True
    return seen


def writable_tokens(tokenizer: Tokenizer, n_tokens: int, ends: Collection[int]) -> Tensor:
    """Which of the ``n_tokens`` rows of a model's vocabulary may be written: ``(n_tokens,)`` bool.

    Left out are rows that only round the table up, and special tokens other than ``ends``.
    """
    writable = torch.ones(n_tokens, dtype=torch.bool)
    writable[list(tokenizer.special_ids)] = False
    writable[tokenizer.vocab_size :] = False
    writable[list(ends)] = True
    return writable
