"""Every solution of the course replaced by a wrong one: each check has to notice its own.

One run a notebook: the right value is put back after each check, so an exercise is red for its own
mistake and never for an earlier one.
"""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from pdlab.course import exercises, kernels
from pdlab.course.source import Source, sources
from pdlab.course.stored import text_of

ROOT = exercises.folder().parents[1]
TIMEOUT_S = 60
# Figures are not what is tested here, and drawing them takes most of the time.
NO_FIGURES = "import pdlab.course.show\npdlab.course.show.show = lambda *a, **k: None"
WRONG = """
from pdlab.course import exercises as _exercises
_right = {name}
{name} = _exercises.evaluate({mistake!r}, "a mutation", expected=_right)
"""


def checked_name(check: NotebookNode) -> str:
    """The variable that a check cell passes to check."""
    calls = [n for n in ast.walk(ast.parse(check.source)) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "check"]
    assert len(calls) == 1 and len(calls[0].args) == 2, f"{check.source!r} does not check one variable"
    argument = calls[0].args[1]
    assert isinstance(argument, ast.Name), f"{check.source!r} checks an expression; give it a name in the answer cell"
    return argument.id


def mutate(book: NotebookNode) -> list[str]:
    """Make every solution of an answers notebook wrong at its check; the exercises, in order."""
    found = []
    for cell in book.cells:
        if exercise_id := cell.metadata.get("check"):
            name, mistake = checked_name(cell), exercises.find(exercise_id).mistakes[0].answer
            cell.source = f"{WRONG.format(name=name, mistake=mistake)}{cell.source}\n{name} = _right"
            found.append(exercise_id)
    book.cells.insert(0, new_code_cell(NO_FIGURES))
    return found


def execute(book: NotebookNode, cwd: Path) -> None:
    client = NotebookClient(
        book, km=kernels.manager(asynchronous=True), timeout=TIMEOUT_S, allow_errors=True, resources={"metadata": {"path": str(cwd)}}
    )
    client.owns_km = True
    client.execute(**kernels.start_options())


@pytest.mark.parametrize("source", sources(ROOT), ids=lambda source: source.name)
def test_every_wrong_solution_turns_its_check_red(source: Source) -> None:
    """With every solution wrong, each check of the notebook shows something else than the stored output."""
    assert source.answers.exists(), f"{source.answers} is missing: pdlab build"
    book = nbformat.read(source.answers, as_version=4)
    stored = {cell.metadata.check: text_of(cell) for cell in book.cells if "check" in cell.metadata}
    changed = mutate(book)
    execute(book, source.answers.parent)
    shown = {cell.metadata.check: text_of(cell) for cell in book.cells if "check" in cell.metadata}
    assert changed == [e.id for e in exercises.registry().values() if e.notebook == source.number]
    for exercise_id in changed:
        assert f"{exercise_id} correct (" in stored[exercise_id]
        assert f"{exercise_id} not yet: " in shown[exercise_id], shown[exercise_id][-2000:]
