"""What the cache of keys and values saves: 64 new tokens after a prompt of 192, batch 1, float32.

Usage: python scripts/bench_generation.py [CHECKPOINT] [--json FILE]

Without a checkpoint: the network of configs/gpt_mini.yaml with random weights and a vocabulary of
8,192. Both ways take the likeliest token of each step, in turns. The way without a cache reads the
whole text again for each token, filled up on the right to a multiple of 32, which spares a CPU from
building its kernels anew for each length.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch
import yaml

from pretrain.runs.environment import describe_machine
from pretrain.tasks import CausalLM, LanguageModel, load_task
from pretrain.tasks.reader import Reader

PROMPT, NEW_TOKENS, REPEATS, FEW_LENGTHS = 192, 64, 5, 32
RECIPE = Path(__file__).parents[1] / "configs" / "gpt_mini.yaml"
VOCABULARY = 8192


def main() -> None:
    """Measure both ways, print the figures, and write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", nargs="?", help="a causal model; random weights without")
    parser.add_argument("--json", type=Path, help="where the figures go too")
    options = parser.parse_args()
    task = load_task(options.checkpoint) if options.checkpoint else random_task()
    if task.objective != "clm":
        parser.error(f"{options.checkpoint} is no causal model")
    if (task.trained_len or task.config.max_len) < PROMPT + NEW_TOKENS:
        parser.error(f"the model must have been trained on {PROMPT + NEW_TOKENS} tokens or more")
    seconds, is_same = measure(task)
    figures = {
        "machine": describe_machine(),
        "prompt_tokens": PROMPT,
        "new_tokens": NEW_TOKENS,
        **{f"{name}_seconds": round(median(times), 4) for name, times in seconds.items()},
    }
    figures["is_same_text"] = is_same
    figures["ratio"] = round(figures["with_cache_seconds"] / figures["without_cache_seconds"], 3)
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def random_task() -> CausalLM:
    """The recipe's network, whose zero output layers would make every token the same."""
    model = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))["model"]["init_args"]
    torch.manual_seed(1)
    task = CausalLM(network=model["network"] | {"vocab_size": VOCABULARY, "init": "normal"})
    task.configure_model()
    return task.eval()


def measure(task: LanguageModel) -> tuple[dict[str, list[float]], bool]:
    """Seconds of each way, in turns after one unmeasured turn, and whether the texts agree."""
    ways = {"with_cache": with_cache, "without_cache": without_cache}
    vocabulary = task.head.decoder.out_features
    prompt = torch.randint(vocabulary, (PROMPT,), generator=torch.Generator().manual_seed(1))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    texts = set()
    for turn in range(REPEATS + 1):
        for name, write in ways.items():
            start = time.perf_counter()
            texts.add(tuple(write(task, prompt.tolist())))
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds, len(texts) == 1


@torch.inference_mode()
def with_cache(task: LanguageModel, prompt: list[int]) -> list[int]:
    """The text, each token read once."""
    reader, ids = Reader(task), list(prompt)
    for _ in range(NEW_TOKENS):
        ids.append(int(reader.next_logits([ids]).argmax()))
    return ids


@torch.inference_mode()
def without_cache(task: LanguageModel, prompt: list[int]) -> list[int]:
    """The same text, all of it read for each token."""
    ids = list(prompt)
    for _ in range(NEW_TOKENS):
        filler = [0] * (-len(ids) % FEW_LENGTHS)
        states = task.transformer(torch.tensor([ids + filler], device=task.device))
        ids.append(int(task.head(states[0, len(ids) - 1]).argmax()))
    return ids


if __name__ == "__main__":
    main()
