"""``pretrain fit --seeds 1,2,3``: the same recipe once a seed, and what is common to the runs."""

import json
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pretrain.data.files import written_whole
from pretrain.errors import UserError
from pretrain.runs.environment import is_first_rank

_OPTION = "--seeds"
_HANDED_ON = "PRETRAIN_SEED"  # the seed in work, for the processes that Lightning starts


def split_seeds(argv: Sequence[str]) -> tuple[list[int] | None, list[str]]:
    """The seeds asked for (None without ``--seeds``), and the other options.

    Raises:
        UserError: The value is no list of different whole numbers, or a seed is given beside it.
    """
    rest, seeds = list(argv), None
    for place, word in enumerate(argv):
        if word == _OPTION or word.startswith(_OPTION + "="):
            has_value = "=" in word
            value = word.partition("=")[2] if has_value else "".join(argv[place + 1 : place + 2])
            seeds = _seeds_of(value)
            del rest[place : place + (1 if has_value else 2)]
            break
    if seeds is not None and any(word.startswith("--seed_everything") for word in rest):
        raise UserError("--seeds and --seed_everything both give seeds: give one of them.")
    return seeds, rest


def _seeds_of(value: str) -> list[int]:
    try:
        seeds = [int(part) for part in value.strip("[]").split(",")]
    except ValueError:
        raise UserError(f"--seeds is {value!r}; give whole numbers, as in --seeds 1,2,3.") from None
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds {value} names a seed twice.")
    return seeds


def fit_seeds(
    seeds: Sequence[int], argv: Sequence[str], fit: Callable[[list[str]], tuple[Path, dict]]
) -> dict[str, Any]:
    """Fit once a seed, as NAME-seed1, NAME-seed2, ..., and write NAME-seeds.json beside the runs.

    Args:
        seeds: At least one.
        argv: The options without ``--seeds``.
        fit: Trains by such options; returns the run's folder and its card.

    Returns:
        Per figure ``mean``, ``std`` (of the sample, 0 for one seed) and ``values``.
    """
    name = _value_of("--run_name", argv)
    if name is None:
        raise UserError(
            "--seeds makes a run for each seed: give --run_name, what they are called after."
        )
    cards = []
    for seed in _still_to_do(seeds):
        os.environ[_HANDED_ON] = str(seed)
        own = ["--run_name", f"{name}-seed{seed}", "--seed_everything", str(seed)]
        folder, card = fit([*argv, *own])
        cards.append(card)
    os.environ.pop(_HANDED_ON, None)
    figures = summarize(cards)
    if not is_first_rank():
        return figures
    with written_whole(folder.parent / f"{name}-seeds.json") as temporary:
        text = json.dumps({"seeds": list(seeds), "figures": figures}, indent=2)
        temporary.write_text(text + "\n", encoding="utf-8")
    return figures


def _still_to_do(seeds: Sequence[int]) -> Sequence[int]:
    """All seeds; in a process that Lightning has started, those from the one on it was started at.

    Such a process gets the whole command line, and goes through the seeds beside the first.
    """
    handed_on = os.environ.get(_HANDED_ON)
    if is_first_rank() or handed_on is None:
        return seeds
    return seeds[seeds.index(int(handed_on)) :]


def summarize(cards: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and sample standard deviation of every ``val_`` figure that all cards have."""
    names = [
        name
        for name in cards[0]
        if name.startswith("val_") and all(isinstance(c.get(name), (int, float)) for c in cards)
    ]
    figures = {}
    for name in names:
        values = [float(card[name]) for card in cards]
        std = statistics.stdev(values) if len(values) > 1 else 0.0
        figures[name] = {"mean": statistics.fmean(values), "std": std, "values": values}
    return figures


def _value_of(option: str, argv: Sequence[str]) -> str | None:
    for place, word in enumerate(argv):
        if word == option:
            return "".join(argv[place + 1 : place + 2]) or None
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return None
