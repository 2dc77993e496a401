"""Attention maps of all layers and heads that answer to a pointer: HTML, and a script inside it."""

import base64
import html
import json
from collections.abc import Sequence

import torch
from torch import Tensor

from pretrain.pictures.explorer_script import SCRIPT

EXPLORER_STYLE = """
.chips { line-height: 2.1; margin: 6px 0 14px; }
.chip { font: 13px ui-monospace, monospace; padding: 2px 4px; margin: 0 2px 0 0; cursor: pointer;
  border: 1px solid var(--line); border-radius: 4px; color: var(--ink); background: none; }
.chip.query { outline: 2px solid var(--mark); outline-offset: 1px; }
.chip.full { color: var(--paper); } .chip.middle { color: var(--middle); }
.explorer { display: flex; flex-wrap: wrap; gap: 24px; align-items: flex-start; }
.large { flex: 1 1 480px; max-width: 640px; min-width: 300px; }
.large canvas { width: 100%; display: block; }
.readout { min-height: 3em; margin: 0 0 4px; }
.maps { flex: 1 1 480px; display: grid; gap: 6px; align-items: center; font-size: 12px; }
.map { padding: 0; border: 1px solid var(--line); background: none; cursor: pointer; color: inherit;
  font: 11px system-ui, sans-serif; min-width: 0; }
.map canvas { width: 100%; aspect-ratio: 1; display: block; image-rendering: pixelated; }
.map[aria-pressed=true] { outline: 3px solid var(--mark); }
""".strip()

LARGEST = 1_000_000  # weights on a page: 1.4 MB of text


def tokens_that_fit(n_layers: int, n_heads: int, most: int) -> int:
    """How many tokens, at most ``most``, all maps together have room for."""
    return max(1, min(most, int((LARGEST / (n_layers * n_heads)) ** 0.5)))


def attention_explorer(tokens: Sequence[str], weights: Tensor, entropy: Tensor, query: int) -> str:
    """A row of tokens, one large map and all maps small; shown first is the sharpest head.

    Args:
        tokens: Readable.
        weights: ``(n_layers, n_heads, n, n)``, each row summing to 1.
        entropy: ``(n_layers, n_heads)``, normalised.
        query: The token whose attention is shown first.
    """
    n_layers, n_heads = entropy.shape
    first = int(entropy.nan_to_num(nan=1.0).argmin())
    data = {
        "tokens": list(tokens),
        "layers": n_layers,
        "heads": n_heads,
        "start": [first // n_heads, first % n_heads, query],
        "weights": packed(weights),
    }
    # A "<" in a token must not end the script.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    chips = "".join(
        f'<button class="chip" data-token="{i}">{html.escape(token)}</button>'
        for i, token in enumerate(tokens)
    )
    return (
        f'<div class="chips">{chips}</div>\n<div class="explorer">\n'
        '<div class="large"><p class="readout" aria-live="polite"></p>'
        '<canvas aria-label="attention map of the chosen head"></canvas></div>\n'
        f"{_small_maps(entropy)}\n</div>\n"
        f'<script type="application/json" id="attention">{text}</script>\n'
        f"<script>{SCRIPT}</script>"
    )


def packed(weights: Tensor) -> str:
    """One byte a weight, in base64: 255 times its square root, which keeps small weights apart."""
    levels = (255 * weights.clamp(0, 1).sqrt()).round().to(torch.uint8)
    return base64.b64encode(levels.contiguous().numpy().tobytes()).decode()


def _small_maps(entropy: Tensor) -> str:
    n_layers, n_heads = entropy.shape
    parts = ["<span>head</span>", *(f"<span>{head}</span>" for head in range(n_heads))]
    for layer in range(n_layers):
        parts.append(f"<span>layer {layer}</span>")
        parts += [
            f'<button class="map" data-layer="{layer}" data-head="{head}" '
            f'aria-label="layer {layer}, head {head}"><canvas></canvas></button>'
            for head in range(n_heads)
        ]
    columns = f"grid-template-columns: auto repeat({n_heads}, minmax(24px, 132px))"
    return f'<div class="maps" style="{columns}">{"".join(parts)}</div>'
