"""Texts while a language model learns: what it writes, or puts where tokens are hidden."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from pretrain.data.tokenizer import Tokenizer
from pretrain.diagnostics.forward_probe import real_tokens, undisturbed
from pretrain.errors import UserError
from pretrain.runs import samples_file
from pretrain.runs.run_files import RunFiles
from pretrain.tasks.continuation import encode_prompt, tokenizer_of
from pretrain.tasks.fill_mask import fill_masks
from pretrain.tasks.language_model import LanguageModel
from pretrain.tasks.sampling import Decoding, sample

_PROMPT_TOKENS = 8  # of a validation row that a causal model goes on with
_SHOWN_TOKENS = 40  # of a validation row whose hidden tokens are filled
_ROWS = 3


class Samples(Callback):
    """At each validation of a fit a few texts, the same prompts each time, as a table in the run.

    A causal model goes on with the first eight tokens of the first three validation rows, once
    greedily and once drawn with a fixed seed. A masked one fills the hidden tokens of these rows,
    shown as ``[truth -> likeliest guess, its probability]``. They go to ``samples.jsonl`` in the
    run's folder and to the loggers that take tables. The training is bit-equal without them.

    Where weights are divided among processes (FSDP2) there are none, since the first rank writes
    them alone; of other tasks than language models neither.

    Args:
        prompts: Texts to go on with, or with a ``[MASK]`` to fill; None takes validation rows.
        n_tokens: Tokens that a causal model writes after each prompt.

    Raises:
        UserError: A number is below 1, or there is no prompt in the list.
    """

    def __init__(self, prompts: list[str] | None = None, n_tokens: int = 24) -> None:
        if n_tokens < 1 or prompts == []:
            raise UserError(
                f"Samples have n_tokens {n_tokens} and prompts {prompts}: give at least 1 of each."
            )
        self.prompts = prompts
        self.n_tokens = n_tokens
        self._rows: dict[str, Tensor] = {}  # of the first validation batch
        self._has_complained = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say where samples are left out."""
        if isinstance(pl_module, LanguageModel) and pl_module.device_mesh is not None:
            rank_zero_info("No samples are written: the weights are divided among processes.")

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the first rows of the split."""
        if batch_idx == 0 and _has_samples(trainer, pl_module):
            self._rows = _first_rows(batch)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write, keep and show the samples."""
        if not self._rows or not _has_samples(trainer, pl_module):
            return
        try:
            with undisturbed(pl_module), trainer.precision_plugin.forward_context():
                texts = self.texts(pl_module, self._rows)  # type: ignore[arg-type]
        except UserError as error:  # NaN, no tokenizer, a prompt that the model can't read
            if not self._has_complained:
                rank_zero_info(f"No samples at step {trainer.global_step}: {error}")
            self._has_complained = True
            return
        samples = [{"step": trainer.global_step, **text} for text in texts]
        if samples:
            _keep(trainer, samples)

    def texts(self, task: LanguageModel, rows: dict[str, Tensor]) -> list[dict[str, Any]]:
        """The samples of ``task`` on validation rows, as plain values by name.

        Raises:
            UserError: The model computes NaN or has no tokenizer, or a prompt has no mask.
        """
        tokenizer = tokenizer_of(task)
        if not task.causal:
            if self.prompts is None:
                return filled_rows(task, tokenizer, rows)
            return [filled_prompt(task, prompt) for prompt in self.prompts]
        if self.prompts is not None:
            prompts = [encode_prompt(tokenizer, prompt) for prompt in self.prompts]
        else:
            lengths = real_tokens(rows).sum(dim=1).clamp(1, _PROMPT_TOKENS).tolist()
            prompts = [
                row[:length]
                for row, length in zip(rows["input_ids"].tolist(), lengths, strict=True)
            ]
        return [
            {"prompt": tokenizer.decode(prompt), "greedy": greedy, "sampled": drawn}
            for prompt, greedy, drawn in zip(
                prompts, self._written(task, prompts, 0.0), self._written(task, prompts, 1.0),
                strict=True,
            )
        ]  # fmt: skip

    def _written(
        self, task: LanguageModel, prompts: list[list[int]], temperature: float
    ) -> list[str]:
        decoding = Decoding(self.n_tokens, temperature)
        *_, last = sample(task, prompts, decoding, seeds=range(len(prompts)))
        return [row.text for row in last]


