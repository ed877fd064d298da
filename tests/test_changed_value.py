"""The gate on the course itself: a changed value is seen in every notebook."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
from minicourse import ROOT, run_pytest

from pdlab.course.stored import is_compared

FLOOR = Path("tests", "compared-cells.json")


def test_one_changed_value_in_each_notebook_is_red(tmp_path: Path) -> None:
    """In the answers of every notebook, a changed stored value fails at exactly that cell."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    answers = [name for name in json.loads((ROOT / FLOOR).read_text()) if name.startswith("solutions/")]
    changed: dict[str, str] = {}
    for name in answers:
        notebook = nbformat.read(ROOT / name, as_version=4)
        code = [c for c in notebook.cells if c.cell_type == "code"]
        compared = [c for c in code if is_compared(c)]
        target = next((c for c in compared if "check" in c.metadata), compared[0])
        assert _change(target), f"{name}: cell {target.id} has no text to change"
        del notebook.cells[notebook.cells.index(target) + 1 :]  # what follows needs no second run here
        (tmp_path / name).parent.mkdir(exist_ok=True)
        nbformat.write(notebook, tmp_path / name)
        changed[name] = f"Cell {code.index(target)}"
    assert len(changed) >= 14
    result, failures = run_pytest(tmp_path, "--nbval", "solutions")
    red = {f"{name}.ipynb": set(found) - {"stored form"} for name, found in failures.items()}
    for name, test in changed.items():
        assert red[name] == {test}, result.stdout[-3000:]


def _change(target: nbformat.NotebookNode) -> bool:
    """Change one character of what a cell is stored as showing."""
    for output in target.outputs:
        if output.output_type == "stream":
            output.text = "~" + output.text[1:]
            return True
        for mime in ("text/plain", "text/html", "text/markdown"):
            if output.get("data", {}).get(mime):
                output.data[mime] = "~" + output.data[mime][1:]
                return True
    return False
