"""Figures in one style: a sentence as title, direct labels, the evidence in a corner.

The learner sees figures on white pages, on dark ones and at half size, and some in grey only.
So every figure brings its own light card, and every series differs in colour, marker and dash.
Nothing here draws to the screen: ``pdlab.course.show.show`` does.
"""

from __future__ import annotations

import functools
import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdlab.course.evidence import Evidence, evidence
from pdlab.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's eight colours, told apart with any common colour vision.  Yellow and sky blue
# are too pale for thin lines on a light card, so they come last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), "-", "--", ":")
CARD, INK, FAINT = "#FFFFFF", "#1B1B1B", "#595959"
TITLE_POINTS, CORNER_PER_INCH = 14, 13  # size of the title; characters of the corner that fit
TITLE_LINE, CORNER_LINE = 0.25, 0.18  # inches a line
FONT = "DejaVu Sans"  # matplotlib carries it, so a figure is the same on every machine

_RC = {
    "font.family": FONT,
    "font.size": 12.5, "axes.labelsize": 12.5, "xtick.labelsize": 12, "ytick.labelsize": 12,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#DDDDDD", "grid.linewidth": 0.8, "axes.axisbelow": True,
    "figure.facecolor": CARD, "axes.facecolor": CARD, "text.color": INK, "axes.labelcolor": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": FAINT,
    "lines.linewidth": 2.2, "lines.markersize": 7, "mathtext.default": "regular",
}


