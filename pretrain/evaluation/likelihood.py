"""How likely a text is to a model.

Causal models give the log-probability of a text: the sum over its tokens, each given those before
it. Masked models give a pseudo-log-likelihood (Salazar et al. 2020, "Masked Language Model
Scoring", equation 1): the sum over its tokens, each hidden in turn and given all others.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from pretrain.errors import UserError
from pretrain.evaluation.queries import Framing, Query
from pretrain.evaluation.readings import Reading, causal_readings, masked_readings
from pretrain.hardware import resolve_precision
from pretrain.tasks import LanguageModel
from pretrain.tasks.losses import CHUNK

# Tokens in a batch: what fits a CPU's cache is read a quarter faster than four times as many; a
# GPU wants to be kept busy.
TOKENS_ON_CPU, TOKENS_ON_GPU = 2048, 65_536
_REDUCED = {"bf16": torch.bfloat16, "16": torch.float16}


class Likelihood(NamedTuple):
    """What a model says of one text.

    Attributes:
        log_probability: Of all tokens that were asked for, in nats.
        n_tokens: How many these are.
        is_likeliest: Whether each of them was the likeliest in its place.
    """

    log_probability: float
    n_tokens: int
    is_likeliest: bool


class Scorer:
    """Asks one model for the likelihood of many texts, in batches of like length.

    The network runs in the precision that its device is fast in; probabilities are taken in
    float32 from the last hidden states on.

    Args:
        task: A causal or masked language model, in evaluation mode, on the device to use.
        precision: Of the network: ``auto``, or a name that Lightning has for one.
        progress: Whether to show a bar.

    Raises:
        UserError: The model is no language model, or its tokenizer lacks what it takes.
    """

    def __init__(
        self, task: LanguageModel, precision: str = "auto", progress: bool = False
    ) -> None:
        self.task, self.progress = task, progress
        self.framing = Framing(task)
        self.precision = resolve_precision(precision, task.device.type)
        self._dtype = _REDUCED.get(self.precision.partition("-")[0])

    def texts(self, texts: Sequence[str]) -> list[Likelihood]:
        """Of whole texts; those that are the same are computed once.

        A causal model reads the first token behind an end token, as at the start of a document.

        Raises:
            UserError: A text can't be read, or the model computes NaN.
        """
        distinct = list(dict.fromkeys(texts))
        found = dict(zip(distinct, self._answers(self.framing.texts(distinct)), strict=True))
        return [found[text] for text in texts]

    def continuations(
        self, contexts: Sequence[str], continuations: Sequence[str], hides_rest: bool = False
    ) -> list[Likelihood]:
        """Of each continuation given its context, both tokenized as one text.

        Args:
            contexts: What stands before; may be empty.
            continuations: What is asked for, its own leading space included.
            hides_rest: For masked models: give each token those before it only. The sum is then
                a log-probability by the chain rule, and no piece of a word betrays another
                (Kauf & Ivanova 2023, "A Better Way to Do Masked Language Model Scoring").

        Raises:
            UserError: A text can't be read, or the model computes NaN.
        """
        return self._answers(self.framing.continuations(contexts, continuations, hides_rest))

    def autocast(self) -> torch.autocast:
        """The context in which the network runs in ``precision``."""
        return torch.autocast(self.task.device.type, self._dtype, enabled=self._dtype is not None)

    @torch.inference_mode()
    def _answers(self, queries: Sequence[Query]) -> list[Likelihood]:
        sums = np.zeros(len(queries))
        is_likeliest = np.ones(len(queries), dtype=bool)
        n_tokens = [query.n_tokens for query in queries]
        with tqdm(
            total=sum(n_tokens), unit=" tokens", unit_scale=True, leave=False,
            disable=None if self.progress else True,
        ) as bar:  # fmt: skip
            for reading in self._readings(queries):
                log_probabilities, hits = self._read(reading)
                np.add.at(sums, reading.queries, log_probabilities)
                np.logical_and.at(is_likeliest, reading.queries, hits)
                bar.update(len(hits))
        if np.isnan(sums).any():
            raise UserError("This model computes NaN: its training has diverged.")
        return [
            Likelihood(float(total), n, bool(hit))
            for total, n, hit in zip(sums, n_tokens, is_likeliest, strict=True)
        ]

    def _readings(self, queries: Sequence[Query]) -> Iterator[Reading]:
        if not queries:
            return iter(())
        tokenizer, config = self.framing.tokenizer, self.task.config
        n_tokens = TOKENS_ON_CPU if self.task.device.type == "cpu" else TOKENS_ON_GPU
        longest = config.max_len if config.position == "learned" else None
        filler_id = 0 if tokenizer.pad_id is None else tokenizer.pad_id
        if self.task.causal:
            return causal_readings(queries, filler_id, n_tokens, longest)
        assert tokenizer.mask_id is not None
        return masked_readings(queries, tokenizer.mask_id, filler_id, n_tokens, longest)

    def _read(self, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
        """Log-probability of each target, float64, and whether it is the likeliest token."""
        device = self.task.device
        batch = {"input_ids": torch.from_numpy(reading.input_ids).to(device)}
        if reading.real is not None:
            batch["attention_mask"] = torch.from_numpy(reading.real).to(device)
        rows, columns = torch.from_numpy(reading.rows), torch.from_numpy(reading.columns)
        targets = torch.from_numpy(reading.targets).to(device)
        with self.autocast():
            hidden = self.task.hidden_states(batch)[rows.to(device), columns.to(device)]
            hidden = self.task.head.transform(hidden)
        pairs = zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True)
        found = [self._predict(states, labels) for states, labels in pairs]
        log_probabilities, hits = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        return log_probabilities.double().numpy(), hits.numpy()

    def _predict(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        decoder = self.task.head.decoder
        bias = None if decoder.bias is None else decoder.bias.float()
        logits = F.linear(hidden.float(), decoder.weight.float(), bias)
        chosen = logits.gather(1, targets[:, None])[:, 0]
        return chosen - logits.logsumexp(dim=-1), logits.argmax(dim=-1) == targets
