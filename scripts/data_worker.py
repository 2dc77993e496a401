"""One measurement of a data path, in this process alone, so that its peak of memory is its own.

Usage: python scripts/data_worker.py WHAT KIND N_WORKERS CORPUS TOKENIZER FOLDER

Prints one line of JSON: seconds, input tokens, documents, bytes of text, MiB. WHAT is one of
``WHATS``; FOLDER keeps what the first pass leaves for the later ones.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from step_workers import resident_mib

SEED = 1


@dataclass(frozen=True)
class Task:
    """What is read, and how.

    Attributes:
        kind: ``bert`` (masked) or ``gpt`` (causal).
        n_workers: Processes that prepare batches; 0 leaves it to the one that asks.
        corpus: JSONL with the field ``text``.
        tokenizer: A vocabulary file.
        folder: Where token caches and mapped datasets are kept.
    """

    kind: str
    n_workers: int
    corpus: Path
    tokenizer: Path
    folder: Path

    @property
    def seq_len(self) -> int:
        """Tokens in a row, as in the workloads A and C of the training step."""
        return 128 if self.kind == "bert" else 256

    @property
    def batch_size(self) -> int:
        """Rows in a batch."""
        return 32 if self.kind == "bert" else 16


Amounts = dict[str, float]
Run = Callable[[], Amounts]


def ours_fill(task: Task) -> Run:
    """Read and tokenize the corpus into an empty token cache."""
    module = _datamodule(task, cache=True)

    def run() -> Amounts:
        module.prepare_data()
        module.setup("fit")
        facts = [module.facts(split) for split in ("train", "validation")]
        return {"tokens": sum(fact.n_tokens for fact in facts)}

    return run


def ours_cached(task: Task) -> Run:
    """One epoch of batches from the filled cache."""
    return _epoch_of(_datamodule(task, cache=True))


def ours_stream(task: Task) -> Run:
    """One epoch of batches, tokenized on the way."""
    return _epoch_of(_datamodule(task, cache=False))


def peer_fill(task: Task) -> Run:
    """`datasets`: load, tokenize and group, as run_mlm and run_clm do before they train."""
    import data_peer

    def run() -> Amounts:
        return {"tokens": data_peer.prepare(task)}

    return run


def peer_cached(task: Task) -> Run:
    """One epoch of batches of the grouped dataset, masked by the peer's collator."""
    import data_peer

    return lambda: _count(data_peer.loader(task))


WHATS = {
    "ours_fill": ours_fill,
    "ours_cached": ours_cached,
    "ours_stream": ours_stream,
    "peer_fill": peer_fill,
    "peer_cached": peer_cached,
}


def _datamodule(task: Task, cache: bool) -> Any:
    from pretrain.data import CausalLMDataModule, MaskedLMDataModule

    kind = MaskedLMDataModule if task.kind == "bert" else CausalLMDataModule
    return kind(
        str(task.corpus),
        tokenizer=str(task.tokenizer),
        seq_len=task.seq_len,
        batch_size=task.batch_size,
        num_workers=task.n_workers,
        cache=cache,
        cache_dir=str(task.folder / "cache"),
        seed=SEED,
    )


def _epoch_of(module: Any) -> Run:
    module.prepare_data()
    module.setup("fit")
    return lambda: _count(module.train_dataloader())


def _count(loader: Any) -> Amounts:
    return {"tokens": sum(batch["input_ids"].numel() for batch in loader)}


def measure(what: str, task: Task) -> dict[str, float]:
    """Seconds and tokens of a pass, and the memory that it took beyond what was held before."""
    run = WHATS[what](task)
    held, start = resident_mib("VmRSS"), time.perf_counter()
    amounts = run()
    seconds = time.perf_counter() - start
    peak = resident_mib("VmHWM")
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    return {
        "seconds": seconds,
        **amounts,
        "peak_mib": peak,
        "net_peak_mib": peak - held,
        "largest_worker_mib": workers,
    }


if __name__ == "__main__":
    what, kind, n_workers, *paths = sys.argv[1:]
    print(json.dumps(measure(what, Task(kind, int(n_workers), *map(Path, paths)))))
