"""Fine-tune one published BERT here and with transformers, by the same recipe, and compare.

    python scripts/compare_with_transformers.py FOLDER --recipe configs/finetune_cola.yaml \
        --source cola/train.jsonl --val_source cola/dev_in_domain.jsonl --seeds 1,2,3

Here the weights are imported and trained by ``Classification`` under Lightning's Trainer; there
``AutoModelForSequenceClassification`` is trained in a plain loop. Both start from the same weights,
those of the new classifier included, and see the same batches in the same order; both is checked.
Only the draws of dropout differ. Matthews correlation for CoLA, accuracy for the rest.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import plain_finetuning as theirs
import torch
import yaml
from lightning.pytorch import Callback, Trainer, seed_everything
from plain_finetuning import Order, Plan

from pretrain.commands.import_ import run as import_folder
from pretrain.commands.seeds import summarize
from pretrain.data import ClassificationDataModule
from pretrain.errors import UserError
from pretrain.hardware import resolve_precision
from pretrain.runs.console import hush_libraries, say
from pretrain.runs.environment import describe_machine
from pretrain.runs.validation_schedule import whole_split
from pretrain.tasks import Classification, OptimizerConfig, ScheduleConfig
from pretrain.tasks.checkpoint_file import read_checkpoint
from pretrain.tasks.finetuning import FinetuningConfig

LARGEST_DIFFERENCE = 1e-4  # of the logits at the start, both ways in float32
SIDES = ("ours", "transformers")
_TRAINER_KEYS = {"max_epochs", "gradient_clip_val", "precision"}


def main(arguments: list[str] | None = None) -> None:
    """Train both, once a seed, print the table and write the figures."""
    options = argument_parser().parse_args(arguments)
    hush_libraries()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            plan = read_plan(options, Path(scratch))
            report = compare(plan, [int(seed) for seed in options.seeds.split(",")])
    except (UserError, ValueError, OSError) as error:
        raise SystemExit(str(error)) from None
    metric = "val_matthews" if "cola" in Path(options.recipe).stem else "val_accuracy"
    report = {"encoder": str(options.folder), "recipe": options.recipe, "metric": metric, **report}
    say(table(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def argument_parser() -> argparse.ArgumentParser:
    """Encoder, data, recipe, seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="config.json, model.safetensors, tokenizer.json")
    parser.add_argument("--source", required=True, help="labelled examples, as data.source")
    parser.add_argument("--val_source", help="as data.val_source")
    parser.add_argument("--recipe", default="configs/finetune_cola.yaml")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, help="in place of the recipe's")
    parser.add_argument("--max_steps", type=int, help="for a trial: end after so many steps")
    parser.add_argument("--json", type=Path, help="where the figures go too")
    return parser


def read_plan(options: argparse.Namespace, scratch: Path) -> Plan:
    """The recipe on the imported encoder; what the plain loop can't do is refused."""
    recipe = yaml.safe_load(Path(options.recipe).read_text(encoding="utf-8"))
    trainer = recipe["trainer"]
    if unknown := sorted(trainer.keys() - _TRAINER_KEYS):
        raise UserError(f"trainer.{unknown[0]} is unknown to the plain loop: leave it out.")
    precision = resolve_precision(trainer.get("precision", "auto"))
    if precision not in ("bf16-mixed", "32-true"):
        raise UserError(f"The plain loop has no {precision}: set trainer.precision to 32-true.")
    checkpoint, tokenizer = scratch / "encoder.ckpt", scratch / "tokenizer.json"
    with redirect_stdout(io.StringIO()):  # advice on what to do with the checkpoint
        import_folder([str(options.folder), str(checkpoint)])
    known = read_checkpoint(str(checkpoint))
    if known["tokenizer"] is None:
        raise UserError(f"{options.folder} has no tokenizer: add its tokenizer.json or vocab.txt.")
    tokenizer.write_text(known["tokenizer"], encoding="utf-8")
    # The checkpoint's architecture below the recipe, as --init_from has it.
    model = recipe["model"]["init_args"]
    network = {**known["hyper_parameters"]["network"], **model.get("network", {})}
    data = {**recipe["data"]["init_args"], "source": options.source, "tokenizer": str(tokenizer)}
    return Plan(
        folder=options.folder,
        checkpoint=checkpoint,
        model={**model, "network": network},
        data=data if options.val_source is None else {**data, "val_source": options.val_source},
        epochs=options.epochs or trainer["max_epochs"],
        max_steps=options.max_steps,
        clip=trainer.get("gradient_clip_val"),
        precision=precision,
    )


def compare(plan: Plan, seeds: list[int]) -> dict[str, Any]:
    """Figures of both sides by seed, and what they were measured with."""
    import transformers

    cards: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    seconds: dict[str, list[int]] = {side: [] for side in SIDES}
    apart = 0.0
    for seed in seeds:
        seed_everything(seed, verbose=False)
        task = our_start(plan, open_data(plan))
        model = theirs.published(plan, task)
        apart = max(apart, starting_difference(plan, task, model))
        orders = set()
        trainings = (train_ours, task), (theirs.train, model)
        for side, (train, network) in zip(SIDES, trainings, strict=True):
            seed_everything(seed, verbose=False)
            data = open_data(plan)
            start = time.perf_counter()
            counts, order = train(plan, network, data)
            seconds[side].append(round(time.perf_counter() - start))
            cards[side].append(theirs.figures(counts))
            orders.add(order.digest.hexdigest())
            say(f"seed {seed}, {side}: {counts} (rows true, columns found)")
        if len(orders) > 1:
            raise UserError("The two sides did not see the same batches.")
    machine = {**describe_machine(), "precision": plan.precision}
    machine["versions"]["transformers"] = transformers.__version__
    return {
        "machine": machine,
        "seeds": seeds,
        "epochs": plan.epochs,
        "steps": plan.n_steps(data),
        "examples": [len(data.examples(split)) for split in ("train", "validation")],
        "largest_starting_difference": apart,
        "figures": {side: summarize(found) for side, found in cards.items()},
        "seconds": seconds,
    }