def figure(
    title: str,
    *,
    label: str,
    source: str,
    run: str | Path | None = None,
    xlabel: str = "",
    ylabel: str = "",
    xlog: bool = False,
    ylog: bool = False,
    panels: tuple[int, int] = (1, 1),
    size: tuple[float, float] = (8.0, 4.8),
    **subplot_options: Any,
) -> Any:
    """Open a figure whose title states its message; return its axes (an array of them for several panels).

    ``label`` is one of the four kinds of evidence, ``source`` says where the numbers come from,
    ``run`` is the directory of a recorded run (its date and machine are then shown).  Size in inches.
    Raises BadInput for a missing title, label or source.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as MplFigure

    if len(title.split()) < 4:
        raise BadInput(repr(title), "a sentence that states the message", "title", "say what the figure shows")
    shown = evidence(label, source, run)
    with mpl.rc_context(_RC):
        fig = MplFigure(figsize=size, layout="constrained")
        axes = fig.subplots(*panels, **subplot_options)
        heading = _title_lines(title, 0.97 * size[0] * 72)
        corner = textwrap.wrap(str(shown), int(size[0] * CORNER_PER_INCH))
        fig.text(0.012, 1 - 0.08 / size[1], "\n".join(heading), ha="left", va="top", fontsize=TITLE_POINTS, fontweight="bold")
        fig.text(0.99, 0.06 / size[1], "\n".join(corner), ha="right", va="bottom", fontsize=9.5, color=FAINT)
        below, above = (0.1 + CORNER_LINE * len(corner)) / size[1], (0.12 + TITLE_LINE * len(heading)) / size[1]
        fig.get_layout_engine().set(rect=(0.006, below, 0.982, 1 - below - above), h_pad=0.06, w_pad=0.06)
    fig.pdlab_evidence, fig.pdlab_title = shown, title
    for ax in np.atleast_1d(axes).flat:
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        if xlog:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(_plain)
        if ylog:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter(_plain)
        if {"sharex", "sharey"} & set(subplot_options):
            ax.label_outer()
        ax.pdlab_styles = itertools.cycle(range(len(COLOURS)))
        ax.pdlab_labels, ax.pdlab_rows = [], {}
    return axes


def style(index: int) -> dict[str, Any]:
    """Colour, marker and dash of series number ``index``: the keywords ``ax.plot`` takes."""
    i = index % len(COLOURS)
    return {"color": COLOURS[i], "marker": MARKERS[i], "linestyle": DASHES[i]}


def line(
    ax: Axes, x: Sequence[float], y: Sequence[float], name: str, index: int | None = None, *, dx: float = 9, dy: float = 0, **options: Any
) -> None:
    """Draw a series in the next free style and write its name ``dx`` and ``dy`` points from its last point."""
    look = style(next(ax.pdlab_styles) if index is None else index) | options
    ax.plot(x, y, **look)
    name_at(ax, x[-1], y[-1], name, look["color"], dx, dy)


def name_at(ax: Axes, x: float, y: float, name: str, colour: str = INK, dx: float = 9, dy: float = 0) -> None:
    """Write ``name`` beside a point, ``dx`` and ``dy`` points away; ``show`` moves such names off each other."""
    from matplotlib.patheffects import withStroke

    text = ax.annotate(
        name, (x, y), xytext=(dx, dy), textcoords="offset points", color=_dark(colour), fontsize=12,
        va="center", ha="left" if dx >= 0 else "right", annotation_clip=False, zorder=6,
        path_effects=[withStroke(linewidth=3.5, foreground=CARD)],  # readable where a line runs behind it
    )
    ax.pdlab_labels.append(text)


def ecdf(ax: Axes, values: Sequence[float], name: str, index: int | None = None) -> None:
    """Draw the share of values at or below x: all of the distribution, tail included, no bins."""
    ordered = np.sort(np.asarray(values, float))
    if ordered.size == 0:
        raise BadInput("no values", "at least one", f"ecdf of {name}", "check the run before drawing it")
    look = style(next(ax.pdlab_styles) if index is None else index) | {"marker": ""}
    share = np.arange(1, ordered.size + 1) / ordered.size
    ax.step(ordered, share, where="post", **look)
    name_at(ax, float(ordered[-1]), 1.0, name, look["color"], dx=-1, dy=11)


def strip(ax: Axes, values: Sequence[float], row: float, name: str, index: int = 0) -> None:
    """Draw every value as a point on one row, spread a little so that equal ones do not hide each other."""
    points = np.asarray(values, float)
    spread = np.random.default_rng(0).uniform(-0.16, 0.16, points.size)  # a fixed seed: the same picture each time
    ax.plot(points, row + spread, linestyle="", marker=MARKERS[index], color=COLOURS[index], alpha=0.6, markersize=5)
    ax.pdlab_rows[float(row)] = name
    ax.set_yticks(list(ax.pdlab_rows), list(ax.pdlab_rows.values()))


def finish(fig: Figure) -> Evidence:
    """Announce log axes, part thousands on ticks, and move direct labels off each other; return the figure's evidence.

    Raises BadInput for a figure that ``figure`` did not open: it would have no label.
    """
    shown = getattr(fig, "pdlab_evidence", None)
    if shown is None:
        raise BadInput("a figure without evidence label", "one opened by figure(…)", "show", "open it with figure")
    for ax in fig.axes:
        for scale, read, write in (
            (ax.get_xscale(), ax.get_xlabel, ax.set_xlabel), (ax.get_yscale(), ax.get_ylabel, ax.set_ylabel),
        ):
            inner = not read() and len(fig.axes) > 1  # a panel whose axis is named on another one
            if scale == "log" and "log scale" not in read() and not inner:
                write(f"{read()} (log scale)".strip())
        for axis in (ax.xaxis, ax.yaxis):
            _part_thousands(axis)
    fig.get_layout_engine().execute(fig)  # positions are known only after a layout
    fig.set_layout_engine("none")  # and it holds: to lay out and draw again takes longer than all the rest
    for ax in fig.axes:
        _spread(getattr(ax, "pdlab_labels", []))
    return shown


def _spread(labels: list[Any]) -> None:
    """Push labels that overlap apart, the lower one down and the upper one up."""
    for _ in range(60):
        moved = False
        for pair in itertools.combinations(labels, 2):
            low, high = sorted(pair, key=lambda text: text.get_window_extent().y0)
            below, above = low.get_window_extent(), high.get_window_extent()
            overlap = below.y1 - above.y0
            if overlap > 0.5 and below.x0 < above.x1 and above.x0 < below.x1:
                step = 0.5 * overlap * 72 / low.figure.dpi
                for text, way in ((low, -step), (high, step)):
                    x, y = text.get_position()
                    text.set_position((x, y + way))
                moved = True
        if not moved:
            return


def misplaced(fig: Figure) -> list[str]:
    """What is wrong with the words and ticks of a finished figure, in words; nothing when all is well."""
    card, found = fig.bbox, []
    for ax in fig.axes:
        ticks = [(text.get_text(), text.get_window_extent()) for text in ax.get_xticklabels() if text.get_text()]
        ticks = [(words, box) for words, box in ticks if ax.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= ax.bbox.x1 + 1]
        for (one, box), (other, right) in itertools.pairwise(sorted(ticks, key=lambda tick: tick[1].x0)):
            if ax.axison and box.x1 + 3 > right.x0:
                found.append(f"the ticks {one!r} and {other!r} touch")
        texts = [text for text in ax.texts if text.get_text().strip()]
        labels = [(text.get_text(), text.get_window_extent()) for text in texts]
        found += [f"{text.get_text()!r} is too pale" for text in texts if _pale(text.get_color())]
        for words, box in labels:
            if box.x0 < card.x0 or box.x1 > card.x1 or box.y0 < card.y0 or box.y1 > card.y1:
                found.append(f"{words!r} leaves the card")
            if ax.axison and ax.spines["left"].get_visible() and box.x0 < ax.bbox.x0 - 1 and box.x1 > ax.bbox.x0 + 1:
                found.append(f"{words!r} crosses the axis")
        for (one, box), (other, second) in itertools.combinations(labels, 2):
            wide = min(box.x1, second.x1) - max(box.x0, second.x0)
            high = min(box.y1, second.y1) - max(box.y0, second.y0)
            if wide > 1 and high > 2:
                found.append(f"{one!r} covers {other!r}")
    return found


def _title_lines(title: str, width: float) -> list[str]:
    """A title in as few lines as fit into ``width`` points, and those about equally long: no word alone."""
    few = _wrapped(title, width)
    narrower = (_wrapped(title, width * share / 20) for share in range(10, 21))
    return next(lines for lines in narrower if len(lines) <= len(few))


def _wrapped(title: str, width: float) -> list[str]:
    lines: list[str] = []
    for word in title.split():
        if lines and _title_width(longer := f"{lines[-1]} {word}") <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@functools.cache
def _title_width(words: str) -> float:
    """Points that ``words`` take in the title's font."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    bold = FontProperties(family=FONT, weight="bold")
    # the outermost control point: this font's outlines have one at each extreme, and the curve's own extent takes 7 times as long
    return float(TextPath((0, 0), words, size=TITLE_POINTS, prop=bold).vertices[:, 0].max())


