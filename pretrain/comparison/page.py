"""The comparison as one page that needs no server, no network and no file beside it."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files

from pretrain.comparison.charts import page_data
from pretrain.comparison.comparison import Comparison
from pretrain.comparison.configuration import MISSING
from pretrain.comparison.run import Run

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
"""


def comparison_page(comparison: Comparison) -> str:
    """The whole document; what comes from the runs is text in it, never markup or code."""
    runs = comparison.verdict.runs
    data, note = page_data(runs)
    # A `<` would let a name end the element that the data stands in.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    script = _part("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = f"{runs[0].name}" if len(runs) == 1 else f"{len(runs)} runs compared"
    return (
        _HEAD.format(policy=policy, title=html.escape(title), style=_part("page.css"))
        + _verdict(comparison)
        + f'<div class="tables">{_results(comparison)}{_settings(comparison)}</div>\n'
        + _alerts(runs)
        + '<div id="toolbar"></div>\n<main id="curves"></main>\n'
        + (f'<p class="faint">{html.escape(note)}</p>\n' if note else "")
        + '<noscript><p class="caution">The curves need JavaScript.</p></noscript>\n'
        + f'<script type="application/json" id="data">{text}</script>\n'
        + f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return files("pretrain.comparison").joinpath(name).read_text("utf-8")


def _words(text: str) -> str:
    """A sentence; a number and its unit stay on one line."""
    return re.sub(r"(\d) (%|nats)", r"\1&nbsp;\2", html.escape(text))


def _verdict(comparison: Comparison) -> str:
    verdict = comparison.verdict
    said = "".join(f"<li>{_words(one)}</li>" for one in verdict.sentences)
    warned = "".join(f'<p class="caution">{_words(one)}</p>' for one in verdict.cautions)
    kind = "Run" if len(verdict.runs) == 1 else "Verdict"
    return (
        f'<header><div class="words"><p class="kind">{kind}</p>'
        f"<h1>{_words(verdict.headline)}</h1><ul>{said}</ul>{warned}</div>"
        '<div id="glance"></div></header>\n'
    )


def _heads(comparison: Comparison) -> str:
    """The runs' names over their columns, with the key of their curves."""
    best = comparison.verdict.best
    cells = []
    for i, run in enumerate(comparison.verdict.runs):
        badge = ' <span class="badge">best</span>' if run is best else ""
        title = html.escape(str(run.path))
        key = f'<span class="key" data-run="{i}"></span>'
        name = re.sub(r"([_/.-])", r"\1<wbr>", html.escape(run.name))  # where it may break
        cells.append(f'<th scope="col" title="{title}">{key}{name}{badge}</th>')
    return "".join(cells)


def _results(comparison: Comparison) -> str:
    rows = []
    for row in comparison.results:
        cells = "".join(
            f'<td class="best">{html.escape(cell)}</td>'
            if i == row.best
            else f"<td>{html.escape(cell)}</td>"
            for i, cell in enumerate(row.cells)
        )
        rows.append(f'<tr><th scope="row">{html.escape(row.title)}</th>{cells}</tr>')
    return _table("Results", "results", _heads(comparison), rows)


def _settings(comparison: Comparison) -> str:
    if not comparison.differences:
        return ""
    rows = []
    for row in comparison.differences:
        cells = "".join(
            f'<td class="faint">{html.escape(value)}</td>'
            if value == MISSING
            else f"<td>{html.escape(value)}</td>"
            for value in row.values
        )
        rows.append(f'<tr><th scope="row">{html.escape(row.key)}</th>{cells}</tr>')
    title = f"Settings that differ ({len(rows)})"
    return _table(title, "settings", _heads(comparison), rows)


def _table(title: str, kind: str, heads: str, rows: Sequence[str]) -> str:
    return (
        f'<section class="{kind}"><h2>{title}</h2><div class="scroll"><table><thead><tr><td></td>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _alerts(runs: Sequence[Run]) -> str:
    said = [
        f'<li><span class="key" data-run="{i}"></span><b>{html.escape(run.name)}: '
        f"{html.escape(str(alert.get('name')).replace('_', ' '))}.</b> "
        f"{html.escape(str(alert.get('text') or ''))}</li>"
        for i, run in enumerate(runs)
        for alert in run.alerts
    ]
    if not said:
        return ""
    return f'<section class="alerts"><h2>Alerts</h2><ul>{"".join(said)}</ul></section>\n'
