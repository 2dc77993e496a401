"""Memory stays flat: peak while tokenizing a whole corpus against that for its first tenth.

Usage: PRETRAIN_TEST_DATA=DATA python scripts/prove_memory.py --json FILE
Each figure is the peak of a fresh process, which reads english_books through one of the data paths.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ALLOWED_MIB = 300
PATHS = ("cache", "stream")


def main() -> None:
    """Measure both paths, write the figures, exit with 1 if one grows too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    target = parser.parse_args().json
    books = Path(os.environ["PRETRAIN_TEST_DATA"]) / "english_books" / "train.jsonl.gz"
    with tempfile.TemporaryDirectory() as folder:
        corpora = {
            "tenth": first_part(books, 0.1, Path(folder) / "tenth.jsonl"),
            "whole": first_part(books, 1.0, Path(folder) / "whole.jsonl"),
        }
        tokenizer = train_tokenizer(corpora["tenth"], Path(folder))
        figures: dict[str, Any] = {}
        for path, (name, corpus) in itertools.product(PATHS, corpora.items()):
            figures[f"{path}_{name}_peak_mib"] = peak_mib(path, corpus, tokenizer, Path(folder))
    for path in PATHS:
        growth = figures[f"{path}_whole_peak_mib"] - figures[f"{path}_tenth_peak_mib"]
        figures[f"{path}_growth_mib"] = growth
    figures["is_flat"] = all(figures[f"{path}_growth_mib"] <= ALLOWED_MIB for path in PATHS)
    target.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    sys.exit(not figures["is_flat"])


def first_part(books: Path, share: float, target: Path) -> Path:
    """Write the first share of the documents as plain JSONL."""
    with gzip.open(books, "rt", encoding="utf-8") as file:
        n_documents = sum(1 for _ in file)
        file.seek(0)
        with target.open("w", encoding="utf-8") as out:
            out.writelines(itertools.islice(file, int(n_documents * share)))
    return target


def train_tokenizer(corpus: Path, folder: Path) -> Path:
    """A byte-level BPE of 8,192 entries, so that its training is no part of the figures."""
    target = folder / "tokenizer.json"
    command = [sys.executable, __file__, "train", str(corpus), str(target)]
    subprocess.run(command, check=True)
    return target


def peak_mib(path: str, corpus: Path, tokenizer: Path, folder: Path) -> float:
    """Peak memory of a fresh process that tokenizes the corpus through one of the paths."""
    command = [sys.executable, __file__, path, str(corpus), str(tokenizer), str(folder / "cache")]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def train_in_this_process(corpus: str, target: str) -> None:
    """Train a tokenizer on the corpus and save it."""
    from pretrain.data.source import TextSource
    from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer

    rule = TokenizerRule("bpe", 8192)
    train_tokenizer(TextSource(corpus).texts("train"), rule).save(target)


def read_in_this_process(path: str, corpus: str, tokenizer: str, cache_dir: str) -> None:
    """Read every training batch of one epoch and print this process's peak memory in MiB."""
    from pretrain.data.datamodule import CausalLMDataModule

    datamodule = CausalLMDataModule(
        source=corpus, tokenizer=tokenizer, cache=path == "cache", cache_dir=cache_dir, seed=1
    )
    datamodule.prepare_data()
    datamodule.setup("fit")
    for _ in datamodule.train_dataloader():
        pass
    scale = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss: bytes there, KiB on Linux
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale)


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train_in_this_process(*sys.argv[2:])
    elif sys.argv[1] in PATHS:
        read_in_this_process(*sys.argv[1:])
    else:
        main()
