"""``pretrain classify``: label texts with a classifier."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from pretrain.commands.complaints import command_parser, parse
from pretrain.errors import UserError

if TYPE_CHECKING:  # --help need not wait for torch
    from pretrain.data.labelled import Example


def run(argv: list[str]) -> None:
    """Print a label and probabilities for each text, or a JSON object for each row of a file.

    Raises:
        UserError: An option, the file or the checkpoint can't be used.
    """
    parser = command_parser("classify", "Label texts with a classifier.")
    add = parser.add_argument
    add("checkpoint", type=str, help="such as runs/NAME/checkpoints/best.ckpt")
    add("texts", type=str, nargs="*", help="Texts to label; of pairs, first and second in turn.")
    add("--file", type=str | None, help="JSONL, CSV, TSV, Parquet or text (one a line) instead.")
    add("--text_field", type=str, default="text", help="In --file: the field of the text.")
    add("--pair_field", type=str | None, help="In --file: the field of the second text.")
    add("--out", type=str | None, help="Write JSON lines to this file.")
    add("--batch_size", type=int, default=64, help="Texts at a time.")
    options = parse(parser, argv)
    if bool(options.texts) == (options.file is not None):
        raise UserError("Give the texts to label, or --file with them: one of the two.")
    if options.batch_size < 1:
        raise UserError(f"batch_size is {options.batch_size}; it must be at least 1.")
    _label(options)


def _label(options: Namespace) -> None:
    # Here, so that --help need not wait for torch.
    from pretrain.data.files import written_whole
    from pretrain.hardware import device_of
    from pretrain.tasks import load_task
    from pretrain.tasks.labelling import label_examples

    task = load_task(options.checkpoint)
    if task.objective != "classification":
        raise UserError(
            f"{options.checkpoint} is no classifier: train one from it with "
            "pretrain fit --config configs/finetune_sst2.yaml --init_from it."
        )
    task.to(device_of())
    examples = list(_examples(options, bool(task.reads_pairs)))
    rows = label_examples(task, examples, options.batch_size)
    lines = (
        json.dumps({**_shown(example), **row}, ensure_ascii=False)
        for example, row in zip(examples, rows, strict=True)
    )
    if options.out is not None:
        with written_whole(Path(options.out)) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    elif options.file is not None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    else:
        for example, row in zip(examples, rows, strict=True):
            shown = " | ".join(_shown(example).values())
            print(f"{_verdict(row):<32} {' '.join(shown.split())}")  # one line a text


def _examples(options: Namespace, pairs: bool) -> Iterator["Example"]:
    from pretrain.data.corpora import open_corpus
    from pretrain.data.labelled import Example, ExampleOptions, LabelledRule

    if options.file is None:
        step = 2 if pairs else 1
        if len(options.texts) % step:
            raise UserError("This classifier compares two texts: give them in turn, two by two.")
        for number in range(0, len(options.texts), step):
            text, *pair = options.texts[number : number + step]
            yield Example(text, f"text {number + 1}", pair[0] if pair else None)
        return
    fields = ExampleOptions(options.text_field, pair_field=options.pair_field, label_field=None)
    corpus = open_corpus(options.file)
    for part in corpus.parts:
        for example in corpus.documents(part, LabelledRule(fields, Counter())):
            assert isinstance(example, Example)
            yield example


def _shown(example: "Example") -> dict[str, str]:
    pair = {} if example.pair is None else {"pair": example.pair}
    return {"text": example.text, **pair}


def _verdict(row: dict[str, Any]) -> str:
    """``positive 98.2 %``, or the number of a regression."""
    if "value" in row:
        return f"{row['value']:.4f}"
    named = [row["label"]] if "label" in row else row["labels"]
    return ", ".join(f"{name} {row['probabilities'][name]:.1%}" for name in named) or "none"