def filled_prompt(task: LanguageModel, prompt: str) -> dict[str, Any]:
    """A text with masks, and the likeliest token for each of them."""
    guesses = [best for best, *_ in fill_masks(task, prompt, top_k=1)]
    said = ", ".join(f"{guess.token} {guess.probability:.0%}" for guess in guesses)
    return {"prompt": prompt, "guesses": said}


def filled_rows(
    task: LanguageModel, tokenizer: Tokenizer, rows: dict[str, Tensor]
) -> list[dict[str, Any]]:
    """Of each row its beginning, with the truth and the likeliest guess where tokens are hidden."""
    ids, places = rows["input_ids"], rows["masked_positions"]  # the latter into the flattened rows
    logits = task.head(task.hidden_states(rows).flatten(0, 1)[places]).float()
    logits[:, list(tokenizer.special_ids)] = -torch.inf
    best = logits[:, : tokenizer.vocab_size].softmax(dim=-1).max(dim=-1)
    figures = (rows["labels"].tolist(), best.indices.tolist(), best.values.tolist())
    guesses = dict(zip(places.tolist(), zip(*figures, strict=True), strict=True))
    lengths = real_tokens({"input_ids": ids, **_mask_of(rows)}).sum(dim=1).tolist()
    return [
        _filled(tokenizer, row[: min(length, _SHOWN_TOKENS)], number * ids.shape[1], guesses)
        for number, (row, length) in enumerate(zip(ids.tolist(), lengths, strict=True))
    ]


def _filled(
    tokenizer: Tokenizer, row: list[int], start: int, guesses: dict[int, tuple[int, int, float]]
) -> dict[str, Any]:
    """A row whose first token is at ``start``; ``guesses`` are truth, guess, probability."""
    parts: list[str] = []
    plain: list[int] = []
    hidden = right = 0
    for place, token in enumerate(row, start):
        if place not in guesses:
            plain += [] if token == tokenizer.cls_id else [token]
            continue
        truth, guess, probability = guesses[place]
        names = [tokenizer.decode([one]).strip() for one in (truth, guess)]
        parts += [tokenizer.decode(plain), f"[{names[0]} -> {names[1]} {probability:.0%}]"]
        plain, hidden, right = [], hidden + 1, right + (truth == guess)
    text = " ".join(part for part in [*parts, tokenizer.decode(plain)] if part)
    return {"text": text, "hidden": hidden, "right": right}


def _mask_of(rows: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: rows[name] for name in ("attention_mask",) if name in rows}


def _first_rows(batch: dict[str, Any]) -> dict[str, Tensor]:
    """The first rows of a causal or masked batch, with what is hidden in them."""
    ids = batch["input_ids"][:_ROWS]
    rows = {"input_ids": ids, **{k: v[:_ROWS] for k, v in _mask_of(batch).items()}}
    if "masked_positions" not in batch:
        return {**rows, "labels": batch["labels"][:_ROWS]}
    places, labels = batch["masked_positions"], batch["labels"]
    ours = (labels != -100) & (places < ids.numel())
    return {**rows, "masked_positions": places[ours], "labels": labels[ours]}


def _has_samples(trainer: Trainer, pl_module: LightningModule) -> bool:
    return (
        trainer.is_global_zero
        and trainer.state.fn == TrainerFn.FITTING
        and not trainer.sanity_checking
        and isinstance(pl_module, LanguageModel)
        and pl_module.device_mesh is None
    )


def _keep(trainer: Trainer, samples: list[dict[str, Any]]) -> None:
    """In the run's folder, where there is one, and as a table in its loggers."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunFiles):
            samples_file.append(callback.folder.samples, samples)
    columns, rows = samples_file.as_table(samples)
    for logger in trainer.loggers:
        if hasattr(logger, "log_table"):
            logger.log_table(samples_file.TABLE, columns, rows, trainer.global_step)
