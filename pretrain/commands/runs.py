"""``pretrain runs``: the runs of a folder, a line each."""

import json
from pathlib import Path

from pretrain.commands.complaints import command_parser, parse
from pretrain.comparison.listing import COLUMNS, listing, sorted_runs
from pretrain.comparison.run import find_runs
from pretrain.comparison.text_table import terminal_width

_KEYS = ", ".join(column.key for column in COLUMNS)


def run(argv: list[str]) -> None:
    """List the runs.

    Raises:
        UserError: The folder can't be read, or the key to sort by is no column.
    """
    parser = command_parser("runs", "List the runs of a folder, the newest last.")
    add = parser.add_argument
    add("folder", type=str, nargs="?", default="runs", help="where the runs lie")
    add("--sort", type=str | None, help=f"the column to sort by, the best first: {_KEYS}")
    add("--json", action="store_true", help="all figures of the runs as JSON")
    options = parse(parser, argv)
    folder = Path(options.folder)
    runs = sorted_runs(find_runs(folder), options.sort)
    if options.json:
        cards = [{"name": one.name, "path": str(one.path), **one.card} for one in runs]
        print(json.dumps(cards, indent=2))
    elif runs:
        print("\n".join(listing(runs, terminal_width())))
    else:
        print(f"There is no run in {folder}: train one with pretrain fit --config RECIPE.")
