"""Where caches lie, and how a file gets its final name: complete or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pretrain.errors import UserError


def default_cache_dir() -> Path:
    """``$XDG_CACHE_HOME/pretrain``, or ``~/.cache/pretrain``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pretrain"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path`` that takes its name only if the block succeeds.

    Raises UserError where it can't be written: a full disk, no permission, a folder of that name.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        # mkstemp makes files that only their owner may read; caches and tokenizers are shared.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path} can't be written ({error.strerror or error})") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
