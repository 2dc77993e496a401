"""Perplexity and bits per byte on any text, packed exactly as for training."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from pretrain.data.datamodule import CausalLMDataModule, MaskedLMDataModule
from pretrain.data.text_datamodule import TextDataModule
from pretrain.errors import UserError
from pretrain.evaluation.likelihood import Scorer
from pretrain.evaluation.report import Report
from pretrain.tasks.checks import check_fit
from pretrain.tasks.metrics import LanguageModelingScore

_BLOCKS_AT_ONCE = 32


@dataclass(frozen=True)
class CausalTextReport(Report):
    """How well a causal model foretells a text.

    Attributes:
        loss: Mean over the tokens, in nats.
        perplexity: exp of it; compares models with the same tokenizer only.
        bits_per_byte: All nats in bits, over the UTF-8 bytes; compares any models.
        target_tokens: How many tokens the mean is over.
        seq_len: Tokens in a block: how much context there was at most.
    """

    loss: float
    perplexity: float
    bits_per_byte: float
    target_tokens: int
    seq_len: int


@dataclass(frozen=True)
class MaskedTextReport(Report):
    """How well a masked model fills in 15 % of a text, chosen and hidden as in validation.

    Attributes:
        loss: Mean over the hidden tokens, in nats.
        perplexity: exp of it.
        masked_accuracy: Share of the hidden tokens that were found likeliest.
        target_tokens: How many tokens were hidden.
        seq_len: Tokens in a block: how much context there was at most.
    """

    loss: float
    perplexity: float
    masked_accuracy: float
    target_tokens: int
    seq_len: int


@torch.inference_mode()
def text_loss(
    scorer: Scorer,
    source: str,
    document: str = "line",
    text_field: str = "text",
    seq_len: int | None = None,
) -> CausalTextReport | MaskedTextReport:
    """Loss on all of ``source`` (of a folder with validation files: on these).

    Documents are joined by the end token and cut into blocks; of a causal model only the first
    token of the text is no target.

    Args:
        scorer: The model, on its device and in its precision.
        source: A file, glob, folder, URL or Hugging Face name.
        document: What a document of plain text is: "line", "paragraph" or "file".
        text_field: The field of a JSONL, Parquet or hub row that holds the text.
        seq_len: Tokens in a block; None takes what the model was trained on, or where its
            checkpoint does not tell that, ``max_len``.

    Raises:
        UserError: The source can't be read, or is too short to predict anything.
    """
    task, score = scorer.task, LanguageModelingScore().to(scorer.task.device)
    with tempfile.TemporaryDirectory(prefix="pretrain-") as scratch:
        options: dict[str, Any] = {"document": document, "text_field": text_field}
        options["seq_len"] = scorer.framing.longest if seq_len is None else seq_len
        data = _data_module(scorer, source, options, Path(scratch))
        batches = tqdm(
            data.val_dataloader(), unit=" batches", leave=False,
            disable=None if scorer.progress else True,
        )  # fmt: skip
        for batch in batches:
            batch = {name: tensor.to(task.device) for name, tensor in batch.items()}
            with scorer.autocast():
                score.update(task.scores(batch), batch["n_bytes"])
    if not int(score.n_targets):
        raise UserError(f"{source} has nothing to predict: it needs more text.")
    found: dict[str, Any] = score.compute()
    del found["logit_z"]  # of interest while a model trains
    found |= {"target_tokens": int(found["target_tokens"]), "seq_len": data.seq_len}
    accuracy = found.pop("accuracy")
    if task.causal:
        return CausalTextReport(**found)
    found.pop("bits_per_byte", None)  # the masked tokens alone are no code for the text
    return MaskedTextReport(**found, masked_accuracy=accuracy)


def _data_module(
    scorer: Scorer, source: str, options: dict[str, Any], scratch: Path
) -> TextDataModule:
    """A stream over all of ``source`` as validation text."""
    task = scorer.task
    tokenizer = scratch / "tokenizer.json"
    scorer.framing.tokenizer.save(tokenizer)
    data = (CausalLMDataModule if task.causal else MaskedLMDataModule)(
        source,
        val_source=source,
        tokenizer=str(tokenizer),
        batch_size=_BLOCKS_AT_ONCE,
        cache=False,
        seed=0,
        **options,
    )
    data.setup("validate")
    check_fit(task.objective, task.config, data)
    return data
