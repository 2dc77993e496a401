"""A run that was interrupted and goes on ends as the run that never was.

Usage: python scripts/prove_resume.py --json FILE [--only TEXT] [--kills 20]
Each row of the table trains a tiny model by ``pretrain fit``, interrupts it, repeats the same
command, and compares the last checkpoint (weights, optimizer states, schedule, scaler, place in the
data) and the columns train/loss and lr of metrics.csv with those of the uninterrupted run: bit for
bit on one process, within 1e-6 on two.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent
SOURCES = ("file", "shards", "mixture", "stream of a file", "stream of shards")
WORKERS, RANKS = (0, 2), (1, 2)
POINTS = ("middle of an epoch", "end of an epoch", "start of an epoch", "second epoch",
          "twice in a row")  # fmt: skip
HOWS = ("SIGTERM", "SIGINT", "SIGUSR1", "kill", "exception")
EXIT_STATUS = {"SIGTERM": 143, "SIGINT": 130, "SIGUSR1": -9, "kill": -9, "exception": 1}
RTOL_OF_RANKS = 1e-6
LIMIT_S = 300
RECIPE = """
model:
  class_path: CausalLM
  init_args:
    network: {d_model: 16, n_layers: 1, n_heads: 2, dropout: 0.1, max_len: 32}
data:
  class_path: CausalLMDataModule
  init_args: {tokenizer: {kind: char}, seq_len: 32, batch_size: 4}
trainer:
  accelerator: cpu
  precision: 32-true
  log_every_n_steps: 1
  val_check_interval: 3
  check_val_every_n_epoch: null
  limit_val_batches: 1
  enable_progress_bar: false
  logger: false
"""


@dataclass(frozen=True)
class Case:
    """One row: what is trained, where it is interrupted (epoch, micro-batch), and how."""

    source: str
    workers: int = 0
    ranks: int = 1
    point: str = "middle of an epoch"
    how: str = "SIGTERM"
    accumulate: int = 1
    micro_batch: int = 7
    half: bool = False

    @property
    def n_steps(self) -> int:
        """About one epoch and a half; on a stream each of 48 virtual shards packs for itself."""
        n_batches = {"file": 24, "shards": 24, "mixture": 42}.get(self.source, 64)
        return max(n_batches // (self.accumulate * self.ranks), 4)

    @property
    def places(self) -> list[tuple[int, int]]:
        """(epoch, micro-batch) of each interruption."""
        batch = self.micro_batch // self.ranks
        first, second = (0, batch), (1, batch)
        return {"middle of an epoch": [first], "end of an epoch": [(0, -1)],
                "start of an epoch": [(1, 1)], "second epoch": [second],
                "twice in a row": [first, second]}[self.point]  # fmt: skip


def table() -> Iterator[Case]:
    """Every source, number of workers and of ranks, and point, the ways to be interrupted in turn;
    then accumulation and half precision.
    """
    hows = itertools.cycle(HOWS)
    for source, workers, ranks, point in itertools.product(SOURCES, WORKERS, RANKS, POINTS):
        yield Case(source, workers, ranks, point, next(hows))
    for how, micro_batch in itertools.product(HOWS, (5, 6, 7)):  # of the second window
        yield Case("file", how=how, accumulate=4, micro_batch=micro_batch)
    for point, how in itertools.product(POINTS, ("SIGTERM", "exception")):
        yield Case("file", point=point, how=how, half=True)


def main(argv: list[str] | None = None) -> None:
    """Prove each row and the kills at random moments; write the table; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where the table goes")
    parser.add_argument("--only", default="", help="rows whose description holds this text")
    parser.add_argument("--kills", type=int, default=20, help="at random moments, in a row")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        rows = []
        for case in table():
            if options.only in str(case):
                rows.append({**asdict(case), **bench.prove(case)})
                print(json.dumps(rows[-1]), flush=True)
        kills = bench.prove_kills(options.kills) if options.kills else {"differences": []}
    report = {"rows": rows, "kills": kills, "n_rows": len(rows)}
    report["n_unequal"] = sum(bool(row["differences"]) for row in [*rows, kills])
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows, {len(kills.get('steps', []))} kills, {report['n_unequal']} unequal")
    sys.exit(report["n_unequal"] > 0)


