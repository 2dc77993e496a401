"""What a measure found: as a table, as JSON, and as figures for a dashboard."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any


class Report:
    """Base of the dataclasses that measures return; every field is a number."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain types."""
        return asdict(self)  # type: ignore[call-overload]

    def figures(self) -> dict[str, float]:
        """The main figures by name."""
        return {name: float(value) for name, value in self.to_dict().items()}

    def table(self) -> str:
        """Lines to print."""
        return aligned([(name, shown(name, value)) for name, value in self.to_dict().items()])


def shown(name: str, value: float) -> str:
    """A figure as a person reads it: shares in per cent, numbers of things without a fraction."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2%}" if "accuracy" in name or name == "chance" else f"{value:,.4f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines)
