"""What model and data must agree on, checked before the first step."""

from typing import Any

from pretrain.errors import UserError
from pretrain.model import TransformerConfig

_DATA_MODULES = {
    "mlm": "MaskedLMDataModule",
    "clm": "CausalLMDataModule",
    "classification": "ClassificationDataModule",
}


def check_fit(objective: str, config: TransformerConfig, data: Any) -> None:
    """Refuse a model and a DataModule that cannot work together.

    Args:
        objective: What the model learns, "mlm" or "clm".
        config: The model's shape; the network need not be built yet.
        data: A DataModule with ``objective``, ``seq_len`` and ``tokenizer``.

    Raises:
        UserError: One sentence that names both sides.
    """
    if data.objective != objective:
        raise UserError(
            f"The model's objective is {objective}, which {type(data).__name__} has no batches "
            f"for: use {_DATA_MODULES[objective]}."
        )
    if config.position == "learned" and data.seq_len > config.max_len:
        raise UserError(
            f"data.seq_len ({data.seq_len}) is longer than the {config.max_len} learned positions "
            "of model.network.max_len: shorten one or raise the other."
        )
    _check_vocabulary(config.vocab_size, data.tokenizer.vocab_size)


def _check_vocabulary(model_size: int | None, tokenizer_size: int) -> None:
    if model_size is None or model_size == tokenizer_size:
        return
    if model_size < tokenizer_size:
        raise UserError(
            f"The tokenizer's largest id is {tokenizer_size - 1}, but model.network.vocab_size is "
            f"{model_size}: leave vocab_size out (null) and it follows from the tokenizer."
        )
    # A table rounded up for the hardware is fine; a larger gap means the wrong tokenizer.
    if model_size > -(-tokenizer_size // 64) * 64:
        raise UserError(
            f"model.network.vocab_size is {model_size}, but the tokenizer has only "
            f"{tokenizer_size} tokens: leave vocab_size out (null) and it follows from the "
            "tokenizer."
        )


def check_objective(objective: str, trained_for: str) -> None:
    """Refuse to go on with, or to measure, a checkpoint of another objective.

    Raises:
        UserError: One sentence that names both.
    """
    if objective != trained_for:
        raise UserError(
            f"The checkpoint was trained for {trained_for}, but the model is configured for "
            f"{objective}: use the configuration of its own run, or start a new one with init_from."
        )
