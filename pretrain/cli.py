"""The command line: a table of commands, each loaded when it is used.

Nothing heavy is imported here, so ``pretrain --help`` answers at once.
"""

import difflib
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from pretrain import __version__
from pretrain.errors import UserError


class Command(NamedTuple):
    """A row of the table: where the command lives and what it does."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "fit": Command("pretrain.commands.fit", "run", "Pretrain a model from a recipe."),
    "validate": Command(
        "pretrain.commands.evaluate", "validate", "Measure a checkpoint on the validation split."
    ),
    "test": Command(
        "pretrain.commands.evaluate", "test", "Measure a checkpoint on the test split."
    ),
    "predict": Command(
        "pretrain.commands.evaluate", "predict", "Print a checkpoint's loss on every block."
    ),
    "evaluate": Command(
        "pretrain.commands.zero_shot",
        "run",
        "Measure what a model knows: BLiMP, perplexity, last words, multiple choice.",
    ),
    "estimate": Command(
        "pretrain.commands.estimate", "run", "Say what a recipe costs: memory, FLOPs, time."
    ),
    "doctor": Command(
        "pretrain.commands.doctor", "run", "Check a machine and a recipe before a long run."
    ),
    "generate": Command("pretrain.commands.generate", "run", "Continue a text with a GPT."),
    "fill-mask": Command(
        "pretrain.commands.fill_mask", "run", "Fill the [MASK] of a text with a BERT."
    ),
    "inspect": Command(
        "pretrain.commands.inspect", "run", "Show what a model does with one text, as a page."
    ),
    "dashboard": Command(
        "pretrain.commands.dashboard", "run", "Show all runs of a folder in the browser."
    ),
    "runs": Command("pretrain.commands.runs", "run", "List the runs of a folder."),
    "compare": Command(
        "pretrain.commands.compare", "run", "Say which run is best, and what differs in the runs."
    ),
    "export": Command(
        "pretrain.commands.export", "run", "Write a folder that Hugging Face transformers loads."
    ),
    "import": Command("pretrain.commands.import_", "run", "Make a checkpoint from such a folder."),
    "classify": Command(
        "pretrain.commands.classify", "run", "Label texts with a fine-tuned classifier."
    ),
    "tokenizer": Command(
        "pretrain.commands.tokenizer", "run", "Train a tokenizer, or show what one does."
    ),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; exits with status 1 and one sentence on a user's mistake."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _dispatch(arguments)
    except UserError as error:
        print(f"pretrain: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("pretrain: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        sys.stderr.close()
        sys.exit(1)


def help_text() -> str:
    """The answer to ``pretrain --help``."""
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {row.summary}" for name, row in COMMANDS.items())
    return (
        "Pretrain small BERTs and GPTs, and see inside them while they learn.\n\n"
        f"usage: pretrain COMMAND [OPTIONS]\n\ncommands:\n{rows}\n\n"
        "Start with:  pretrain fit --config configs/gpt_tiny.yaml\n"
        "Options of a command:  pretrain COMMAND --help"
    )


def _dispatch(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(help_text())
        return
    name, rest = arguments[0], arguments[1:]
    if name == "--version":
        print(f"pretrain {__version__}")
        return
    if name not in COMMANDS:
        raise UserError(_unknown(name, arguments))
    command = COMMANDS[name]
    getattr(import_module(command.module), command.function)(rest)


def _unknown(name: str, arguments: list[str]) -> str:
    if name.startswith("-"):
        later = next((word for word in arguments if word in COMMANDS), "fit")
        return f"Options stand behind the command: pretrain {later} {name} ..."
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}."
    return f"There is no command {name!r}: {hint}"