def open_data(plan: Plan) -> ClassificationDataModule:
    """The recipe's batches, in the order of the global seed."""
    data = ClassificationDataModule(**plan.data)
    data.prepare_data()
    data.setup("fit")
    return data


def starting_difference(plan: Plan, task: Classification, model: Any) -> float:
    """Largest difference between both sides' logits before training, in float32."""
    batch = next(iter(open_data(plan).val_dataloader()))
    with torch.no_grad():
        ours = task.eval().logits(batch)[batch["labels"] != theirs.IGNORED]
        output, _ = theirs.logits(model.eval(), batch, "32-true")
    difference = float((ours - output).abs().max())
    if not difference < LARGEST_DIFFERENCE:
        raise UserError(f"The logits of the two sides are {difference:.1e} apart at the start.")
    return difference


def our_start(plan: Plan, data: ClassificationDataModule) -> Classification:
    """The task on the imported weights, its classifier drawn by the global seed."""
    labels, pairs = data.labels.to_dict(), data.framing.pairs
    task = Classification(**plan.model, labels=labels, reads_pairs=pairs)
    _refuse_what_the_loop_lacks(task, data)
    task.init_weights_from(str(plan.checkpoint))
    task.configure_model()
    return task


def _refuse_what_the_loop_lacks(task: Classification, data: ClassificationDataModule) -> None:
    optimizer, schedule, finetuning = task.optimizer_config, task.schedule_config, task.finetuning
    plain = OptimizerConfig(
        "adamw", 1.0, 1.0, optimizer.betas, optimizer.eps, optimizer.momentum,
        optimizer.weight_decay,
    )  # fmt: skip
    for what, value, wanted in (
        ("model.optimizer", optimizer, plain),
        ("model.schedule", schedule, ScheduleConfig("linear", schedule.warmup)),
        ("model.finetuning", finetuning, FinetuningConfig(head_dropout=finetuning.head_dropout)),
        ("model.pooling", task.pooling, "cls"),
        ("data.kind", data.labels.kind, "single"),
    ):
        if value != wanted:
            raise UserError(f"{what} is {value}, but the plain loop only has {wanted}.")


class _Watch(Callback):
    """Takes the fingerprint of what Lightning trains on."""

    def __init__(self) -> None:
        self.order = Order()

    def on_train_batch_start(self, trainer: Any, task: Any, batch: Any, batch_idx: int) -> None:
        self.order.add(batch)


def train_ours(
    plan: Plan, task: Classification, data: ClassificationDataModule
) -> tuple[list[list[int]], Order]:
    """The confusion matrix of the validation split after training under Lightning's Trainer."""
    watch = _Watch()
    trainer = Trainer(
        max_epochs=plan.epochs,
        max_steps=-1 if plan.max_steps is None else plan.n_steps(data),
        gradient_clip_val=plan.clip,
        precision=plan.precision,  # type: ignore[arg-type]
        devices=1,
        callbacks=[watch],
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, datamodule=data)
    with whole_split(trainer):
        trainer.validate(task, datamodule=data, verbose=False)
    assert task.confusion is not None
    return task.confusion, watch.order


def table(report: dict[str, Any]) -> str:
    """The figures as a Markdown table, with the machine above."""
    machine, metric = report["machine"], report["metric"]
    ours, others = (report["figures"][side][metric] for side in SIDES)
    n_train, n_validation = report["examples"]
    names = [*(f"seed {seed}" for seed in report["seeds"]), "mean"]
    values = [[*one["values"], one["mean"]] for one in (ours, others)]
    rows = [
        f"| {name} | {a:.4f} | {b:.4f} | {a - b:+.4f} |"
        for name, a, b in zip(names, *values, strict=True)
    ]
    seconds = ", ".join(f"{side} {sum(spent):,} s" for side, spent in report["seconds"].items())
    return "\n".join([
        f"{report['encoder']}, {report['recipe']}: {report['epochs']} epochs, {report['steps']:,} "
        f"steps, {n_train:,} training and {n_validation:,} validation examples",
        f"{machine['device']}, {machine['n_cpu_threads']} CPU threads, {machine['precision']}, "
        f"transformers {machine['versions']['transformers']}; logits at the start "
        f"{report['largest_starting_difference']:.0e} apart; {seconds}",
        "",
        f"| {metric} | {SIDES[0]} | {SIDES[1]} | difference |",
        "|---|---|---|---|",
        *rows,
        f"| standard deviation | {ours['std']:.4f} | {others['std']:.4f} | |",
    ])  # fmt: skip


if __name__ == "__main__":
    main()
