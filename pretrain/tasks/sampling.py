"""Text from a trained model: continuations by a causal one, fillings by a masked one."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.tasks.base import LanguageModel

FEW_LENGTHS = 32


class Filling(NamedTuple):
    """One guess for one masked position: the token, its probability, the whole text with it."""

    token: str
    probability: float
    text: str


def tokenizer_of(task: LanguageModel) -> Tokenizer:
    """The tokenizer that the model was trained with.

    Raises:
        UserError: The checkpoint holds none.
    """
    if task.tokenizer_json is None:
        raise UserError("This checkpoint holds no tokenizer, so it can't read or write text.")
    return Tokenizer.from_json(task.tokenizer_json)


@torch.inference_mode()
def continue_ids(
    task: LanguageModel,
    prompt: list[int],
    n_tokens: int,
    temperature: float = 0.8,
    top_k: int | None = 50,
    generator: torch.Generator | None = None,
) -> Iterator[int]:
    """Sample up to ``n_tokens`` token ids, one at a time, until the end token comes.

    Args:
        task: A causal language model.
        prompt: Token ids to begin with, at least one. What the model reads is kept to the last
            tokens of the length that it was trained on: beyond it text falls apart.
        n_tokens: The most tokens to draw.
        temperature: Divides the logits; 0 takes the likeliest token.
        top_k: Draw among the k likeliest only; None means all.
        generator: Source of randomness.
    """
    tokenizer = tokenizer_of(task)
    ids = list(prompt)
    allowed = torch.ones(task.head.decoder.out_features, dtype=torch.bool)
    allowed[list(tokenizer.special_ids)] = False
    allowed[tokenizer.vocab_size :] = False  # rows that only round the table up
    if tokenizer.end_id is not None:
        allowed[tokenizer.end_id] = True
    window = task.trained_len or task.config.max_len
    for _ in range(n_tokens):
        context = ids[-window:]
        # Filler on the right is invisible to a causal model, and few different lengths spare a
        # CPU from building its kernels anew for each.
        filler = [0] * (min(-(-len(context) // FEW_LENGTHS) * FEW_LENGTHS, window) - len(context))
        states = task.transformer(torch.tensor([context + filler], device=task.device))
        logits = task.head(states[0, len(context) - 1]).float().cpu()
        token = _draw(logits.masked_fill(~allowed, -torch.inf), temperature, top_k, generator)
        if token == tokenizer.end_id:
            return
        ids.append(token)
        yield token


def _draw(
    logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator | None
) -> int:
    if temperature == 0:
        return int(logits.argmax())
    if top_k is not None and top_k < len(logits):
        smallest = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    probabilities = torch.softmax(logits / temperature, dim=-1)
    return int(torch.multinomial(probabilities, 1, generator=generator))


@torch.inference_mode()
def fill_masks(task: LanguageModel, text: str, top_k: int = 5) -> list[list[Filling]]:
    """For every ``[MASK]`` in ``text`` the ``top_k`` likeliest tokens, best first.

    Raises:
        UserError: The text holds no mask, or more tokens than there are positions.
    """
    tokenizer = tokenizer_of(task)
    if tokenizer.mask_id is None or tokenizer.cls_id is None:
        raise UserError("This model's tokenizer has no [MASK] and [CLS]: it can't fill masks.")
    ids = [tokenizer.cls_id, *tokenizer.encode_prompt(text)]
    if tokenizer.sep_id is not None:
        ids.append(tokenizer.sep_id)
    holes = [i for i, token in enumerate(ids) if token == tokenizer.mask_id]
    if not holes:
        name = tokenizer.backend.id_to_token(tokenizer.mask_id)
        raise UserError(f"The text holds no {name}: put one where a word is to be filled in.")
    if task.config.position == "learned" and len(ids) > task.config.max_len:
        raise UserError(f"The text has {len(ids)} tokens; the model reads {task.config.max_len}.")
    logits = task(torch.tensor([ids], device=task.device))[0].float().cpu()
    logits[:, list(tokenizer.special_ids)] = -torch.inf
    logits[:, tokenizer.vocab_size :] = -torch.inf
    best = logits[holes].softmax(dim=-1).topk(min(top_k, tokenizer.vocab_size))
    fillings = []
    for row, hole in enumerate(holes):
        guesses = []
        pairs = zip(best.values[row].tolist(), best.indices[row].tolist(), strict=True)
        for probability, token in pairs:
            filled = [*ids[1:hole], token, *ids[hole + 1 :]]
            if tokenizer.sep_id is not None:
                filled = filled[:-1]
            piece = tokenizer.backend.id_to_token(token) or ""
            guesses.append(Filling(piece, probability, tokenizer.decode(filled)))
        fillings.append(guesses)
    return fillings
