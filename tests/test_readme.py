"""The README's path says of every notebook what the notebook says of itself."""

from __future__ import annotations

import re

import nbformat
from minicourse import ROOT

ROW = re.compile(r"^\| (?P<number>\d\d|L\d) \| (?P<title>[^|]+) \| (?P<minutes>\d*) \| (?P<status>[^|]+) \|$", re.MULTILINE)


def test_path_is_what_the_notebooks_say() -> None:
    """Every built notebook has a row, marked ready, with its own title and minutes; no other row is ready."""
    rows = {row["number"]: row.groupdict() for row in ROW.finditer((ROOT / "README.md").read_text())}
    built = {p.name.partition("-")[0]: p for folder in ("notebooks", "labs") for p in (ROOT / folder).glob("*.ipynb")}
    assert built
    assert {number for number, row in rows.items() if row["status"] == "ready"} == set(built)
    for number, path in built.items():
        first = nbformat.read(path, as_version=4).cells[0].source
        assert re.search(rf"^# {number} · {re.escape(rows[number]['title'])}$", first, re.MULTILINE), (number, first[:80])
        assert re.search(rf"\*\*Time:?\*\* {rows[number]['minutes']} min", first), (number, first[:200])
