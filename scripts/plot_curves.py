"""Draw one metric of several runs as an SVG picture, from their metrics.csv.

Usage: python scripts/plot_curves.py RUN [RUN ...] --metric val/loss --out FILE.svg
"""

import argparse
import csv
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 400, 60, 50, 40, 20
COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626")

Curve = list[tuple[float, float]]


def main() -> None:
    """Read the runs and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--metric", default="val/loss")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    curves = {run.name: read(run / "metrics.csv", options.metric) for run in options.runs}
    options.out.write_text(draw(curves, options.metric), encoding="utf-8")


def read(path: Path, metric: str) -> Curve:
    """The metric's points (step, value)."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [(float(row["step"]), float(row[metric])) for row in rows if row.get(metric)]


def draw(curves: dict[str, Curve], metric: str) -> str:
    """An SVG picture that is readable on a light and on a dark page."""
    points = [point for curve in curves.values() for point in curve]
    last_step = max(step for step, _ in points)
    low, high = min(value for _, value in points), max(value for _, value in points)

    def place(step: float, value: float) -> tuple[float, float]:
        x = LEFT + step / last_step * (WIDTH - LEFT - RIGHT)
        y = TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#888">'
    ]
    for part in range(6):
        x, y = place(last_step * part / 5, low + (high - low) * part / 5)
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#8884"/>')
        value = low + (high - low) * part / 5
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:.2f}</text>')
        label = f"{last_step * part / 5:,.0f}"
        parts.append(f'<text x="{x}" y="{HEIGHT - 28}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">step</text>')
    parts.append(f'<text x="{LEFT}" y="18">{escape(metric)}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x},{y}" for x, y in (place(*point) for point in curve))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{TOP + 18 + 18 * number}" text-anchor="end" '
            f'fill="{colour}">{escape(name)} ({curve[-1][1]:.3f})</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    main()
