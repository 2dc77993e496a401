"""The data path against the peer's, against its consumer, and what waits for it.

Usage: PRETRAIN_TEST_DATA=DATA python scripts/bench_data.py --json FILE [--corpus JSONL]
       [--parts pipeline,memory,training,start_up] [--rounds N]

pipeline: filling the token cache, an epoch of batches from it, an epoch tokenized on the way; and
`datasets.map` with the peer's collator: same corpus and tokenizers, one process a measurement, in
turns, medians. memory: the corpus ten times against once. training: short trainings, what they
consume and how long they wait for data. start_up: from the command to the end of the first step,
the corpus being cached. Without --corpus it is english_books. Nothing is fetched from a network.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import prove_memory

SCRIPTS = Path(__file__).parent
CONFIGS = SCRIPTS.parent / "configs"
TOKENIZERS = {"bert": "bert-base-uncased-vocab.txt", "gpt": "gpt2-vocab.json"}
# What is measured, and with how many workers; what fills comes before what reads
PIPELINE = (
    ("ours_fill", 0), ("peer_fill", 0), ("ours_cached", 0), ("peer_cached", 0),
    ("ours_cached", 2), ("peer_cached", 2), ("ours_stream", 0), ("ours_stream", 2),
)  # fmt: skip
TIMES_AS_LONG = 10
TRAINING_STEPS = 60
START_UPS = 3
PARTS = ("pipeline", "memory", "training", "start_up")
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "offline"}


def main(arguments: list[str] | None = None) -> None:
    """Measure the parts that were asked for, print and write the figures after each."""
    options = parse(arguments)
    data = Path(os.environ["PRETRAIN_TEST_DATA"])
    os.environ.update(OFFLINE)
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus.jsonl"
        copies(options.corpus or data / "english_books" / "train.jsonl.gz", 1, corpus)
        texts = [json.loads(line)["text"] for line in corpus.open(encoding="utf-8")]
        report["corpus"] = {
            "documents": len(texts), "bytes": sum(len(text.encode()) for text in texts)
        }  # fmt: skip
        del texts
        tokenizers = {kind: data / "tokenizers" / file for kind, file in TOKENIZERS.items()}
        measures = {
            "pipeline": lambda: pipeline(corpus, tokenizers, options.rounds, folder, report),
            "memory": lambda: memory(corpus, tokenizers["gpt"], folder),
            "training": lambda: training(corpus, tokenizers["bert"], folder),
            "start_up": lambda: start_up(corpus, folder),
        }
        for part in options.parts:
            report[part] = measures[part]()
            options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            print(part, json.dumps(report[part], indent=1), flush=True)
    print(table(report))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--corpus", type=Path, help="JSONL with the field text, plain or .gz")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"{unknown[0]} is none of {', '.join(PARTS)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def copies(corpus: Path, n: int, target: Path) -> Path:
    """The corpus ``n`` times over, as plain JSONL."""
    opened = gzip.open if corpus.suffix == ".gz" else open
    with target.open("wb") as out:
        for _ in range(n):
            with opened(corpus, "rb") as file:
                while part := file.read(2**20):
                    out.write(part)
    return target


def pipeline(
    corpus: Path, tokenizers: dict[str, Path], n_rounds: int, folder: Path, report: dict[str, Any]
) -> dict[str, Any]:
    """By kind of model and measurement: speeds and memory, and ours over the peer's."""
    found: dict[str, Any] = {}
    for kind, tokenizer in tokenizers.items():
        raw: dict[str, list[dict[str, float]]] = {}
        for number in range(n_rounds):
            place = folder / f"{kind}_{number}"
            place.mkdir()
            for what, n_workers in PIPELINE:
                arguments = [what, kind, n_workers, corpus, tokenizer, place]
                command = [sys.executable, SCRIPTS / "data_worker.py", *arguments]
                done = subprocess.run(
                    list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True
                )
                name = f"{what}_{n_workers}"
                raw.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
        speeds = {name: speed_of(rounds, report["corpus"]) for name, rounds in raw.items()}
        found[kind] = {**speeds, "ratios": ratios(speeds)}
    return found


