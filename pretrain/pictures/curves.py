"""Lines over one axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pretrain.pictures.svg import svg, text, width_of

_WIDTH, _HEIGHT, _LEFT, _TOP = 460, 190, 52, 34  # pixels, of the plot itself


@dataclass(frozen=True)
class Curves:
    """Each line a series of values at 0, 1, 2, ...; a name at its end where there are several.

    Attributes:
        series: Values by name, all of one length.
        title: Stands above.
        x_title, y_title: What the axes measure.
        high: Top of the plot; its bottom is 0, or the smallest value below.
    """

    series: Mapping[str, Sequence[float]]
    title: str = ""
    x_title: str = ""
    y_title: str = ""
    high: float = 1.0

    def svg(self) -> str:
        """The picture."""
        low = min(0.0, *(min(values) for values in self.series.values()))
        length = max(len(values) for values in self.series.values())
        parts = [text(8, 18, self.title, font_weight="600", font_size="13")]
        for share in (0.0, 0.5, 1.0):
            y = _TOP + (1 - share) * _HEIGHT
            value = low + share * (self.high - low)
            parts.append(f'<path d="M{_LEFT} {y:.1f}h{_WIDTH}" stroke="var(--line)"/>')
            parts.append(text(_LEFT - 6, y + 4, f"{value:.2g}", "end", font_size="11"))
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            place, x = f"{share * (length - 1):.0f}", _LEFT + share * _WIDTH
            parts.append(text(x, _TOP + _HEIGHT + 16, place, "middle", font_size="11"))
        below = _TOP + _HEIGHT + 34
        parts.append(text(_LEFT + _WIDTH / 2, below, self.x_title, "middle", class_="faint"))
        parts.append(text(_LEFT + 6, _TOP + 12, self.y_title, class_="faint", font_size="11"))
        for name, values in self.series.items():
            parts += self._line(name, values, low)
        names = max(width_of(name, 11) for name in self.series) if len(self.series) > 1 else 0
        return svg(_LEFT + _WIDTH + names + 20, below + 10, parts, self.title)

    def _line(self, name: str, values: Sequence[float], low: float) -> list[str]:
        step = _WIDTH / max(len(values) - 1, 1)
        heights = [_TOP + _HEIGHT * (self.high - v) / (self.high - low or 1) for v in values]
        points = " ".join(f"{_LEFT + i * step:.1f},{y:.1f}" for i, y in enumerate(heights))
        line = f'<polyline points="{points}" fill="none" stroke="var(--heat)" stroke-width="1.8"/>'
        if len(self.series) == 1:
            return [line]
        # At a third of the way, where lines that all fall to zero are still apart.
        at = len(values) // 6
        mark = text(_LEFT + at * step + 3, heights[at] - 3, name, font_size="10", class_="faint")
        return [line, mark]
