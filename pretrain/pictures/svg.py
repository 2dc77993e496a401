"""The frame of a picture, and small parts that several pictures share."""

import html

from pretrain.pictures.theme import PAPER, STYLE

LEGEND_WIDTH, LEGEND_HEIGHT = 170, 34  # pixels


def svg(width: float, height: float, parts: list[str], title: str) -> str:
    """A picture of this size in pixels that is complete in itself; ``title`` says what it shows."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-size="12" role="img" '
        f'aria-label="{html.escape(title)}">\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, anchor: str = "start", **attributes: str) -> str:
    """One line of text, escaped; ``class_`` is its class."""
    extra = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in attributes.items()
    )
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'
    )


def turned(x: float, y: float, words: str, **attributes: str) -> str:
    """A line of text that rises from ``(x, y)`` at 50 degrees."""
    return text(x, y, words, transform=f"rotate(-50 {x:.1f} {y:.1f})", **attributes)


def legend(x: float, y: float, low: str, high: str, words: str) -> list[str]:
    """The scale from ``low`` to ``high``, and what it measures."""
    steps, width = 20, LEGEND_WIDTH
    parts = [
        f'<rect x="{x + i * width / steps:.1f}" y="{y}" width="{width / steps:.1f}" height="8" '
        f'class="cell" opacity="{(i + 1) / steps:.2f}"/>'
        for i in range(steps)
    ]
    return [
        *parts,
        text(x, y + 22, low, font_size="11"),
        text(x + width, y + 22, high, "end", font_size="11"),
        text(x + width + 10, y + 9, words, class_="faint", font_size="11"),
    ]


def width_of(words: str, size: float = 12.0) -> float:
    """About how wide a line of text is, in pixels."""
    return 0.58 * size * len(words)