def speed_of(rounds: list[dict[str, float]], corpus: dict[str, int]) -> dict[str, Any]:
    """Medians over the rounds."""
    middle = {name: median(one[name] for one in rounds) for name in rounds[0]}
    return {
        "tokens_per_s": median(one["tokens"] / one["seconds"] for one in rounds),
        "documents_per_s": corpus["documents"] / middle["seconds"],
        "mb_per_s": corpus["bytes"] / 1e6 / middle["seconds"],
        **middle,
        "all_seconds": [one["seconds"] for one in rounds],
    }


def ratios(speeds: dict[str, Any]) -> dict[str, float]:
    """Tokens per second of ours over the peer's, of each measurement that both have."""
    pairs = [(name, name.replace("ours", "peer")) for name in speeds if name.startswith("ours")]
    return {
        ours.removeprefix("ours_"): speeds[ours]["tokens_per_s"] / speeds[peer]["tokens_per_s"]
        for ours, peer in pairs
        if peer in speeds
    }


def memory(corpus: Path, tokenizer: Path, folder: Path) -> dict[str, float]:
    """Peaks of both data paths over the corpus once and many times, in MiB."""
    longer = copies(corpus, TIMES_AS_LONG, folder / "longer.jsonl")
    found: dict[str, float] = {}
    for path in prove_memory.PATHS:
        once, often = (
            prove_memory.peak_mib(path, text, tokenizer, folder / "memory")
            for text in (corpus, longer)
        )
        found |= {f"{path}_once_mib": once, f"{path}_often_mib": often}
        found[f"{path}_growth_mib"] = often - once
    return found


def fit(corpus: Path, folder: Path, name: str, config: str, *options: str) -> list[str]:
    """The command that trains a recipe without validation on the way."""
    return [
        sys.executable, "-m", "pretrain", "fit", f"--config={CONFIGS / config}",
        f"--data.source={corpus}", f"--data.cache_dir={folder / 'training'}",
        f"--runs_dir={folder / 'runs'}", f"--run_name={name}", "--trainer.limit_val_batches=0",
        *options,
    ]  # fmt: skip


def training(corpus: Path, tokenizer: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Tokens per second and the share of waiting of the fastest recipe and of the shape A."""
    steps = f"--trainer.max_steps={TRAINING_STEPS}"
    commands = {
        "bert_tiny": fit(corpus, folder, "bert_tiny", "bert_tiny.yaml", steps),
        "A": fit(
            corpus, folder, "A", "bert_mini_classic.yaml", steps, f"--data.tokenizer={tokenizer}"
        ),
    }
    found = {}
    for name, command in commands.items():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        card = json.loads((folder / "runs" / name / "summary.json").read_text(encoding="utf-8"))
        found[name] = {key: card[key] for key in ("tokens_per_s", "data_wait_share", "steps")}
    return found


def start_up(corpus: Path, folder: Path) -> dict[str, Any]:
    """Seconds from the command to the line that follows the first step, the cache being filled."""
    seconds = []
    for number in range(1 + START_UPS):
        name = f"start_{number}"
        command = fit(corpus, folder, name, "bert_tiny.yaml", "--trainer.max_steps=1")
        seconds.append(_seconds_to_first_step(command))
    return {"filling_s": seconds[0], "seconds": median(seconds[1:]), "all_seconds": seconds[1:]}


def _seconds_to_first_step(command: list[str]) -> float:
    start, found = time.perf_counter(), None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found is None and line.startswith("step 1/1"):
                found = time.perf_counter() - start
    if process.returncode or found is None:
        raise SystemExit(f"A training of one step failed: {' '.join(command)}")
    return found


def table(report: dict[str, Any]) -> str:
    """The pipeline as a Markdown table; times are against what the fastest recipe consumes."""
    consumed = report.get("training", {}).get("bert_tiny", {}).get("tokens_per_s")
    rows = [
        "| | tokens/s | documents/s | MB/s | peak MiB | ours / peer | times `bert_tiny` |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, found in report.get("pipeline", {}).items():
        for name, one in found.items():
            if name == "ratios":
                continue
            ratio = found["ratios"].get(name.removeprefix("ours_"))
            times = one["tokens_per_s"] / consumed if consumed else None
            rows.append(
                f"| {kind} {name} | {one['tokens_per_s']:,.0f} | {one['documents_per_s']:,.0f} "
                f"| {one['mb_per_s']:.2f} | {one['peak_mib']:,.0f} "
                f"| {'' if ratio is None else f'{ratio:.1f}'} "
                f"| {'' if times is None else f'{times:.1f}'} |"
            )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
