"""A few shares as bars."""

from dataclasses import dataclass

from pretrain.pictures.svg import svg, text, width_of

_ROW, _LENGTH = 24, 320  # pixels


@dataclass(frozen=True)
class Bars:
    """One bar a name, from nothing to 1.

    Attributes:
        shares: Numbers from 0 to 1 by name.
        title: Stands above.
    """

    shares: dict[str, float]
    title: str = ""

    def svg(self) -> str:
        """The picture."""
        left = 16 + max(width_of(name) for name in self.shares)
        top = 32 if self.title else 8
        parts = [text(8, 18, self.title, font_weight="600", font_size="13")] if self.title else []
        for i, (name, share) in enumerate(self.shares.items()):
            y = top + i * _ROW
            parts += [
                text(left - 8, y + 14, name, "end"),
                f'<rect x="{left:.1f}" y="{y + 3}" width="{_LENGTH}" height="14" '
                'fill="none" stroke="var(--line)"/>',
                f'<rect x="{left:.1f}" y="{y + 3}" width="{share * _LENGTH:.1f}" height="14" '
                'class="cell"/>',
                text(left + _LENGTH + 8, y + 14, f"{share:.1%}"),
            ]
        width = max(left + _LENGTH + 64, 20 + width_of(self.title, 13.5))
        return svg(width, top + _ROW * len(self.shares) + 6, parts, self.title or "shares")
