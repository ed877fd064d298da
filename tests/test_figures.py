"""What the built notebooks show: every figure in words, every table with headers, every one with its label."""

import html
import re
from pathlib import Path

import nbformat
import pytest

from pdlab.course.evidence import LABELS

ROOT = Path(__file__).parents[1]
BUILT = sorted(path for folder in ("notebooks", "labs", "solutions") for path in (ROOT / folder).glob("*.ipynb"))
LABELLED = re.compile(rf"\b({'|'.join(LABELS)})( \(recorded \d{{4}}-\d\d-\d\d on [^)]+(\([^)]*\)[^)]*)*\))? · \S")


def outputs(path):
    """Every display output of a notebook, with the position of its cell."""
    for position, cell in enumerate(nbformat.read(path, 4).cells):
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
    """Tables of outputs and of prose have a header row; in prose at most its corner is empty."""
    for position, data in outputs(path):
        for table in re.findall(r"<table.*?</table>", data.get("text/html", ""), re.S):
            assert "<th" in table, f"cell {position}"
    for position, cell in enumerate(nbformat.read(path, 4).cells):
        if cell.cell_type == "markdown":
            lines = cell.source.splitlines()
            for above, rule in zip(lines, lines[1:]):
                if re.fullmatch(r"\|?[\s:|-]*-[\s:|-]*\|[\s:|-]*", rule) and above.startswith("|"):
                    heads = above.strip().strip("|").split("|")
                    assert sum(not head.strip() for head in heads) <= 1, f"cell {position}: {above}"


def test_the_course_has_figures():
    """The two tests above looked at something: each of the first notebooks shows at least one figure."""
    for number in ("01", "02"):
        shown = [data for path in BUILT if path.stem.startswith(number) for _, data in outputs(path) if "<img" in data.get("text/html", "")]
        assert len(shown) >= 2, number
