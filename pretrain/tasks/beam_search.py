"""Beam search: the likeliest texts, as far as a few candidates at a time can find them."""

import heapq
from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.tasks.continuation import Continuation, Pen, tokenizer_of
from pretrain.tasks.language_model import LanguageModel
from pretrain.tasks.sampling import Decoding, Scores

LENGTH_EXPONENT = 0.6  # alpha; the paper's choice lies between 0.6 and 0.7


@dataclass(frozen=True)
class Hypothesis:
    """A text with its log-probability in nats and its length in tokens, the ending one included."""

    row: Continuation
    log_probability: float
    n_tokens: int

    @property
    def score(self) -> float:
        """Log-probability over the length penalty, without which short texts would always win."""
        return self.log_probability / length_penalty(self.n_tokens)


def length_penalty(n_tokens: int) -> float:
    """((5 + n) / (5 + 1)) ** alpha (Wu et al. 2016, "GNMT", equation 14)."""
    return ((5 + n_tokens) / 6) ** LENGTH_EXPONENT


@torch.inference_mode()
def beam_search(task: LanguageModel, prompt: list[int], decoding: Decoding) -> list[Hypothesis]:
    """Up to ``decoding.n_beams`` texts after ``prompt``, the best score first.

    At each step the ``n_beams`` likeliest ways to go on are kept (Sutskever et al. 2014, section
    3.2). What ends among the ``n_beams`` likeliest is set aside, and the search is over when no
    text that still grows can beat the worst of ``n_beams`` set aside.

    Args:
        task: A causal language model.
        prompt: Token ids, at least one.
        decoding: ``n_beams``, ``n_tokens``, the repetition penalty and stops.

    Raises:
        UserError: The checkpoint holds no tokenizer, or the model computes NaN.
    """
    pen = Pen(tokenizer_of(task), decoding.stop_tokens, decoding.stop)
    scores = Scores(task, decoding, pen)
    n_beams = decoding.n_beams
    growing = [Hypothesis(Continuation(tuple(prompt)), 0.0, 0)]
    ended: list[Hypothesis] = []
    for _ in range(decoding.n_tokens):
        log_probabilities = scores.next_logits([beam.row for beam in growing]).log_softmax(dim=-1)
        candidates = _candidates(growing, log_probabilities, n_beams, pen)
        # An unlikely ending does not count: it would win in the end by being short.
        ended += [beam for _, beam in candidates[:n_beams] if beam.row.ended]
        ended = _best(ended, n_beams)
        kept = [(parent, beam) for parent, beam in candidates if not beam.row.ended][:n_beams]
        growing = [beam for _, beam in kept]
        if not growing or _is_decided(growing, ended, decoding):
            return ended
        scores.reader.reorder([parent for parent, _ in kept])
    return _best(ended + growing, n_beams)


def _candidates(
    growing: list[Hypothesis], log_probabilities: Tensor, n_beams: int, pen: Pen
) -> list[tuple[int, Hypothesis]]:
    """The likeliest texts of one token more, each with the place of the one that it came from."""
    so_far = torch.tensor([beam.log_probability for beam in growing])
    totals = (so_far[:, None] + log_probabilities).flatten()
    # Enough for ``n_beams`` that go on, even if each one could also end in every way.
    wanted = min(n_beams * (1 + len(pen.ends)), int(totals.isfinite().sum()))
    best = totals.topk(wanted)
    candidates = []
    for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        parent, token = divmod(place, log_probabilities.shape[-1])
        row = pen.add(growing[parent].row, token)
        candidates.append((parent, Hypothesis(row, total, growing[parent].n_tokens + 1)))
    return candidates


def _best(beams: list[Hypothesis], n: int) -> list[Hypothesis]:
    return heapq.nlargest(n, beams, key=lambda beam: beam.score)


def _is_decided(growing: list[Hypothesis], ended: list[Hypothesis], decoding: Decoding) -> bool:
    """Whether no growing text can enter the list, however certain its next tokens are."""
    if len(ended) < decoding.n_beams:
        return False
    bound = max(beam.log_probability for beam in growing) / length_penalty(decoding.n_tokens)
    return ended[-1].score >= bound
