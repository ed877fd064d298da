"""What the built notebooks show: every figure in words, every table with headers, every one with its label."""

import html
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from pdlab.course.evidence import LABELS

ROOT = Path(__file__).parents[1]
BUILT = sorted(path for folder in ("notebooks", "labs", "solutions") for path in (ROOT / folder).glob("*.ipynb"))
WIDE_CODE, WIDE_PRINT = 109, 106  # characters that JupyterLab shows beside its file list in a window of 1,300 pixels
WIDE_FOLDED = 128  # code that is folded is wider only where somebody unfolds it: in a window of 1,100 pixels, no file list
LABELLED = re.compile(rf"\b({'|'.join(LABELS)})( \(recorded \d{{4}}-\d\d-\d\d on [^)]+(\([^)]*\)[^)]*)*\))? · \S")


@cache
def cells(path):
    """A notebook's cells, read once for all the tests below."""
    return nbformat.read(path, 4).cells


def outputs(path):
    """Every display output of a notebook, with the position of its cell."""
    for position, cell in enumerate(cells(path)):
        for output in cell.get("outputs", ()):
            if "data" in output:
                yield position, output["data"]


@pytest.mark.parametrize("path", BUILT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_figure_has_its_words(path):
    """No bare picture: each is an img whose alt states a message, with label and source in its plain twin."""
    for position, data in outputs(path):
        assert not {"image/png", "image/svg+xml", "image/jpeg"} & set(data), f"cell {position}: a picture without words"
        for image in re.findall(r"<img\b[^>]*>", data.get("text/html", "")):
            alt = re.search(r'\balt="([^"]*)"', image)
            assert alt and len(html.unescape(alt[1])) >= 40, f"cell {position}: {image[:80]}"
            assert LABELLED.search(data["text/plain"]), f"cell {position}: no label and source"


@pytest.mark.parametrize("path", BUILT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_table_has_headers(path):
    """Tables of outputs and of prose have a header row, and no column goes without a name."""
    for position, data in outputs(path):
        for table in re.findall(r"<table.*?</table>", data.get("text/html", ""), re.S):
            assert "<th" in table, f"cell {position}"
    for position, cell in enumerate(cells(path)):
        if cell.cell_type == "markdown":
            lines = cell.source.splitlines()
            for above, rule in zip(lines, lines[1:]):
                if re.fullmatch(r"\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*", rule) and above.startswith("|"):
                    heads = above.strip().strip("|").split("|")
                    assert all(head.strip() for head in heads), f"cell {position}: {above}"


@pytest.mark.parametrize("path", BUILT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_words_in_a_figure_stand_clear(path):
    """No name of a series leaves the card, crosses the axis or covers another name; no ticks touch."""
    found = [
        f"cell {position}: {html.unescape(words)}"
        for position, data in outputs(path)
        for words in re.findall(r'data-misplaced="([^"]*)"', data.get("text/html", ""))
    ]
    assert not found


@pytest.mark.parametrize("path", BUILT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_nothing_runs_out_of_the_page(path):
    """Code and printed lines fit beside the file list, folded code without it, so that nothing is cut off or broken in a word."""
    for position, cell in enumerate(cells(path)):
        if cell.cell_type != "code":
            continue
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        wide = [line for line in cell.source.splitlines() if len(line) > (WIDE_FOLDED if folded else WIDE_CODE)]
        assert not wide, f"cell {position}: {wide}"
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        wide = [line for line in printed.splitlines() if len(line) > WIDE_PRINT]
        assert not wide, f"cell {position}: {wide}"


@pytest.mark.parametrize("path", BUILT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_headings_stand_in_order(path):
    """One first-level heading, at the top; below it no level is skipped."""
    levels = []
    for cell in cells(path):
        if cell.cell_type == "markdown":
            prose = re.sub(r"```.*?```", "", cell.source, flags=re.S)
            levels += [len(marks) for marks in re.findall(r"^(#+) ", prose, re.M)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:])), levels


@pytest.mark.parametrize("path", BUILT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_long_drawing_code_is_folded(path):
    """A long cell that only draws is folded; an exercise, a check or a guess never is."""
    for position, cell in enumerate(cells(path)):
        folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        asked = "exercise" in cell.metadata or "check" in cell.metadata or "predict(" in cell.source
        draws = cell.cell_type == "code" and re.search(r"\bshow_(figure|table)\(", cell.source)
        assert not (folded and asked), f"cell {position}"
        assert folded or asked or not draws or cell.source.count("\n") < 9, f"cell {position}"


def test_the_course_has_figures():
    """The two tests above looked at something: each of the first notebooks shows at least one figure."""
    for number in ("01", "02"):
        shown = [data for path in BUILT if path.stem.startswith(number) for _, data in outputs(path) if "<img" in data.get("text/html", "")]
        assert len(shown) >= 2, number
