"""A page that is complete in one file: no script, style or picture from elsewhere."""

import html
from collections.abc import Iterable, Sequence

from pretrain.pictures.theme import STYLE

_PAGE_STYLE = """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 20px 24px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 36px 0 6px; }
p { margin: 4px 0 10px; max-width: 78ch; } .faint { color: var(--faint); }
table { border-collapse: collapse; font-size: 13.5px; } th { text-align: left; font-weight: 600; }
td, th { padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
code, .token { font-family: ui-monospace, monospace; font-size: 13px; }
svg { max-width: 100%; height: auto; }
.side-by-side { display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: flex-start; }
.facts { display: flex; flex-wrap: wrap; gap: 4px 28px; margin: 8px 0 0; padding: 0; }
.facts div { min-width: 90px; } .facts dt { color: var(--faint); font-size: 12px; }
.facts dd { margin: 0; font-variant-numeric: tabular-nums; }
""".strip()


def page(title: str, sections: Iterable[str], style: str = "") -> str:
    """The whole document; ``sections`` are HTML already, the title is not."""
    body = "\n".join(sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n{_PAGE_STYLE}\n{style}\n</style>\n"
        f"</head>\n<body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def section(title: str, words: str, *parts: str) -> str:
    """A heading, a sentence that says how to read what follows, and HTML."""
    said = f'<p class="faint">{html.escape(words)}</p>' if words else ""
    return f"<section>\n<h2>{html.escape(title)}</h2>\n{said}\n" + "\n".join(parts) + "\n</section>"


def facts(named: dict[str, str]) -> str:
    """Names with their values, side by side."""
    pairs = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in named.items()
    )
    return f'<dl class="facts">{pairs}</dl>'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells that are HTML already, under names that are not."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def side_by_side(*parts: str) -> str:
    """Pictures in a row, as far as there is room."""
    return f'<div class="side-by-side">{"".join(parts)}</div>'
