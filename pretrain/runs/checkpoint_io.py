"""Checkpoints are whole files, or not there; and reading one never runs code."""

import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from pretrain.tasks.checkpoint_file import load_plain


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes beside the final name and renames: a failed write leaves the previous file intact.

    Lightning's own saving goes through the temporary folder of the system; moving from there onto
    a full disk destroys the file that it replaces.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write ``checkpoint``; a URL is left to Lightning's own saving."""
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        final = Path(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read plain tensors and plain values, and nothing else.

        Raises:
            UserError: The file is damaged, or holds something that could run code when it is read.
        """
        if "://" in str(path):
            return super().load_checkpoint(path, weights_only=True)
        checkpoint: dict[str, Any] = load_plain(path)
        return checkpoint
