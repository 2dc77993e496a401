"""What a masked language model would put where a text has a mask."""

from typing import NamedTuple

import torch

from pretrain.data.tokenizer import Tokenizer
from pretrain.errors import UserError
from pretrain.tasks.continuation import tokenizer_of
from pretrain.tasks.language_model import LanguageModel


class Filling(NamedTuple):
    """One guess for one masked position: the token, its probability, the whole text with it."""

    token: str
    probability: float
    text: str


@torch.inference_mode()
def fill_masks(task: LanguageModel, text: str, top_k: int = 5) -> list[list[Filling]]:
    """For every ``[MASK]`` in ``text`` the ``top_k`` likeliest tokens, best first.

    Raises:
        UserError: The text holds no mask, or more tokens than there are positions.
    """
    tokenizer = tokenizer_of(task)
    ids = _framed(task, tokenizer, text)
    holes = [i for i, token in enumerate(ids) if token == tokenizer.mask_id]
    logits = task(torch.tensor([ids], device=task.device))[0].float().cpu()
    logits[:, list(tokenizer.special_ids)] = -torch.inf
    logits[:, tokenizer.vocab_size :] = -torch.inf
    best = logits[holes].softmax(dim=-1).topk(min(top_k, tokenizer.vocab_size))
    end = len(ids) if tokenizer.sep_id is None else len(ids) - 1
    fillings = []
    for row, hole in enumerate(holes):
        guesses = []
        pairs = zip(best.values[row].tolist(), best.indices[row].tolist(), strict=True)
        for probability, token in pairs:
            filled = [*ids[1:hole], token, *ids[hole + 1 : end]]
            piece = tokenizer.backend.id_to_token(token) or ""
            guesses.append(Filling(piece, probability, tokenizer.decode(filled)))
        fillings.append(guesses)
    return fillings


def _framed(task: LanguageModel, tokenizer: Tokenizer, text: str) -> list[int]:
    """[CLS] text [SEP], which holds at least one mask and fits the model."""
    if tokenizer.mask_id is None or tokenizer.cls_id is None:
        raise UserError("This model's tokenizer has no [MASK] and [CLS]: it can't fill masks.")
    ids = [tokenizer.cls_id, *tokenizer.encode_prompt(text)]
    if tokenizer.sep_id is not None:
        ids.append(tokenizer.sep_id)
    if tokenizer.mask_id not in ids:
        name = tokenizer.backend.id_to_token(tokenizer.mask_id)
        raise UserError(f"The text holds no {name}: put one where a word is to be filled in.")
    if task.config.position == "learned" and len(ids) > task.config.max_len:
        raise UserError(f"The text has {len(ids)} tokens; the model reads {task.config.max_len}.")
    return ids
