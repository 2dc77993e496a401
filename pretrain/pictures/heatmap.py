"""A table of numbers as shaded cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pretrain.pictures.svg import LEGEND_HEIGHT, LEGEND_WIDTH, legend, svg, text, turned, width_of
from pretrain.pictures.theme import share_of, text_class

_LONGEST_NAME = 18  # characters
_MOST_NUMBERS = 400  # cells that are labelled
_TITLE = 28  # pixels


@dataclass(frozen=True)
class HeatMap:
    """A matrix, the darker (on dark paper: the brighter) the larger.

    Attributes:
        values: Numbers by row and column; NaN is an empty cell.
        rows, columns: Their names; empty for none.
        title: Stands above.
        row_title, column_title: What rows and columns are.
        low, high: What is drawn as nothing and as full.
        unit: What the scale measures; no scale is drawn without it.
        texts: What is written into the cells; None writes the values, where they are few.
        cell: Side of a cell in pixels; None chooses one.
    """

    values: Sequence[Sequence[float]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    title: str = ""
    row_title: str = ""
    column_title: str = ""
    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    texts: Sequence[Sequence[str]] | None = None
    cell: float | None = None

    def svg(self) -> str:
        """The picture."""
        n_columns = len(self.values[0])
        left, top, side = self._left(), self._top(), self._side()
        wide, tall = side * n_columns, side * len(self.values)
        parts = [text(8, 18, self.title, font_weight="600", font_size="13")] if self.title else []
        parts += [*self._names(left, top, side), *self._cells(left, top, side)]
        width, height = left + wide + self._overhang(side), top + tall + 10
        if self.unit:
            ends = f"{self.low:g}", f"{self.high:g}"
            parts += legend(left, height + 2, *ends, self.unit)
            width = max(width, left + LEGEND_WIDTH + 24 + width_of(self.unit, 11))
            height += LEGEND_HEIGHT
        width = max(width, 20 + width_of(self.title, 13.5))
        return svg(width, height, parts, self.title or self.unit or "heat map")

    def _labels(self) -> Sequence[Sequence[str]] | None:
        n_cells = len(self.values) * len(self.values[0])
        if self.texts is not None or n_cells > _MOST_NUMBERS or self._side() < 26:
            return self.texts
        return [["–" if math.isnan(v) else f"{v:.2f}" for v in row] for row in self.values]

    def _side(self) -> float:
        if self.cell is not None:
            return self.cell
        widest = max((width_of(t) for row in self.texts or () for t in row), default=0.0)
        largest = max(len(self.values), len(self.values[0]))
        return max(widest + 10, min(44.0, max(5.0, 640 / largest)))

    def _left(self) -> float:
        names = max((width_of(_short(name)) for name in self.rows), default=0.0)
        return 16 + max(names, width_of(self.row_title, 11))

    def _top(self) -> float:
        names = max((width_of(_short(name)) for name in self.columns), default=0.0)
        flat = self._is_flat()
        above = 18.0 if flat and self.columns else 0.77 * names + (8 if self.columns else 0)
        return (_TITLE if self.title else 6) + above + (16 if self.column_title else 0)

    def _is_flat(self) -> bool:
        """Whether the columns' names have room side by side."""
        return all(width_of(_short(name)) + 4 <= self._side() for name in self.columns)

    def _overhang(self, side: float) -> float:
        if not self.columns or self._is_flat():
            return 10.0
        return 10 + max(0.0, 0.64 * max(width_of(_short(n)) for n in self.columns) - side / 2)

    def _names(self, left: float, top: float, side: float) -> list[str]:
        wide = side * len(self.values[0])
        parts = []
        if self.column_title:
            above = (_TITLE if self.title else 6) + 8
            parts.append(text(left + wide / 2, above, self.column_title, "middle", class_="faint"))
        if self.row_title:
            parts.append(text(left - 8, top - 6, self.row_title, "end", class_="faint"))
        smallest = 9.5 if "" in self.rows else 6.0  # where names are left out there is room
        size = f"{min(12.0, max(side * 0.85, smallest)):.1f}"
        for i, name in enumerate(self.rows):
            y = top + (i + 0.5) * side + 4
            parts.append(text(left - 8, y, _short(name), "end", font_size=size))
        for i, name in enumerate(self.columns):
            middle = left + (i + 0.5) * side
            if self._is_flat():
                parts.append(text(middle, top - 6, _short(name), "middle"))
            else:
                parts.append(turned(middle, top - 6, _short(name), font_size=size))
        return parts

    def _cells(self, left: float, top: float, side: float) -> list[str]:
        labels, parts = self._labels(), []
        wide, tall = side * len(self.values[0]), side * len(self.values)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
            'fill="none" stroke="var(--line)"/>'
        )
        parts.append(shaded_cells(self._shares(), left, top, side))
        for i, row in enumerate(labels or ()):
            for j, label in enumerate(row):
                x, y = left + (j + 0.5) * side, top + (i + 0.5) * side + 4
                shade = text_class(share_of(self.values[i][j], self.low, self.high))
                parts.append(text(x, y, label, "middle", class_=shade))
        return parts

    def _shares(self) -> list[list[float]]:
        return [[share_of(value, self.low, self.high) for value in row] for row in self.values]


def shaded_cells(shares: Sequence[Sequence[float]], x: float, y: float, side: float) -> str:
    """A matrix of shares from 0 to 1 as one group; one path holds all cells of one shade.

    There are 25 shades. Written this way a cell takes about 8 bytes instead of 80, and one that is
    lighter than the lightest shade, or NaN, none.
    """
    by_shade: dict[int, list[str]] = {}
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            shade = 0 if math.isnan(share) else round(25 * share)
            if shade:
                by_shade.setdefault(shade, []).append(f"M{j} {i}h1")
    paths = "".join(
        f'<path opacity="{shade / 25:.2f}" d="{"".join(cells)}"/>'
        for shade, cells in sorted(by_shade.items())
    )
    return (
        f'<g transform="translate({x:.1f} {y + side / 2:.1f}) scale({side:.3f})" '
        f'stroke="var(--heat)" fill="none" shape-rendering="crispEdges">{paths}</g>'
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
