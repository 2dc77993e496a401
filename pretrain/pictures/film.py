"""How attention changes while a network learns: maps of a few heads side by side in time."""

from collections.abc import Sequence
from dataclasses import dataclass

from pretrain.pictures.heatmap import shaded_cells
from pretrain.pictures.svg import LEGEND_HEIGHT, legend, svg, text, turned, width_of

_CELL, _GAP = 7, 14  # pixels
_TITLE = 44


@dataclass(frozen=True)
class Film:
    """Rows are heads, columns are moments; each map shows who (left) looks at whom (top).

    Attributes:
        tokens: Those of the text, readable.
        moments: Their names, such as "step 100".
        heads: Their names, such as "layer 0, head 3".
        maps: By head and moment a matrix of attention weights, queries × keys.
        title: Stands above.
    """

    tokens: Sequence[str]
    moments: Sequence[str]
    heads: Sequence[str]
    maps: Sequence[Sequence[Sequence[Sequence[float]]]]
    title: str = ""

    def svg(self) -> str:
        """The picture."""
        side = _CELL * len(self.tokens)
        names = [token[:12] for token in self.tokens]
        widest = max(width_of(name, _CELL) for name in names)
        left = 16 + widest + max(width_of(head) for head in self.heads)
        top = _TITLE + 0.77 * widest + 22
        parts = [
            text(8, 18, self.title, font_weight="600", font_size="13"),
            text(
                8, 36, "A row of a map is a token, and its cells what it looks at.", class_="faint"
            ),
        ]
        for column, moment in enumerate(self.moments):
            x = left + column * (side + _GAP)
            parts.append(text(x, top - 0.77 * widest - 8, moment, font_weight="600"))
            parts += [
                turned(x + (i + 0.7) * _CELL, top - 3, name, font_size=str(_CELL), class_="faint")
                for i, name in enumerate(names)
            ]
        for row, head in enumerate(self.heads):
            y = top + row * (side + _GAP)
            parts.append(text(8, y + side / 2, head))
            parts += [
                text(left - 4, y + (i + 0.85) * _CELL, name, "end", font_size=str(_CELL))
                for i, name in enumerate(names)
            ]
            parts += [
                self._map(matrix, left + column * (side + _GAP), y, side)
                for column, matrix in enumerate(self.maps[row])
            ]
        bottom = top + len(self.heads) * (side + _GAP)
        parts += legend(left, bottom + 2, "0", "1", "attention weight")
        width = max(left + len(self.moments) * (side + _GAP) + 0.64 * widest, left + 320)
        return svg(width, bottom + LEGEND_HEIGHT, parts, self.title)

    def _map(self, matrix: Sequence[Sequence[float]], x: float, y: float, side: float) -> str:
        frame = (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" fill="none" '
            'stroke="var(--line)"/>'
        )
        return frame + shaded_cells(matrix, x, y, _CELL)