class Bench:
    """A folder with corpora, a recipe and runs; runs that were never interrupted are made once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._references: dict[tuple[Any, ...], Path] = {}
        self._n_runs = itertools.count()
        write_corpora(place)
        (place / "recipe.yaml").write_text(RECIPE)

    def prove(self, case: Case) -> dict[str, Any]:
        """Where ``case`` was interrupted and could go on from, and what differs in the end."""
        reference = self.reference(case)
        name, saved = f"run_{next(self._n_runs)}", []
        for epoch, batch in case.places:
            strike = (
                "--trainer.callbacks+=interruptions.Interruption",
                f"--trainer.callbacks.how={case.how}", f"--trainer.callbacks.epoch={epoch}",
                f"--trainer.callbacks.batch={batch}",
            )  # fmt: skip
            status = self.fit(case, name, *strike)
            if status != EXIT_STATUS[case.how]:
                return {"differences": [f"exit status {status} at {epoch, batch}"]}
            saved.append(load(self.place / "runs" / name)["global_step"])
        status = self.fit(case, name)
        if status:
            return {"saved": saved, "differences": [f"exit status {status} at the end"]}
        rtol = RTOL_OF_RANKS if case.ranks > 1 else 0.0
        return {
            "saved": saved, "differences": compare(reference, self.place / "runs" / name, rtol)
        }  # fmt: skip

    def prove_kills(self, n_kills: int) -> dict[str, Any]:
        """Kill one run at random moments, let it come to its end, and compare.

        ``steps`` are those that it went on from after each kill, None where it had none yet.
        """
        case, draw, steps = Case("file"), random.Random(1), []
        options = ("--trainer.max_steps", str(100 * n_kills))
        if self.fit(case, "unkilled", *options):
            return {"differences": ["the run that was not killed failed"]}
        run = self.place / "runs" / "killed"
        for _ in range(n_kills):
            status = self.fit(case, "killed", *options, kill_after_s=draw.uniform(0.5, 3.0))
            if status != -signal.SIGKILL:
                return {"steps": steps, "differences": [f"exit status {status} before the kill"]}
            steps.append(load(run)["global_step"] if last_of(run).exists() else None)
        if status := self.fit(case, "killed", *options):
            return {"steps": steps, "differences": [f"exit status {status} at the end"]}
        return {"steps": steps, "differences": compare(run.with_name("unkilled"), run, 0.0)}

    def reference(self, case: Case) -> Path:
        """The run of ``case`` without an interruption; the number of workers must not matter."""
        key = (case.source, case.ranks, case.accumulate, case.half)
        if key not in self._references:
            name = f"reference_{len(self._references)}"
            if status := self.fit(case, name):
                raise SystemExit(f"The uninterrupted run of {case} ended with status {status}.")
            self._references[key] = self.place / "runs" / name
        return self._references[key]

    def fit(self, case: Case, name: str, *more: str, kill_after_s: float | None = None) -> int:
        """Run ``pretrain fit`` in a process of its own; its exit status, negative for a signal."""
        half = ("--trainer.callbacks+=interruptions.HalfOnCPU",) if case.half else ()
        command = [
            "fit", "--config", str(self.place / "recipe.yaml"), "--run_name", name, "--ckpt_path",
            "last", "--runs_dir", str(self.place / "runs"), "--seed_everything", "3",
            "--trainer.max_steps", str(case.n_steps), *source_options(case, self.place),
            "--data.num_workers", str(case.workers), "--trainer.devices", str(case.ranks),
            "--trainer.accumulate_grad_batches", str(case.accumulate), *half, *more,
        ]  # fmt: skip
        log = self.place / f"{name}.log"
        return (_alone if case.ranks == 1 else _launch)(command, self.place, log, kill_after_s)


def source_options(case: Case, place: Path) -> list[str]:
    """Where the data come from, as options of ``pretrain fit``."""
    file, shards = str(place / "corpus.txt"), str(place / "shards")
    cache = ["--data.cache_dir", str(place / "cache"), "--data.val_source", file]
    if case.source == "mixture":
        return [f"--data.source={json.dumps({file: 0.7, shards: 0.3})}", *cache]
    source = file if "file" in case.source else shards
    stream = ["--data.cache", "false"] if "stream" in case.source else []
    return ["--data.source", source, *stream, *cache]


def write_corpora(place: Path) -> None:
    """One file, and a folder of three shards of unequal size, all of drawn words."""
    draw = random.Random(1)
    words = ["tea", "ship", "river", "stone", "wind", "bread", "the", "a", "old", "small"]
    (place / "shards").mkdir(parents=True)
    sizes = {"corpus.txt": 60, "shards/a.txt": 34, "shards/b.txt": 7, "shards/c.txt": 19}
    for name, n_lines in sizes.items():
        lines = (" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(n_lines))
        (place / name).write_text("\n".join(lines) + "\n")


# Running ------------------------------------------------------------------------------------------


def _alone(command: list[str], place: Path, log: Path, kill_after_s: float | None) -> int:
    # A fork of a process that has imported everything starts in a fraction of the time.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pretrain.commands.fit"])
    process = context.Process(target=_fit_here, args=(command, str(place), str(log)))
    process.start()
    process.join(kill_after_s or LIMIT_S)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode is not None
    return process.exitcode


def _fit_here(command: list[str], place: str, log: str) -> None:
    with Path(log).open("a", buffering=1) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(_environment(place))
    multiprocessing.set_start_method("fork", force=True)  # as in a process of the user's own
    # Where the parent runs in the background, the shell has made it deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(SCRIPTS))
    import torch

    from pretrain.cli import main as pretrain

    torch.set_num_threads(1)
    pretrain(command)


def _launch(command: list[str], place: Path, log: Path, kill_after_s: float | None) -> int:
    path = os.pathsep.join([str(SCRIPTS.parent), str(SCRIPTS)])
    environment = os.environ | _environment(str(place)) | {"PYTHONPATH": path}
    with log.open("a") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pretrain", *command, "--trainer.strategy", "ddp"],
            env=environment, stdout=file, stderr=file,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
    try:
        return process.wait(kill_after_s or LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _environment(place: str) -> dict[str, str]:
    return {"HOME": place, "XDG_CACHE_HOME": f"{place}/cache", "OMP_NUM_THREADS": "1"}


# Comparing ----------------------------------------------------------------------------------------


def last_of(run: Path) -> Path:
    """The checkpoint that a run goes on from."""
    return run / "checkpoints" / "last.ckpt"


def load(run: Path) -> dict[str, Any]:
    """What is in it."""
    import torch

    return dict(torch.load(last_of(run), weights_only=True))


def compare(expected: Path, found: Path, rtol: float) -> list[str]:
    """What differs between two finished runs, ``[]`` where they are equal within ``rtol``."""
    parts = []
    for run in (expected, found):
        checkpoint = load(run)
        # The callbacks keep times and paths, and loops count fetched batches; all else is state.
        state = {key: checkpoint[key] for key in checkpoint if key not in ("callbacks", "loops")}
        state["metrics"] = logged(run)
        parts.append(state)
    return [*differences(*parts, rtol)]


def logged(run: Path) -> dict[str, list[str]]:
    """step → the columns train/loss and lr."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["train/loss"]]
    return {row["step"]: [row["train/loss"], row["lr"]] for row in rows}


def differences(a: Any, b: Any, rtol: float, path: str = "") -> Iterator[str]:
    """The paths in a checkpoint where two values are not equal within ``rtol``."""
    import torch

    if isinstance(a, dict) and isinstance(b, dict):
        yield from (f"{path}/{key} is in one only" for key in a.keys() ^ b.keys())
        for key in a.keys() & b.keys():
            yield from differences(a[key], b[key], rtol, f"{path}/{key}")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(one, other, rtol, f"{path}/{number}")
    elif isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or not torch.allclose(a, b, rtol=rtol, atol=rtol, equal_nan=True):
            yield path
    elif a != b and not _are_close(a, b, rtol):
        yield f"{path}: {a!r:.200} and {b!r:.200}"


def _are_close(a: Any, b: Any, rtol: float) -> bool:
    try:
        return abs(float(a) - float(b)) <= rtol * abs(float(a))
    except (TypeError, ValueError):
        return False


if __name__ == "__main__":
    main()