def _plain(value: float, _position: int) -> str:
    """A tick of a log axis as people write it: 1,000 rather than a power of ten."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _pale(colour: Any) -> bool:
    """Whether words of a colour are hard to read on the card (WCAG 2: less than 4.5 to 1); white ones stand on a bar."""
    from matplotlib.colors import to_rgb

    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in to_rgb(colour))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return luminance < 1 and 1.05 / (luminance + 0.05) < 4.5


def _part_thousands(axis: Any) -> None:
    """Ticks as the text writes them, 2,000 for 2000, on a linear axis that reaches so far and has no words of its own."""
    from matplotlib.ticker import ScalarFormatter

    if isinstance(axis.get_major_formatter(), ScalarFormatter) and max(map(abs, axis.get_view_interval())) >= 1000:
        axis.set_major_formatter(_parted)


def _parted(value: float, _position: int) -> str:
    return f"{value:,.10g}"


def _dark(colour: str) -> str:
    """Text needs more contrast than a line: names in six of the eight colours are written darker."""
    darker = {
        "#D55E00": "#B34700", "#009E73": "#00704F", "#CC79A7": "#9A3F72",
        "#E69F00": "#8A5F00", "#56B4E9": "#1F6E9C", "#F0E442": "#6B6400",
    }
    return darker.get(colour, colour)
