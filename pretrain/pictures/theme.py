"""Colours that are read in daylight and in the dark, by everyone: one hue, from none to full.

A share from 0 to 1 is drawn as the opacity of one blue: lightness alone carries the value, so it
does not matter which colours an eye tells apart.
"""

import math

PAPER, INK = "var(--paper)", "var(--ink)"

STYLE = """
:root, svg { --paper: #ffffff; --ink: #1b1f24; --faint: #5b6470; --line: #d0d7de;
  --heat: #0b5cad; --middle: #1b1f24; --mark: #b35900; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root, svg { --paper: #14171c; --ink: #e6e9ee; --faint: #9aa4b1; --line: #363d47;
    --heat: #7cc0ff; --middle: #14171c; --mark: #ffb35c; } }
svg text { fill: var(--ink); font-family: system-ui, sans-serif; }
svg .faint { fill: var(--faint); }
svg .cell { fill: var(--heat); }
svg .middle { fill: var(--middle); }
svg .full { fill: var(--paper); }
""".strip()
"""The colours, and how the parts of a picture use them; for an ``<svg>`` or a whole page."""


def share_of(value: float, low: float, high: float) -> float:
    """Where ``value`` lies between ``low`` and ``high``, from 0 to 1; NaN stays NaN."""
    if math.isnan(value) or high == low:
        return value if math.isnan(value) else 0.0
    return min(max((value - low) / (high - low), 0.0), 1.0)


def text_class(share: float) -> str:
    """The class of text that is read on a cell of this ``share`` in light and dark alike."""
    if math.isnan(share) or share < 0.48:
        return "low"
    return "middle" if share < 0.78 else "full"
