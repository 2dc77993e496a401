"""Checkpoints are whole files, or not there; and reading one never runs code."""

import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from pretrain.errors import UserError
from pretrain.tasks.checkpoint_file import load_plain


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes beside the final name and renames: a failed write leaves the previous file intact.

    Lightning's own saving goes through the temporary folder of the system; moving from there onto
    a full disk destroys the file that it replaces.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Write ``checkpoint``; a URL is left to Lightning's own saving.

        Raises:
            UserError: The file can't be written; one that was there before is as it was.
        """
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        final = Path(path)
        temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(final)
        except (OSError, RuntimeError) as error:  # torch makes the latter of a full disk
            temporary.unlink(missing_ok=True)
            raise UserError(_not_written(final, error)) from error
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read plain tensors and plain values, and nothing else.

        Raises:
            UserError: The file is damaged, or holds something that could run code when it is read.
        """
        if "://" in str(path):
            return super().load_checkpoint(path, weights_only=True)
        checkpoint: dict[str, Any] = load_plain(path)
        return checkpoint


def _not_written(path: Path, error: Exception) -> str:
    reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0]
    kept = "what stood there before is kept" if path.exists() else "none stood there before"
    return (
        f"The checkpoint {path} can't be written ({reason}); {kept}. Free space on its disk, then "
        "repeat the command with --ckpt_path last."
    )
