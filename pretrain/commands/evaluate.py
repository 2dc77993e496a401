"""``pretrain validate``, ``test``, ``predict``: use a checkpoint on data, without a run folder."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities.exceptions import MisconfigurationException

from pretrain.commands.configured import ConfiguredCLI
from pretrain.errors import UserError
from pretrain.runs.folder import RunFolder


def validate(argv: list[str]) -> None:
    """Measure a checkpoint on the whole validation split."""
    EvaluateCLI("validate", argv).evaluate()


def test(argv: list[str]) -> None:
    """Measure a checkpoint on the test split."""
    EvaluateCLI("test", argv).evaluate()


def predict(argv: list[str]) -> None:
    """Print the loss of every block of the test split, one JSON object a line."""
    rows = chain.from_iterable(EvaluateCLI("predict", argv).evaluate())
    for block, row in enumerate(row for row in rows if row.n_targets):
        n_targets = int(row.n_targets)
        print(json.dumps({"block": block, "loss_nats": float(row.nll) / n_targets,
                          "target_tokens": n_targets, "correct": int(row.n_correct)}))  # fmt: skip


class EvaluateCLI(ConfiguredCLI):
    """Takes architecture and tokenizer from the checkpoint, and runs one of Lightning's loops."""

    def __init__(self, command: str, argv: list[str]) -> None:
        self.command = command
        super().__init__(command, argv)

    def before_instantiate_classes(self) -> None:
        """Find the checkpoint; keep Lightning from making a log folder."""
        self.checkpoint = self._find_checkpoint()
        self.adopt(self.checkpoint)
        trainer = self.config.trainer
        trainer.logger = trainer.logger or False
        trainer.enable_checkpointing = trainer.enable_model_summary = False

    def evaluate(self) -> list[Any]:
        """Run the loop, whose figures Lightning prints; returns what it gives."""
        loop = getattr(self.trainer, self.command)
        try:
            return loop(self.model, datamodule=self.datamodule, ckpt_path=self.checkpoint)
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
