"""Next-token scores for a batch of growing sequences, each token read once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pretrain.errors import UserError
from pretrain.model import KeyValueCache
from pretrain.tasks.language_model import LanguageModel


class Reader:
    """Reads sequences of different lengths with a causal model and a cache.

    Sequences are padded on the left, so that all grow at the right; positions count from a row's
    first real token, and a row's scores do not depend on its neighbours. No row is read further
    than the length that the model was trained on, beyond which text falls apart: a row that has
    filled this window goes on with the last half of it, read again into a new cache. (A cache
    can't just forget its first token: what the later ones hold depends on it.) Of a prompt that
    is longer than the window its last tokens are read.

    Args:
        task: A causal language model.
    """

    def __init__(self, task: LanguageModel) -> None:
        self.task = task
        self.window = task.trained_len or task.config.max_len
        self.cache: KeyValueCache | None = None
        self._starts: list[int] = []  # where in its sequence each row's window begins
        self._mask = torch.empty(0)

    def next_logits(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Scores of the token after each sequence, ``(batch, vocab)`` float32 on the CPU.

        Args:
            sequences: Token ids, at least one each. After the first call each holds one token
                more than before, but for those whose scores nobody needs any more.

        Raises:
            UserError: The model computes NaN.
        """
        if self.cache is None or self.cache.length >= self.window:
            ids = self._begin(sequences)
        else:
            ids = torch.tensor([[sequence[-1]] for sequence in sequences])
            self._mask = torch.cat([self._mask, torch.ones_like(ids, dtype=torch.bool)], dim=1)
        device = self.task.device
        mask = None if self._mask.all() else self._mask.to(device)
        # A compiled network would be compiled anew for each length of the cache.
        with torch.compiler.set_stance("force_eager"):
            states = self.task.transformer(ids.to(device), mask, cache=self.cache)
            logits = self.task.head(states[:, -1]).float().cpu()
        if logits.isnan().any():
            raise UserError("This model computes NaN: its training has diverged.")
        return logits

    def reorder(self, rows: Sequence[int]) -> None:
        """Go on with these rows of the batch, in this order; a row may be taken more than once."""
        index = torch.tensor(rows)
        self._starts = [self._starts[row] for row in rows]
        self._mask = self._mask[index]
        if self.cache is not None:
            self.cache.reorder(index.to(self.task.device))

    def _begin(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """An empty cache, and each row's window as ids ``(batch, longest window)``."""
        starts = self._starts or [max(len(sequence) - self.window, 0) for sequence in sequences]
        half = max(self.window // 2, 1)
        self._starts = [
            start if len(sequence) - start <= self.window else len(sequence) - half
            for start, sequence in zip(starts, sequences, strict=True)
        ]
        rows = [
            torch.tensor(sequence[start:])
            for start, sequence in zip(self._starts, sequences, strict=True)
        ]
        longest = max(map(len, rows))
        ids = torch.zeros(len(rows), longest, dtype=torch.int64)
        self._mask = torch.zeros(len(rows), longest, dtype=torch.bool)
        for place, row in enumerate(rows):
            ids[place, longest - len(row) :] = row
            self._mask[place, longest - len(row) :] = True
        self.cache = KeyValueCache(self.task.config.n_layers)
        return ids
