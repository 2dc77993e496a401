"""``pretrain evaluate``: what a checkpoint knows, without further training."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError

if TYPE_CHECKING:  # --help need not wait for torch
    from pretrain.evaluation import Scorer
    from pretrain.evaluation.report import Report

MEASURES = ("text", "blimp", "last_word", "choices")


def run(argv: list[str]) -> None:
    """Print a table for every measure asked for, and keep the figures as JSON and in the run.

    Raises:
        UserError: An option, a file or the checkpoint can't be used.
    """
    options = parse(_parser(), argv)
    asked = [name for name in MEASURES if options[name] is not None]
    if not asked:
        raise UserError("Say what to measure, such as --text FILE or --blimp FILE; see --help.")
    if options.limit is not None and options.limit < 1:
        raise UserError(f"limit is {options.limit}; it must be at least 1.")
    # Here, so that --help need not wait for torch.
    from pretrain.evaluation import Scorer
    from pretrain.hardware import device_of
    from pretrain.runs.console import say
    from pretrain.tasks import load_task
    from pretrain.tasks.checkpoint_file import read_checkpoint

    task = load_task(options.checkpoint).to(device_of())
    step = int(read_checkpoint(options.checkpoint).get("global_step", 0))
    scorer = Scorer(task, options.precision, progress=True)
    say(f"Checkpoint {options.checkpoint}, step {step:,}, precision {scorer.precision}.")
    reports = {}
    for name in asked:
        reports[name] = _measure(name, scorer, options)
        say(f"\n{name}: {options[name]}\n{reports[name].table()}")
    facts = {
        "checkpoint": options.checkpoint,
        "step": step,
        "objective": task.objective,
        "precision": scorer.precision,
    }
    _keep(reports, facts, options)


def _parser() -> ArgumentParser:
    parser = command_parser("evaluate", "Measure what a model knows, without further training.")
    add = parser.add_argument
    add("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    add("--text", type=str | None, help="Any text: perplexity, bits per byte.")
    add("--document", type=str, default="line", help="In --text: line, paragraph or file.")
    add("--text_field", type=str, default="text", help="In --text: the field of JSONL or Parquet.")
    add("--seq_len", type=int | None, help="In --text: tokens in a block; as in training if None.")
    add("--blimp", type=str | None, help="BLiMP's pairs as JSONL: accuracy by phenomenon.")
    add(
        "--last_word",
        type=str | None,
        help='JSONL {"text"}: accuracy and perplexity of each text\'s last word (LAMBADA).',
    )
    add(
        "--choices",
        type=str | None,
        help='JSONL {"question" or "context", "choices", "label"}: accuracy by likelihood.',
    )
    add(
        "--limit",
        type=int | None,
        help="The most pairs of each BLiMP set, passages and questions; --text is read whole.",
    )
    add("--json", type=str | None, help="Write all figures to this file.")
    add(
        "--precision",
        type=str,
        default="auto",
        choices=("auto", "bf16-mixed", "16-mixed", "32-true"),
        help="Arithmetic of the network; auto is what this machine is fast in. Figures to print "
        "are best made with 32-true: bf16 judges about one BLiMP pair in 1,000 otherwise.",
    )
    return parser


def _measure(name: str, scorer: "Scorer", options: Namespace) -> "Report":
    import pretrain.evaluation as measures

    source, limit = options[name], options.limit
    if name == "text":
        return measures.text_loss(
            scorer, source, options.document, options.text_field, options.seq_len
        )
    if name == "blimp":
        return measures.blimp(scorer, measures.read_pairs(source, limit))
    if name == "last_word":
        return measures.last_words(scorer, measures.read_passages(source, limit))
    return measures.multiple_choice(scorer, measures.read_questions(source, limit))


def _keep(reports: dict[str, "Report"], facts: dict[str, Any], options: Namespace) -> None:
    from pretrain.data.files import written_whole
    from pretrain.runs.console import say
    from pretrain.runs.later_figures import log_to_run

    if options.json is not None:
        measured = {
            name: {"source": options[name], **report.to_dict()} for name, report in reports.items()
        }
        with written_whole(Path(options.json)) as temporary:
            temporary.write_text(json.dumps({**facts, **measured}, indent=2) + "\n", "utf-8")
    figures = {
        f"eval/{name}/{figure}": value
        for name, report in reports.items()
        for figure, value in report.figures().items()
    }
    folder = log_to_run(options.checkpoint, figures, facts["step"], say)
    if folder is not None:
        say(f"\nThe figures are in {folder.path / 'wandb'} as eval/...")
