"""Fine-tune several checkpoints by one recipe with several seeds, and compare what they reach.

    python scripts/compare_starts.py pretrained=runs/bert/checkpoints/last.ckpt random \
        --config configs/finetune_sst2.yaml --source train.jsonl --val_source dev.jsonl

``random`` is the network of the first checkpoint with fresh weights, drawn anew for each seed.
What follows ``--options`` goes to ``pretrain fit``. Runs that are there already are gone on with,
or left as they are.
"""

import argparse
import json
from pathlib import Path

import torch

from pretrain.cli import main as pretrain
from pretrain.commands.seeds import summarize
from pretrain.hardware import device_of, resolve_precision
from pretrain.runs.card_reader import read_card
from pretrain.runs.environment import describe_machine
from pretrain.tasks import load_task, save_task
from pretrain.tasks.loading import TASKS

FIGURES = ("val_accuracy", "val_f1", "val_matthews", "val_pearson", "val_spearman")


def parse_arguments() -> argparse.Namespace:
    """Starts, recipe, data, seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("starts", nargs="+", help="NAME=CHECKPOINT, or random")
    parser.add_argument("--config", default="configs/finetune_sst2.yaml")
    parser.add_argument("--source", required=True)
    parser.add_argument("--val_source")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--runs_dir", type=Path, default=Path("runs/compare_starts"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[])
    return parser.parse_args()


def fresh_weights(checkpoint: str, seed: int, folder: Path) -> str:
    """The network and tokenizer of ``checkpoint`` with new weights, as a checkpoint of its own."""
    path = folder / f"random-{seed}.ckpt"
    if not path.exists():
        known = load_task(checkpoint)
        torch.manual_seed(seed)
        recipe = {"lr": known.lr, "optimizer": known.optimizer_config}
        task = TASKS[known.objective](network=known.config, **recipe)
        task.configure_model()
        task.tokenizer_json, task.trained_len = known.tokenizer_json, known.trained_len
        save_task(task, path)
    return str(path)


def fine_tune(name: str, checkpoint: str, seed: int, options: argparse.Namespace) -> dict:
    """The card of one run."""
    run = f"{name}-seed{seed}"
    if read_card(options.runs_dir / run).get("status") != "finished":
        data = [f"--data.source={options.source}"]
        if options.val_source is not None:
            data.append(f"--data.val_source={options.val_source}")
        pretrain([
            "fit", f"--config={options.config}", f"--init_from={checkpoint}", f"--run_name={run}",
            f"--runs_dir={options.runs_dir}", f"--seed_everything={seed}", "--ckpt_path=last",
            *data, *options.options,
        ])  # fmt: skip
    return read_card(options.runs_dir / run)


def compare(cards: dict[str, list[dict]]) -> dict[str, dict]:
    """Per start and figure: mean, sample standard deviation and values."""
    table: dict[str, dict] = {}
    for name, runs in cards.items():
        figures = {figure: value for figure, value in summarize(runs).items() if figure in FIGURES}
        table[name] = {"seconds": [round(card["wall_time_s"]) for card in runs], **figures}
    return table


def main() -> None:
    """Run what is missing, and print the table."""
    options = parse_arguments()
    given = dict(start.split("=", 1) for start in options.starts if "=" in start)
    names = [start.partition("=")[0] for start in options.starts]
    unknown = [name for name in names if name not in given and name != "random"]
    if unknown or not given:
        raise SystemExit(f"Give NAME=CHECKPOINT, not {', '.join(unknown) or 'random alone'}.")
    options.runs_dir.mkdir(parents=True, exist_ok=True)
    cards: dict[str, list[dict]] = {name: [] for name in names}
    for seed in map(int, options.seeds.split(",")):
        for name in names:
            checkpoint = given.get(name)
            if checkpoint is None:
                first = next(iter(given.values()))
                checkpoint = fresh_weights(first, seed, options.runs_dir)
            cards[name].append(fine_tune(name, checkpoint, seed, options))
    table = compare(cards)
    print(f"\n{options.config} on {options.source}, seeds {options.seeds}")
    for name, figures in table.items():
        shown = [
            f"{figure.removeprefix('val_')} {value['mean']:.4f} ± {value['std']:.4f}"
            for figure, value in figures.items()
            if figure != "seconds"
        ]
        print(f"  {name:<14} {', '.join(shown)}")
    if options.json is not None:
        machine = {**describe_machine(), "precision": resolve_precision("auto", str(device_of()))}
        content = {"machine": machine, "config": options.config, "starts": table}
        options.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
