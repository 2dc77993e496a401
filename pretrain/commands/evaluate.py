"""``pretrain validate``, ``test``, ``predict``: use a checkpoint on data, without a run folder."""

import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities.exceptions import MisconfigurationException

from pretrain.commands.configured import ConfiguredCLI
from pretrain.errors import UserError
from pretrain.runs.console import say
from pretrain.runs.folder import RunFolder
from pretrain.runs.predictions import labelled_lines
from pretrain.tasks import Classification


def validate(argv: list[str]) -> None:
    """Measure a checkpoint on the whole validation split."""
    _print_figures(EvaluateCLI("validate", argv).evaluate())


def test(argv: list[str]) -> None:
    """Measure a checkpoint on the test split, or where there is none on the validation split."""
    cli = EvaluateCLI("test", argv)
    figures = cli.evaluate()
    if "test" not in cli.datamodule.corpus.splits:
        say("There is no test split: these are the validation split's figures.")
    _print_figures(figures)


def predict(argv: list[str]) -> None:
    """Print what the model makes of the test split, one JSON object a line.

    A language model its loss on every block, a classifier its label for every example.
    """
    cli = EvaluateCLI("predict", argv)
    rows = chain.from_iterable(cli.evaluate())
    lines = _labelled(rows, cli) if isinstance(cli.model, Classification) else _losses(rows)
    for line in lines:
        print(json.dumps(line, ensure_ascii=False))


def _losses(rows: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for block, row in enumerate(row for row in rows if row.n_targets):
        n_targets = int(row.n_targets)
        yield {"block": block, "loss_nats": float(row.nll) / n_targets,
               "target_tokens": n_targets, "correct": int(row.n_correct)}  # fmt: skip


def _labelled(rows: Iterator[dict[str, Any]], cli: "EvaluateCLI") -> Iterator[dict[str, Any]]:
    split = "test" if "test" in cli.datamodule.corpus.splits else "validation"
    return labelled_lines(rows, cli.datamodule.examples(split))


def _print_figures(results: list[Any]) -> None:
    for name, value in results[0].items():
        if name != "step":
            is_whole = math.isfinite(value) and value == int(value)
            figure = f"{value:,.0f}" if is_whole else f"{value:.6f}"
            say(f"{name:<24} {figure}")


class EvaluateCLI(ConfiguredCLI):
    """Takes architecture and tokenizer from the checkpoint, and runs one of Lightning's loops."""

    def __init__(self, command: str, argv: list[str]) -> None:
        self.command = command
        super().__init__(command, argv)

    def before_instantiate_classes(self) -> None:
        """Find the checkpoint; keep Lightning from making a log folder."""
        self.checkpoint = self._find_checkpoint()
        step = self.adopt(self.checkpoint, "evaluate")["global_step"]
        trainer = self.config.trainer
        if self.command == "predict":
            trainer.enable_progress_bar = False  # standard output holds the rows and nothing else
        else:
            say(f"Checkpoint {self.checkpoint}, step {step:,}.")
        if not any(word.startswith("--trainer.limit_val_batches") for word in self.argv):
            trainer.limit_val_batches = None  # a recipe limits the looks on the way, not this one
        trainer.logger = trainer.logger or False
        trainer.enable_checkpointing = trainer.enable_model_summary = False

    def evaluate(self) -> list[Any]:
        """Run the loop over the checkpoint; returns what it gives."""
        loop = getattr(self.trainer, self.command)
        quiet = {} if self.command == "predict" else {"verbose": False}
        try:
            return loop(self.model, datamodule=self.datamodule, ckpt_path=self.checkpoint, **quiet)
        except MisconfigurationException as error:
            raise UserError(str(error).splitlines()[0]) from error

    def _find_checkpoint(self) -> Path:
        asked, name = self.config.ckpt_path, self.config.run_name
        if asked not in (None, "last", "best"):
            return Path(asked)
        if name is None:
            raise UserError(
                "Give the checkpoint to use: --ckpt_path PATH, or --run_name NAME with "
                "--ckpt_path last or best."
            )
        folder = RunFolder(Path(self.config.runs_dir) / name)
        return folder.last if asked == "last" else folder.best
