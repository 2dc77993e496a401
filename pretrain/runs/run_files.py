"""The files of a run that are written once, when data and network are ready."""

from collections.abc import Callable, Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from pretrain.data.files import written_whole
from pretrain.runs.console import say
from pretrain.runs.environment import code_version
from pretrain.runs.folder import RunFolder


class RunFiles(Callback):
    """Writes ``config.yaml`` and ``tokenizer.json``, and tells the loggers the configuration.

    Args:
        folder: the run's folder.
        config: the configuration as YAML text, given whether tokens come from a cache (None where
            the DataModule does not say).
        settings: the same as nested plain values, for the loggers.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: Callable[[bool | None], str],
        settings: Mapping[str, Any],
    ) -> None:
        self.folder = folder
        self.config = config
        self.settings = settings

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write, on the first rank."""
        if not trainer.is_global_zero:
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        with written_whole(self.folder.config) as temporary:
            text = self.config(getattr(data, "uses_cache", None))
            temporary.write_text(text, encoding="utf-8")
        tokenizer = getattr(data, "tokenizer", None)
        if tokenizer is not None:
            tokenizer.save(self.folder.tokenizer)
        for note in getattr(data, "notes", ()):
            say(note)
        for logger in trainer.loggers:
            logger.log_hyperparams({**self.settings, "code_version": code_version()})
