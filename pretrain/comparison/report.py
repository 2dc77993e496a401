"""The comparison in a terminal: verdict, results, settings that differ, alerts."""

import textwrap
from collections.abc import Sequence

from pretrain.comparison.comparison import Comparison
from pretrain.comparison.text_table import GAP, aligned, shortened, width_of

_WIDEST_TEXT = 100  # a line of words that is easy to read
_WIDEST_VALUE = 40
_MARK = " *"


def report(comparison: Comparison, width: int) -> list[str]:
    """The lines, in a terminal of ``width`` columns."""
    verdict = comparison.verdict
    lines = [*_wrapped(verdict.headline, width), ""]
    for sentence in verdict.sentences:
        lines += _wrapped(sentence, width)
    for caution in verdict.cautions:
        lines += _wrapped(f"Caution: {caution}", width)
    names = [run.name for run in verdict.runs]
    rows = [
        (row.title, [cell + (_MARK if i == row.best else "  ") for i, cell in enumerate(row.cells)])
        for row in comparison.results
    ]
    lines += ["", *_table("results (* best)" if len(names) > 1 else "results", names, rows, width)]
    if comparison.differences:
        settings = [(row.key, list(row.values)) for row in comparison.differences]
        lines += ["", *_table("settings that differ", names, settings, width)]
    for run in verdict.runs:
        for alert in run.alerts:
            title = str(alert.get("name")).replace("_", " ")
            lines += ["", *_wrapped(f"Alert in {run.name}: {title}. {alert.get('text')}", width)]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, min(width, _WIDEST_TEXT), break_on_hyphens=False)


def _table(
    title: str, names: Sequence[str], rows: Sequence[tuple[str, list[str]]], width: int
) -> list[str]:
    """Rows by runs; runs that do not fit beside each other follow below."""
    left = [title, *(key for key, _ in rows)]
    left = [shortened(cell, max(width // 2, 12)) for cell in left]
    columns = [[name, *(values[i] for _, values in rows)] for i, name in enumerate(names)]
    columns = [[shortened(cell, _WIDEST_VALUE) for cell in column] for column in columns]
    lines: list[str] = []
    while columns:
        n = len(columns)
        while n > 1 and width_of([left, *columns[:n]]) > width:
            n -= 1
        room = width - width_of([left]) - len(GAP)
        shown = columns[:n]
        if n == 1:  # alone it has to fit
            shown = [[shortened(cell, max(room, 8)) for cell in columns[0]]]
        lines += [*([""] if lines else []), *aligned([left, *shown], [False] * (n + 1))]
        columns = columns[n:]
    return lines
