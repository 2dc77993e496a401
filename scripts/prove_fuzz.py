"""Nothing that a file or a command line can hold ends in a traceback, a hang or a silent loss.

Usage: python scripts/prove_fuzz.py --json FILE [--n 20000] [--kinds jsonl checkpoint] [--seed 1]
Each input is made from its number, is read in a process of its kind, and has to give a result or
one sentence. A failure is named with its kind and number, which --first makes again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

# Shares of the inputs; what is slower to read is read less often.
SHARES = {"txt": 22, "jsonl": 22, "csv": 12, "tsv": 6, "parquet": 4, "checkpoint": 10,
          "tokenizer": 12, "published": 6, "configuration": 3, "command_line": 3}  # fmt: skip
HANG_S = 60
_START_S = 600  # imports on a busy machine
_MEMORY_BYTES = 12 << 30  # an absurd size becomes an error instead of the end of the machine
_FAILURES_SHOWN = 50


def main(argv: list[str] | None = None) -> None:
    """Read all inputs, write counts by kind and outcome, exit with 1 on any failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--n", type=int, default=20_000, help="inputs in all")
    parser.add_argument("--kinds", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    options = parser.parse_args(argv)
    total = sum(SHARES[kind] for kind in options.kinds)
    report: dict[str, Any] = {"seed": options.seed, "outcomes": {}, "failures": []}
    for kind in options.kinds:
        n = max(1, options.n * SHARES[kind] // total)
        outcomes, failures = fuzz(kind, options.seed, options.first, n)
        report["outcomes"][kind] = dict(outcomes)
        report["failures"] += failures[:_FAILURES_SHOWN]
        print(f"{kind:<14} {dict(outcomes)}", flush=True)
    report["n_inputs"] = sum(sum(counts.values()) for counts in report["outcomes"].values())
    report["n_failures"] = sum(
        count
        for counts in report["outcomes"].values()
        for outcome, count in counts.items()
        if outcome not in ("result", "refused")
    )
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{report['n_inputs']:,} inputs, {report['n_failures']} failures")
    sys.exit(report["n_failures"] > 0)


def fuzz(kind: str, seed: int, first: int, n: int) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Outcome → count, and what failed, of inputs ``first`` to ``first + n`` of a kind.

    A process that hangs or dies is replaced, and goes on behind the input that did it.
    """
    outcomes: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    number, end = first, first + n
    while number < end:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_read_all, args=(kind, seed, number, end, sender))
        process.start()
        sender.close()
        receiver.poll(_START_S)
        receiver.recv()  # it has its imports
        is_alive = True
        while is_alive and number < end:
            outcome, detail = _next(receiver)
            outcomes[outcome] += 1
            if outcome not in ("result", "refused"):
                failures.append({"kind": kind, "number": number, outcome: detail})
                print(kind, number, outcome, detail, flush=True)
            is_alive = outcome not in ("hang", "crash")
            number += 1
        process.kill() if not is_alive else process.join()
        process.join()
    return outcomes, failures


def _next(receiver: Any) -> tuple[str, str]:
    if not receiver.poll(HANG_S):
        return "hang", f"no answer within {HANG_S} s"
    try:
        outcome, detail = receiver.recv()
    except EOFError:
        return "crash", "the process died"
    return outcome, detail


def _read_all(kind: str, seed: int, first: int, end: int, answers: Any) -> None:
    """The child: read inputs one after the other, in an empty folder each."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    os.environ["WANDB_MODE"] = "disabled"
    read = reader_of(kind)
    answers.send(("ready", ""))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
        os.environ["HF_HOME"] = os.environ["XDG_CACHE_HOME"] = home
        os.chdir(home)
        for number in range(first, end):
            with tempfile.TemporaryDirectory(dir=home) as folder:
                answers.send(judge(read, Random(f"{seed} {kind} {number}"), Path(folder)))


def reader_of(kind: str) -> Callable[[Random, Path], None]:
    """What reads an input of a kind."""
    # Here, so that the parent need not wait for torch.
    import fuzz_commands
    from fuzz_corpora import FORMATS, read_corpus

    if kind in FORMATS:
        return lambda rng, folder: read_corpus(rng, folder, kind)
    reader: Callable[[Random, Path], None] = getattr(fuzz_commands, kind)
    return reader


def judge(read: Callable[[Random, Path], None], rng: Random, folder: Path) -> tuple[str, str]:
    """(outcome, detail) of one input."""
    from fuzz_corpora import SilentLossError

    from pretrain.errors import UserError

    try:
        read(rng, folder)
    except UserError as error:
        lines = str(error).splitlines()
        return ("refused", "") if len(lines) == 1 else ("not one line", str(error)[:500])
    except SilentLossError as error:
        return "silent loss", str(error)
    except BaseException as error:  # a panic of Rust is no Exception
        place = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in place if "/pretrain/" in frame.filename] or list(place)
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return "traceback", f"{type(error).__name__} at {where}: {str(error)[:300]}"
    return "result", ""


if __name__ == "__main__":
    main()
