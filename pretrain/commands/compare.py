"""``pretrain compare``: what differs in runs, in their settings and in their results."""

from pathlib import Path

from pretrain.commands.complaints import command_parser, parse
from pretrain.comparison.comparison import compare
from pretrain.comparison.report import report
from pretrain.comparison.run import load_runs
from pretrain.comparison.text_table import terminal_width


def run(argv: list[str]) -> None:
    """Compare, in the terminal and with ``--html`` on a page too.

    Raises:
        UserError: A run is missing, or the page can't be written.
    """
    parser = command_parser("compare", "Say which run is best, and what differs in the runs.")
    add = parser.add_argument
    add("runs", type=str, nargs="+", help="run folders, such as runs/NAME; one is described alone")
    add("--html", type=str | None, help="a page to write, with curves; it needs no server")
    options = parse(parser, argv)
    comparison = compare(load_runs(options.runs))
    lines = report(comparison, terminal_width())
    if options.html is not None:
        # Before anything is printed, as the reader of our output may go. Imported here, so that
        # the terminal need not wait.
        from pretrain.comparison.page import comparison_page
        from pretrain.data.files import written_whole

        page = comparison_page(comparison)
        with written_whole(Path(options.html)) as temporary:
            temporary.write_text(page, encoding="utf-8")
        lines += ["", f"{options.html}: {len(page) / 1e6:.2f} MB, open it in a browser."]
    print("\n".join(lines))
