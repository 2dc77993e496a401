"""From texts to the tokens that a model reads, and those of them whose probability is asked for."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pretrain.errors import UserError
from pretrain.tasks import LanguageModel
from pretrain.tasks.continuation import tokenizer_of


class Query(NamedTuple):
    """A text as a model reads it: what is asked is the probability of some of its tokens.

    Attributes:
        ids: ``(length,)`` token ids, those that frame the text included.
        first: The first token that is asked for.
        last: One behind the last.
        hides_rest: For masked models: hide the tokens behind the one in question too, as far as
            they are asked for; else only the one.
    """

    ids: np.ndarray
    first: int
    last: int
    hides_rest: bool = False

    @property
    def n_tokens(self) -> int:
        """How many tokens are asked for."""
        return self.last - self.first


class Framing:
    """Puts texts into the frame that a model saw in training.

    Causal: an end token before, as before every document but the first; without one in the
    tokenizer the first token of a text can't be asked for, since nothing stands before it.
    Masked: [CLS] before and [SEP] behind.

    Args:
        task: A language model.

    Raises:
        UserError: The model is none, or its tokenizer lacks what it takes.
    """

    def __init__(self, task: LanguageModel) -> None:
        if task.objective not in ("clm", "mlm"):
            raise UserError(
                f"A model trained for {task.objective!r} gives no probabilities of text: use a "
                "causal or a masked language model."
            )
        self.tokenizer = tokenizer = tokenizer_of(task)
        self.config, self.causal = task.config, task.causal
        before, behind = tokenizer.cls_id, tokenizer.sep_id
        if self.causal:
            before, behind = tokenizer.end_id, None
        elif before is None or tokenizer.mask_id is None:
            raise UserError("This model's tokenizer has no [MASK] and [CLS]: it can't be asked.")
        self.before = [] if before is None else [before]
        self.behind = [] if behind is None else [behind]
        self.longest = task.trained_len or task.config.max_len

    def texts(self, texts: Sequence[str]) -> list[Query]:
        """Ask for every token of each text.

        Raises:
            UserError: A text has no token to ask for, or more than the model has positions.
        """
        encoded = self.tokenizer.encode_documents(texts)
        return [self._query(text, ids, 0, False) for text, ids in zip(texts, encoded, strict=True)]

    def continuations(
        self, contexts: Sequence[str], continuations: Sequence[str], hides_rest: bool
    ) -> list[Query]:
        """Ask for the tokens of each continuation, given its context.

        Context and continuation are tokenized as one, since that is how text comes; the
        continuation begins with the first token that the context alone does not have. Where both
        are longer than what the model was trained on, the context loses its beginning.

        Raises:
            UserError: A continuation has no token, or more than the model has positions.
        """
        wholes = [a + b for a, b in zip(contexts, continuations, strict=True)]
        # A space belongs to the word behind it.
        parts = self.tokenizer.encode_documents([context.rstrip() for context in contexts])
        pairs = zip(wholes, self.tokenizer.encode_documents(wholes), parts, strict=True)
        return [
            self._query(text, ids, _n_common(ids, part), hides_rest) for text, ids, part in pairs
        ]

    def _query(self, text: str, ids: np.ndarray, n_context: int, hides_rest: bool) -> Query:
        n_frame = len(self.before) + len(self.behind)
        # A causal model does not read the last token: there is nothing behind it to predict.
        n_read = len(ids) + n_frame - self.causal
        cut = min(max(n_read - self.longest, 0), n_context)
        n_read -= cut
        if self.config.position == "learned" and n_read > self.config.max_len:
            raise UserError(
                f"{_shown(text)} has {n_read} tokens to read; the model has {self.config.max_len} "
                "positions."
            )
        framed = np.array([*self.before, *ids[cut:], *self.behind], dtype=np.int64)
        first = len(self.before) + n_context - cut
        if self.causal:
            first = max(first, 1)
        query = Query(framed, first, len(framed) - len(self.behind), hides_rest)
        if query.n_tokens < 1:
            raise UserError(f"{_shown(text)} has no token whose probability could be asked for.")
        return query


def _n_common(one: np.ndarray, other: np.ndarray) -> int:
    """Length of the common beginning."""
    n = min(len(one), len(other))
    differing = np.flatnonzero(one[:n] != other[:n])
    return int(differing[0]) if len(differing) else n


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
