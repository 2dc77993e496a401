"""The memory that `pretrain estimate` names against the peak of real training processes.

Usage: python scripts/prove_estimate.py --json FILE
Each configuration trains for four steps in a fresh process, whose peak memory less what it held
after its imports is compared. Exits with 1 where one is off by more than 15 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ALLOWED = 0.15
CONFIGS = Path(__file__).parents[1] / "configs"
CASES = {
    "gpt_mini, 64 rows": ["gpt_mini", "--data.batch_size=64"],
    "bert_base, 3 layers, 6 rows, accumulated, dropout": [
        "bert_base", "--model.network.n_layers=3", "--data.batch_size=6",
        "--trainer.accumulate_grad_batches=2", "--model.schedule.warmup=1",
    ],
    "llama_mini, 12 layers of 768, float32": [
        "llama_mini", "--model.network.d_model=768", "--model.network.n_heads=12",
        "--model.network.n_layers=12", "--model.network.d_ff=2048", "--data.batch_size=4",
        "--trainer.precision=32-true", "--model.schedule.warmup=1",
    ],
}  # fmt: skip


def main() -> None:
    """Compare all cases, write the figures, exit with 1 if one is off by too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    target = parser.parse_args().json
    from pretrain.hardware import resolve_precision

    # Decided once, not by each process anew.
    precision = f"--trainer.precision={resolve_precision('auto')}"
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        text = random_text(Path(folder) / "text.txt", n_words=100_000)
        for name, (recipe, *options) in CASES.items():
            figures[name] = compare([*fit_options(recipe, text), precision, *options], Path(folder))
            print(f"{name}: {figures[name]}", flush=True)
    is_close = all(abs(figure["error"]) <= ALLOWED for figure in figures.values())
    target.write_text(json.dumps({"cases": figures, "is_close": is_close}, indent=1) + "\n")
    sys.exit(not is_close)


def random_text(path: Path, n_words: int) -> Path:
    """Made-up words in lines of ten, enough of them for any small vocabulary."""
    draw = random.Random(1)
    letters = "etaoinshrdlu"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(20_000)]
    lines = (" ".join(draw.choices(words, k=10)) for _ in range(n_words // 10))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def fit_options(recipe: str, text: Path) -> list[str]:
    """Four steps of a recipe on ``text``."""
    return [
        f"--config={CONFIGS / recipe}.yaml", f"--data.source={text}", "--trainer.max_steps=4",
        "--data.tokenizer.vocab_size=8192", "--data.num_workers=0",
        # Validation would throw the gradients away before each of so few steps.
        "--trainer.limit_val_batches=0", "--trainer.enable_progress_bar=false",
    ]  # fmt: skip


def compare(options: list[str], folder: Path) -> dict[str, Any]:
    """Estimated and measured peak of one configuration, in MiB, and the relative error."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "WANDB_MODE": "disabled"}
    runs = [f"--runs_dir={folder}", f"--run_name=r{len(list(folder.glob('r*')))}"]
    estimated = in_fresh_process("estimate", options, environment)
    measured = in_fresh_process("measure", [*options, *runs], environment)
    return {
        "estimated_mib": round(estimated, 1),
        "measured_mib": round(measured, 1),
        "error": round(estimated / measured - 1, 4),
    }


def in_fresh_process(what: str, options: list[str], environment: dict[str, str]) -> float:
    """The figure that a process of this script prints last, in MiB."""
    command = [sys.executable, __file__, what, *options]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, timeout=1800
    )
    return float(done.stdout.splitlines()[-1])


def measure(options: list[str]) -> float:
    """Train in this process: its peak less what it held after its imports."""
    import torch._dynamo  # noqa: F401  torch's optimizers import it at their first step

    from pretrain.commands.fit import FitCLI
    from pretrain.runs.environment import peak_memory_mib

    with Path("/proc/self/statm").open() as file:
        base = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    FitCLI(options).train()
    return peak_memory_mib() - base


def estimate(options: list[str]) -> float:
    """The estimated peak in MiB."""
    from pretrain.commands.estimate import EstimateCLI

    return EstimateCLI("estimate", options).estimate().memory.peak / 2**20


if __name__ == "__main__":
    if sys.argv[1] in ("measure", "estimate"):
        print({"measure": measure, "estimate": estimate}[sys.argv[1]](sys.argv[2:]))
    else:
        main()
