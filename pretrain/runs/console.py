"""Lines for the user: printed once, whatever the number of processes, and above a live bar."""

import logging
import sys
import warnings

from tqdm import tqdm

from pretrain.runs.environment import is_first_rank

_ADVICE = (
    ".*does not have many workers.*",
    ".*is smaller than the logging interval.*",
    ".*Be aware that when using `ckpt_path`.*",
    ".*The dirpath has changed from.*",
    ".*It is recommended to use `self.log.*sync_dist=True.*",
    ".*LeafSpec.*is deprecated.*",
    ".*Checkpoint directory .* exists and is not empty.*",
)


def say(line: str) -> None:
    """Print one line on rank 0 without tearing a progress bar."""
    if is_first_rank():
        tqdm.write(line, file=sys.stdout)
        sys.stdout.flush()


def hush_libraries() -> None:
    """Keep Lightning's advice off the console: what matters of it, a run says in its own lines."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(_is_not_chatter)
    for advice in _ADVICE:
        warnings.filterwarnings("ignore", message=advice)


def _is_not_chatter(record: logging.LogRecord) -> bool:
    """Lets warnings pass, and what our own modules say through Lightning's logger."""
    return record.levelno > logging.INFO or "/lightning/" not in record.pathname.replace("\\", "/")
