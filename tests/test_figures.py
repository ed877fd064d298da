"""What the built notebooks show: every figure in words, every table with headers, every one with its label."""

import html
import re
from functools import cache
from pathlib import Path

import nbformat

from pdlab.course.evidence import LABELS

ROOT = Path(__file__).parents[1]
BUILT = sorted(path for folder in ("notebooks", "labs", "solutions") for path in (ROOT / folder).glob("*.ipynb"))
WIDE_CODE, WIDE_PRINT = 109, 106  # characters that JupyterLab shows beside its file list in a window of 1,300 pixels
WIDE_FOLDED = 128  # code that is folded is wider only where somebody unfolds it: in a window of 1,100 pixels, no file list
LABELLED = re.compile(rf"\b({'|'.join(LABELS)})( \(recorded \d{{4}}-\d\d-\d\d on [^)]+(\([^)]*\)[^)]*)*\))? · \S")


@cache
def cells():
    """Every cell of the built notebooks, with its place: ``labs/L1-link, cell 3``."""
    return [(f"{path.parent.name}/{path.stem}, cell {position}", cell)
            for path in BUILT for position, cell in enumerate(nbformat.read(path, 4).cells)]  # fmt: skip


def outputs():
    """Every display output, with the place of its cell."""
    for place, cell in cells():
        for output in cell.get("outputs", ()):
            if "data" in output:
                yield place, output["data"]


def test_every_figure_has_its_words():
    """No bare picture: each is an img whose alt states a message, with label and source in its plain twin."""
    for place, data in outputs():
        assert not {"image/png", "image/svg+xml", "image/jpeg"} & set(data), f"{place}: a picture without words"
        for image in re.findall(r"<img\b[^>]*>", data.get("text/html", "")):
            alt = re.search(r'\balt="([^"]*)"', image)
            assert alt and len(html.unescape(alt[1])) >= 40, f"{place}: {image[:80]}"
            assert LABELLED.search(data["text/plain"]), f"{place}: no label and source"


def test_every_table_has_headers():
    """Tables of outputs and of prose have a header row, and no column goes without a name."""
    for place, data in outputs():
        for table in re.findall(r"<table.*?</table>", data.get("text/html", ""), re.S):
            assert "<th" in table, place
    for place, cell in cells():
        if cell.cell_type == "markdown":
            lines = cell.source.splitlines()
            for above, rule in zip(lines, lines[1:]):
                if re.fullmatch(r"\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*", rule) and above.startswith("|"):
                    heads = above.strip().strip("|").split("|")
                    assert all(head.strip() for head in heads), f"{place}: {above}"


def test_the_words_in_a_figure_stand_clear():
    """No name of a series leaves the card, crosses the axis or covers another name; no ticks touch."""
    found = [
        f"{place}: {html.unescape(words)}"
        for place, data in outputs()
        for words in re.findall(r'data-misplaced="([^"]*)"', data.get("text/html", ""))
    ]
    assert not found


def test_nothing_runs_out_of_the_page():
    """Code and printed lines fit beside the file list, folded code without it, so that nothing is cut off or broken in a word."""
    for place, cell in cells():
        if cell.cell_type != "code":
            continue
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        wide = [line for line in cell.source.splitlines() if len(line) > (WIDE_FOLDED if folded else WIDE_CODE)]
        assert not wide, f"{place}: {wide}"
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        wide = [line for line in printed.splitlines() if len(line) > WIDE_PRINT]
        assert not wide, f"{place}: {wide}"


def test_headings_stand_in_order():
    """One first-level heading, at the top; below it no level is skipped."""
    found = {}
    for place, cell in cells():
        if cell.cell_type == "markdown":
            prose = re.sub(r"```.*?```", "", cell.source, flags=re.S)
            found.setdefault(place.partition(",")[0], []).extend(len(marks) for marks in re.findall(r"^(#+) ", prose, re.M))
    for name, levels in found.items():
        assert levels[0] == 1 and levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in zip(levels, levels[1:])), (name, levels)


def test_long_drawing_code_is_folded():
    """A long cell that only draws is folded; an exercise, a check or a guess never is."""
    for place, cell in cells():
        folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        asked = "exercise" in cell.metadata or "check" in cell.metadata or "predict(" in cell.source
        draws = cell.cell_type == "code" and re.search(r"\bshow_(figure|table)\(", cell.source)
        assert not (folded and asked), place
        assert folded or asked or not draws or cell.source.count("\n") < 9, place


def test_the_course_has_figures():
    """The tests above looked at something: both copies of each of the first notebooks show at least one figure."""
    for number in ("01", "02"):
        shown = [place for place, data in outputs() if f"/{number}-" in place and "<img" in data.get("text/html", "")]
        assert len({place.partition(",")[0] for place in shown}) == 2, number
