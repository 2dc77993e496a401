"""Pictures of the inside while a network learns: in the run's folder and on the dashboard."""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from pretrain.data.files import written_whole
from pretrain.data.tokenizer import Tokenizer
from pretrain.diagnostics.attention_weights import look_inside
from pretrain.diagnostics.position_similarity import position_cosines
from pretrain.errors import UserError
from pretrain.model.sharded import local
from pretrain.runs.console import say
from pretrain.runs.inside_pictures import (
    attention_film,
    dead_units_picture,
    entropy_picture,
    positions_picture,
)
from pretrain.runs.moments import Moments
from pretrain.tasks.continuation import tokenizer_of
from pretrain.tasks.shown_text import TokenNames, framed_row

MOST_MOMENTS = 8


class ProbePictures(Callback):
    """After step 1 and after each validation of a fit, draws what the inside looks like.

    - ``entropy``: how widely each head looks, layers × heads; from the forward probe's figures.
    - ``dead_units``: the share of dead feed-forward units of each layer in the course of training.
    - ``attention``: attention maps of some heads on one sentence in the course of training.
    - ``positions``: cosines between learned positions.

    Each is a file such as ``entropy.svg``, overwritten by the next, and goes to all loggers that
    have ``log_html``, under ``pictures/``. Only the first rank draws, and nothing is summed over
    ranks; a network whose parameters are divided among ranks gets the first two only. Training is
    the same, bit for bit, with and without it; a run that is gone on with keeps its moments.

    Args:
        text: The sentence; None takes the beginning of the first row of the validation data.
        heads: Pairs of layer and head whose maps are drawn; None takes from each layer the head
            that at the moment looks most sharply.
        n_tokens: Tokens of the sentence that are shown.
        folder: Where files go; None means ``pictures/`` in the Trainer's ``default_root_dir``.

    Raises:
        UserError: A head is not there, or ``n_tokens`` is below 2.
    """

    def __init__(
        self,
        text: str | None = None,
        heads: list[list[int]] | None = None,
        n_tokens: int = 24,
        folder: Path | None = None,
    ) -> None:
        if n_tokens < 2:
            raise UserError(f"n_tokens of ProbePictures is {n_tokens}; it must be at least 2.")
        self.text, self.heads, self.n_tokens = text, heads, n_tokens
        self.folder = folder
        self._row: dict[str, list[int]] | None = None
        self._moments = Moments(MOST_MOMENTS)
        self._names = TokenNames(None)
        self._is_whole = True
        self._last_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the heads and read the text, where they are given."""
        task: Any = pl_module
        self._last_step = trainer.global_step
        _check_heads(self.heads or [], task.config)
        tokenizer = None if task.tokenizer_json is None else tokenizer_of(task)
        self._names = TokenNames(tokenizer)
        if self.text is not None:
            self._take(self._row_of(task, tokenizer))
        self._is_whole = all(local(part) is part for part in task.parameters())
        if not self._is_whole and trainer.is_global_zero:
            say("No attention maps are drawn, since parameters are divided among the processes.")

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Take the sentence from the first row, the first time."""
        if self._row is None and self.text is None and trainer.is_global_zero:
            row = _first_row(batch, self.n_tokens)
            if len(row["input_ids"]) > 1:
                self._take(row)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Draw once after the first optimizer step."""
        step = trainer.global_step
        if step == 1 and self._last_step == 0:
            self._draw(trainer, pl_module)
        self._last_step = step

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw, if this is a validation of a fit that has begun to learn."""
        is_fit = trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
        if is_fit and trainer.global_step > 0:
            self._draw(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The sentence and the moments so far."""
        return {"row": self._row, "moments": self._moments.state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with them."""
        self._row = state_dict["row"]
        self._moments.load(state_dict["moments"])

    def _take(self, row: dict[str, list[int]]) -> None:
        """Show this row from now on; maps of another one can't stand beside its own."""
        if row != self._row:
            self._moments = Moments(MOST_MOMENTS)
        self._row = row

    def _row_of(self, task: Any, tokenizer: Tokenizer | None) -> dict[str, list[int]]:
        if tokenizer is None:
            raise UserError("ProbePictures has a text, but the data has no tokenizer to read it.")
        assert self.text is not None
        return {"input_ids": framed_row(task, tokenizer, self.text, self.n_tokens)[0]}

    def _draw(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        config: Any = pl_module.config
        figures = trainer.callback_metrics
        pictures = {"entropy": entropy_picture(figures, config.n_layers, config.n_heads)}
        seen = self._look(trainer, pl_module)
        dead = [figures.get(f"ffn/dead_share/layer_{i}") for i in range(config.n_layers)]
        if None not in dead:
            seen["dead"] = torch.tensor([float(share) for share in dead])  # type: ignore[arg-type]
        if seen:
            self._moments.add(trainer.global_step, seen)
        pictures["dead_units"] = dead_units_picture(self._moments.kept)
        if "weights" in seen and self._row is not None:
            tokens = [self._names[token] for token in self._row["input_ids"]]
            pictures["attention"] = attention_film(self._moments.kept, tokens, self.heads)
        if config.position == "learned" and self._is_whole:
            embeddings: Any = pl_module.transformer.embeddings  # type: ignore[union-attr]
            pictures["positions"] = positions_picture(position_cosines(embeddings, config.max_len))
        self._publish(trainer, {name: text for name, text in pictures.items() if text})

    def _look(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Tensor]:
        """Attention weights of the sentence, one byte each, and entropy."""
        if self._row is None or not self._is_whole:
            return {}
        batch = {k: torch.tensor([v], device=pl_module.device) for k, v in self._row.items()}
        with trainer.precision_plugin.forward_context():
            inside = look_inside(pl_module, batch)
        levels = (255 * inside.weights.sqrt()).round().to(torch.uint8)
        return {"weights": levels, "entropy": inside.entropy}

    def _publish(self, trainer: Trainer, pictures: dict[str, str]) -> None:
        folder = self.folder or Path(trainer.default_root_dir) / "pictures"
        for name, text in pictures.items():
            try:
                with written_whole(folder / f"{name}.svg") as temporary:
                    temporary.write_text(text, encoding="utf-8")
            except UserError as error:  # no reason to end a training
                say(f"A picture is left out: {error}")
            for logger in trainer.loggers:
                if hasattr(logger, "log_html"):
                    logger.log_html(f"pictures/{name}", text, trainer.global_step)


def _first_row(batch: Any, n_tokens: int) -> dict[str, list[int]]:
    """The first real tokens of a batch's first row, and what belongs to them."""
    ids = batch["input_ids"][0]
    real = batch["attention_mask"][0].bool() if "attention_mask" in batch else ids == ids
    names = [name for name in ("input_ids", "segment_ids") if name in batch]
    return {name: batch[name][0][real][:n_tokens].tolist() for name in names}


def _check_heads(heads: list[list[int]], config: Any) -> None:
    for pair in heads:
        limits = (config.n_layers, config.n_heads)
        if len(pair) != 2 or not all(0 <= i < n for i, n in zip(pair, limits, strict=True)):
            raise UserError(
                f"ProbePictures is asked for head {pair}, but a pair of layer and head is needed, "
                f"below {config.n_layers} and {config.n_heads}."
            )
