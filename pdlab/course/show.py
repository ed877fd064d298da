"""Put figures and tables on the page, with alternative text, in bytes that do not change.

JupyterLab 4 and nbconvert's lab template both draw an ``image/png`` output without an ``alt``
attribute, whatever its metadata say.  An ``<img alt>`` in a ``text/html`` output is kept by both,
in notebooks that are not trusted too.  So a figure is one ``<img>`` around an SVG, and its
``text/plain`` twin is the alternative text, which is also what a test compares in words.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdlab.course import plots
from pdlab.course.evidence import evidence
from pdlab.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALT_MINIMUM_CHARACTERS = 40
SHORT_CELL = 36  # characters that are never broken over two lines


def show(fig: Figure | Any, *, alt: str) -> None:
    """Show a figure (or the axes of one) with its alternative text.

    Raises BadInput when ``alt`` is missing, too short to state a message, or only names the kind of plot.
    """
    words = " ".join((alt or "").split())
    if len(words) < ALT_MINIMUM_CHARACTERS or re.match(r"(a |the )?(plot|figure|graph|chart|image|picture) (of|showing|with)\b", words, re.I):
        raise BadInput(repr(alt), "the figure's message and its numbers in a sentence", "alt", "write what a reader should take away")
    fig = fig if hasattr(fig, "savefig") else fig.figure
    shown = plots.finish(fig)
    data = base64.b64encode(svg_bytes(fig)).decode()
    crowded = "; ".join(plots.misplaced(fig))  # a test reads it; a live run is shown all the same
    told = f' data-misplaced="{html.escape(crowded)}"' if crowded else ""
    page = (
        f'<img class="jp-needs-light-background" alt="{html.escape(words)}" '
        f'style="max-width:100%;width:{fig.get_figwidth() * 96:.0f}px;height:auto;border-radius:6px" '
        f'src="data:image/svg+xml;base64,{data}"{told}>'
    )
    _publish(page, f"[Figure: {fig.pdlab_title} {words} Evidence: {shown}]")


def svg_bytes(fig: Figure) -> bytes:
    """The figure as SVG without date, random ids, or digits that differ between processors."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "pdlab", "svg.fonttype": "path"}):
        FigureCanvasSVG(fig).print_svg(buffer, metadata={"Date": None, "Creator": None})  # savefig would draw twice
    return _steady(buffer.getvalue()).encode()


def _steady(svg: str) -> str:
    """Round coordinates to 1/100 point and number the ids in order of appearance."""
    coordinates = r'\b(?:d|x|y|points)="[^"]*"|translate\([^)]*\)'
    svg = re.sub(coordinates, lambda m: re.sub(r"-?\d+\.\d+", _two_digits, m[0]), svg)
    ids: dict[str, str] = {}
    for found in re.findall(r'id="([a-z][0-9a-f]{10})"', svg):
        ids.setdefault(found, f"p{len(ids)}")
    return re.sub(r"(?<=[\"#])([a-z][0-9a-f]{10})(?=[\")])", lambda m: ids.get(m[1], m[1]), svg)


def _two_digits(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def show_table(
    rows: Any,
    headers: Sequence[str] | None = None,
    *,
    label: str,
    source: str,
    caption: str,
    run: str | Path | None = None,
) -> None:
    """Show rows (or a DataFrame) as a table with headers, caption, evidence label and source.

    Integers get thousands separators and floats four decimals; pass strings for other digits.
    Columns of numbers stand right.  ``run`` is the directory of a recorded run.
    Raises BadInput for a missing label, source or caption, and for rows that do not fit the headers.
    """
    shown = evidence(label, source, run)
    if not caption or not caption.strip():
        raise BadInput(repr(caption), "one line that says what the table holds", "caption", "write a caption")
    names, cells = _grid(rows, headers)
    text = [[_text(value) for value in row] for row in cells]
    columns = [[row[i] for row in text if row[i]] for i in range(len(names))]  # an empty cell is neither word nor number
    right = [bool(column) and all(map(_numeric, column)) for column in columns]
    _publish(_html_table(names, text, right, caption.strip(), str(shown)), _plain_table(names, text, right, caption.strip(), str(shown)))


def _grid(rows: Any, headers: Sequence[str] | None) -> tuple[list[str], list[list[Any]]]:
    if hasattr(rows, "itertuples"):
        names = list(headers) if headers is not None else [str(c) for c in rows.columns]
        cells = [list(row) for row in rows.itertuples(index=False, name=None)]
    elif headers is None:
        raise BadInput("none", "one name a column", "headers", "name the columns")
    else:
        names, cells = list(headers), [list(row) for row in rows]
    if not all(name.strip() for name in names) or len(set(names)) < len(names):
        raise BadInput(f"headers {names}", "a name of its own for each column", "headers", "say what each column holds")
    odd = [len(row) for row in cells if len(row) != len(names)]
    if odd or not cells:
        raise BadInput(f"rows of {odd} cells" if odd else "no rows", f"rows of {len(names)}", "rows", "give each column one value")
    return names, cells


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if hasattr(value, "item"):  # a numpy scalar
        return _text(value.item())
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4f}" if isinstance(value, float) else str(value)


def _numeric(text: str) -> bool:
    return re.fullmatch(r"[-−+≈<>≤≥~]?\s?[\d,.]+( (to|of|/) [\d,.]+)*(\s?(%|×|[A-Za-zµ/]{1,8}))?|–", text) is not None


def _html_table(names: Iterable[str], rows: list[list[str]], right: list[bool], caption: str, shown: str) -> str:
    def cell(tag: str, text: str, i: int, scope: str = "") -> str:
        whole = ";white-space:nowrap" if tag == "td" and len(text) <= SHORT_CELL else ""
        return f'<{tag}{scope} style="text-align:{"right" if right[i] else "left"}{whole}">{html.escape(text)}</{tag}>'

    head = "".join(cell("th", name, i, ' scope="col"') for i, name in enumerate(names))
    body = "".join("<tr>" + "".join(cell("td", text, i) for i, text in enumerate(row)) + "</tr>\n" for row in rows)
    return (
        '<table style="margin:0.5em 0">\n'
        f'<caption style="caption-side:top;text-align:left;font-weight:bold;padding:0.3em 0">{html.escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"
        f'<p style="margin:0 0 0.8em;font-size:85%">{html.escape(shown)}</p>'
    )


def _plain_table(names: list[str], rows: list[list[str]], right: list[bool], caption: str, shown: str) -> str:
    from tabulate import tabulate

    align = ["right" if r else "left" for r in right]
    return f"{caption}\n{tabulate(rows, headers=names, tablefmt='simple', disable_numparse=True, colalign=align)}\n{shown}"


def _publish(page: str, plain: str) -> None:
    from IPython.display import publish_display_data

    publish_display_data({"text/html": page, "text/plain": plain})
