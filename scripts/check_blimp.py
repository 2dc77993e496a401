"""Compare `pretrain evaluate --blimp` with an independent slow computation on some pairs.

The slow way reads one sentence at a time (a masked model: one mask at a time), without batches,
filler or reduced precision, and takes the log-softmax over all logits in float64.

Usage: python scripts/check_blimp.py CHECKPOINT --blimp FILE --pairs 200 [--json FILE]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from pretrain.data.tokenizer import Tokenizer
from pretrain.evaluation import Scorer, read_pairs
from pretrain.evaluation.blimp import Pair
from pretrain.tasks import load_task

LARGEST_DIFFERENCE = 1e-3  # nats of a sentence, both ways in float32


def main() -> None:
    """Score pairs spread over all sets both ways; exit 1 where float32 does not agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--blimp", default=_default_blimp(), help="BLiMP as JSONL")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.blimp is None:
        parser.error("give --blimp FILE, or set PRETRAIN_TEST_DATA")
    every = read_pairs(options.blimp)
    pairs = every[:: max(1, len(every) // options.pairs)][: options.pairs]
    result = compare(load_task(options.checkpoint), pairs)
    result = {"checkpoint": options.checkpoint, "n_pairs": len(pairs), **result}
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    exact = result["32-true"]
    if exact["judged_otherwise"] or exact["largest_difference_nats"] > LARGEST_DIFFERENCE:
        sys.exit("The two ways disagree.")


def compare(task: Any, pairs: list[Pair]) -> dict[str, Any]:
    """Times, accuracies and differences of the slow way and of both precisions."""
    sentences = [text for pair in pairs for text in (pair.good, pair.bad)]
    start = time.perf_counter()
    slow = [slow_log_probability(task, text) for text in sentences]
    found: dict[str, Any] = {"slow": _figures(slow, slow, time.perf_counter() - start)}
    for precision in ("32-true", "auto"):
        scorer = Scorer(task, precision)
        start = time.perf_counter()
        fast = [answer.log_probability for answer in scorer.texts(sentences)]
        name = precision if precision != "auto" else f"auto ({scorer.precision})"
        found[name] = _figures(fast, slow, time.perf_counter() - start)
    return found


@torch.inference_mode()
def slow_log_probability(task: Any, text: str) -> float:
    """Log-probability of a sentence (masked: pseudo-log-likelihood), the plainest way."""
    tokenizer = Tokenizer.from_json(task.tokenizer_json)
    ids = tokenizer.encode_documents([text])[0].tolist()
    total = 0.0
    if task.causal:
        row = [tokenizer.end_id, *ids[:-1]]
        log_softmax = task(torch.tensor([row]))[0].double().log_softmax(-1)
        for place, token in enumerate(ids):
            total += float(log_softmax[place, token])
        return total
    for place, token in enumerate(ids):
        hidden = [*ids[:place], tokenizer.mask_id, *ids[place + 1 :]]
        row = [tokenizer.cls_id, *hidden, tokenizer.sep_id]
        log_softmax = task(torch.tensor([row]))[0].double().log_softmax(-1)
        total += float(log_softmax[place + 1, token])
    return total


def _figures(ours: list[float], slow: list[float], seconds: float) -> dict[str, Any]:
    judged, expected = _judged(ours), _judged(slow)
    return {
        "accuracy": sum(judged) / len(judged),
        "judged_otherwise": sum(a != b for a, b in zip(judged, expected, strict=True)),
        "largest_difference_nats": max(abs(a - b) for a, b in zip(ours, slow, strict=True)),
        "sentences_per_s": round(len(ours) / seconds, 1),
    }


def _judged(values: list[float]) -> list[bool]:
    return [good > bad for good, bad in zip(values[::2], values[1::2], strict=True)]


def _default_blimp() -> str | None:
    data = os.environ.get("PRETRAIN_TEST_DATA")
    return None if data is None else f"{data}/blimp/blimp.jsonl.gz"


if __name__ == "__main__":
    main()
