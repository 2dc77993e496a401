"""Aligned columns in a terminal."""

import shutil
from collections.abc import Sequence

GAP = "  "
# What is written into a file or a pipe is read by programs: nothing is left out there.
_UNLIMITED = 10_000


def terminal_width() -> int:
    """Columns of the terminal; very many where the output goes elsewhere."""
    return shutil.get_terminal_size((_UNLIMITED, 24)).columns


def width_of(columns: Sequence[Sequence[str]]) -> int:
    """How wide a table of these columns is."""
    return sum(max(map(len, column)) for column in columns) + len(GAP) * (len(columns) - 1)


def aligned(columns: Sequence[Sequence[str]], to_right: Sequence[bool]) -> list[str]:
    """The lines of a table.

    Args:
        columns: One list of cells each, of equal length; the first cell is the heading.
        to_right: Whether a column's cells stand at its right end, as numbers do.
    """
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, to_right, strict=True)
        )
        lines.append(GAP.join(cells).rstrip())
    return lines


def shortened(text: str, width: int) -> str:
    """``text``, or its two ends with an ellipsis between them."""
    if len(text) <= width:
        return text
    kept = max(width - 1, 1)
    return text[: (kept + 1) // 2] + "…" + text[len(text) - kept // 2 :]
