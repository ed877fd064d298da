"""The learner's answers set into the course's own notebook, before any of it runs.

The backbone is the answers notebook: its given cells, its check cells and its stored outputs.  An
answer cell is the learner's, found by its cell id or by its first line ``# Exercise 2.1``.  What
the learner added stays where it stands, relative to the backbone's cells.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pdlab.course import _quick  # isort: skip  # noqa: F401, before nbformat
import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from pdlab.documents import why
from pdlab.errors import BadInput

MOST_BYTES = 25_000_000  # a learner's file; the course's own have less than 1 MB
MOST_CELLS, MOST_PARSED = 2_000, 200_000  # cells of a file; characters of a cell that are looked through

Role = Literal["given", "guess", "answer", "check", "extra"]

_FIRST_LINE = re.compile(r"\s*#\s*exercise\s+(L?\d+\.\d+)\b", re.I)
_GUESS_CALL = re.compile(r"\b(?:predict|own_words|beside)\(")  # the learner's, and nothing marks it
_CHECK_CALL = re.compile(r"\bcheck\(\s*[\"'](L?\d+\.\d+)[\"']")
# However the learner left the name `check`, this cell calls the course's.
_FRESH_CHECK = "from pdlab.course import check\n"


@dataclass(frozen=True)
class Cell:
    """One code cell of a merge.  ``reference`` is the course's own answer, for an answer cell."""

    key: str
    role: Role
    source: str
    exercise: str = ""
    reference: str = ""
    outputs: Any = ()
    metadata: Any = None


@dataclass
class Merge:
    """What will run, and what is to be told about how it was put together."""

    name: str
    cells: list[Cell]
    exercises: list[str]
    missing: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    exercise_notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def notebook(self, without: frozenset[str]) -> nbformat.NotebookNode:
        """The notebook to run, with the cells ``without`` left empty."""
        cells = []
        for cell in self.cells:
            source = "" if cell.key in without else cell.source
            if cell.role == "check" and source:
                source = _FRESH_CHECK + source
            made = new_code_cell(source, id=cell.key, metadata=cell.metadata or {}, outputs=list(cell.outputs), execution_count=1)
            if cell.role in ("answer", "guess", "extra"):
                made.metadata = nbformat.from_dict({"tags": ["nbval-ignore-output"]})
            cells.append(made)
        return new_notebook(cells=cells)


@dataclass(frozen=True)
class LearnerCell:
    """A cell of the learner's file: its id (or ""), type, source, and what it shows as text."""

    id: str
    type: str
    source: str
    shows: str


def read_learner(path: Path) -> list[LearnerCell]:
    """The cells of a learner's notebook, read forgivingly.  Raises BadInput when it is none."""
    if path.exists() and not path.is_dir() and (not path.is_file() or path.stat().st_size > MOST_BYTES):
        raise BadInput(
            f"a file of more than {MOST_BYTES:,} bytes, or no ordinary file", "a notebook", str(path),
            "where it is large by what it shows, clear its outputs (Edit, Clear Outputs of All Cells)",
        )  # fmt: skip
    try:
        document = json.loads(path.read_bytes())
        cells = document["cells"]
        if not isinstance(cells, list):
            raise TypeError
    except FileNotFoundError:
        raise BadInput("no such file", "a notebook", str(path)) from None
    except IsADirectoryError:
        raise BadInput("a folder", "a notebook file (.ipynb)", str(path)) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = why(error) if isinstance(error, OSError) else "something that is no notebook of format 4"
        raise BadInput(what, "a Jupyter notebook (.ipynb, format 4)", str(path)) from None
    if len(cells) > MOST_CELLS:
        raise BadInput(f"{len(cells):,} cells", f"at most {MOST_CELLS:,}", str(path))
    seen: set[str] = set()
    found = []
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        name = cell.get("id")
        name = name if isinstance(name, str) and name not in seen else ""
        seen.add(name)
        found.append(LearnerCell(name, str(cell.get("cell_type")), _text(cell.get("source")), _shown(cell.get("outputs"))))
    return found


def _text(source: Any) -> str:
    text = "".join(map(str, source)) if isinstance(source, list) else source if isinstance(source, str) else ""
    return text.encode(errors="replace").decode()  # half a surrogate pair is text for JSON and for nobody else


def _shown(outputs: Any) -> str:
    parts = []
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict):
            data = output.get("data")
            parts.append(_text(data.get("text/plain")) if isinstance(data, dict) else _text(output.get("text")))
    return "\n".join(parts)


@dataclass(frozen=True)
class Backbone:
    """An answers notebook of the course."""

    path: Path
    cells: tuple[nbformat.NotebookNode, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def exercises(self) -> list[str]:
        return [str(cell.metadata.check) for cell in self.cells if "check" in cell.metadata]


def backbones(solutions: Path) -> list[Backbone]:
    """Every answers notebook of a course.  Raises BadInput when there is none."""
    found = [Backbone(path, tuple(nbformat.read(path, as_version=4).cells)) for path in sorted(solutions.glob("*.ipynb"))]
    if not found:
        raise BadInput("no answers notebook", "the course's built notebooks", str(solutions), "Run: pdlab build")
    return found


def choose(learner: list[LearnerCell], answers: list[Backbone], path: Path) -> Backbone:
    """The course's notebook that this file is a copy of, whatever it is called.  Raises BadInput."""
    named = {m[1] for cell in learner if (m := _FIRST_LINE.match(cell.source) or _CHECK_CALL.search(cell.source))}
    ids = {cell.id for cell in learner} - {""}

    def likeness(one: Backbone) -> tuple[int, int, bool]:
        return len(named & set(one.exercises)), len(ids & {c.get("id") for c in one.cells}), one.name == path.stem

    best = max(answers, key=likeness)
    if not any(likeness(best)):
        raise BadInput("no exercise and no cell of the course", "a copy of one of the course's notebooks", str(path))
    return best


def merge(learner: list[LearnerCell], backbone: Backbone) -> Merge:
    """Set the learner's cells into the backbone."""
    made = Merge(backbone.name, [], backbone.exercises)
    places = {cell.get("id"): index for index, cell in enumerate(backbone.cells)}
    chosen = _answers(learner, backbone)
    matched = {n: _answer_place(exercise, backbone) for exercise, n in chosen.items()}
    free = set(range(len(backbone.cells))) - set(matched.values())
    kept_ids = {cell.id for cell in learner}
    for n, cell in enumerate(learner):
        if n not in matched and (place := _given_place(cell, backbone, places, free, kept_ids)) is not None:
            matched[n] = place
            free.discard(place)
    extras: dict[int, list[int]] = defaultdict(list)
    last = -1
    for n, cell in enumerate(learner):
        if n in matched:
            last = matched[n]
        elif cell.type == "code" and cell.source.strip():
            extras[last].append(n)
    back = {place: n for n, place in matched.items()}
    for place in range(-1, len(backbone.cells)):
        if place >= 0 and backbone.cells[place].cell_type == "code":
            _place(made, backbone.cells[place], learner[back[place]] if place in back else None)
        for n in extras[place]:
            made.cells.append(Cell(f"extra-{n}", "extra", learner[n].source))
    _look(made, learner)
    return made


def _place(made: Merge, course: nbformat.NotebookNode, own: LearnerCell | None) -> None:
    """Add one code cell of the backbone, as the learner has it where it is an answer."""
    exercise = str(course.metadata.get("exercise") or course.metadata.get("check") or "")
    if "exercise" in course.metadata:
        if own is None:
            made.missing.add(exercise)
        source = own.source if own else ""
        made.cells.append(Cell(course.id, "answer", source, exercise, reference=course.source))
        return
    if "check" not in course.metadata and _GUESS_CALL.search(course.source):
        made.cells.append(Cell(course.id, "guess", own.source if own else ""))
        return
    role: Role = "check" if "check" in course.metadata else "given"
    made.cells.append(Cell(course.id, role, course.source, exercise, outputs=course.outputs, metadata=course.metadata))
    if role == "given":
        if own is not None and own.source.strip() != course.source.strip():
            first = next(iter(course.source.splitlines()), "")
            made.notes.append(f"a given cell was changed ({first[:50]!r}); the course's own ran")
        return
    if own is None:
        made.exercise_notes[exercise].append("its check cell was removed; the course's own ran")
    elif own.source.strip() != course.source.strip():
        made.exercise_notes[exercise].append("its check cell was changed; the course's own ran")


def _answers(learner: list[LearnerCell], backbone: Backbone) -> dict[str, int]:
    """For each exercise the position of the learner's answer cell."""
    by_id = {c.id: str(c.metadata.exercise) for c in backbone.cells if "exercise" in c.metadata}
    known = set(by_id.values())
    claims: dict[str, list[tuple[bool, int]]] = defaultdict(list)
    for n, cell in enumerate(learner):
        if cell.type != "code":
            continue
        line = _FIRST_LINE.match(cell.source)
        exercise = line[1] if line and line[1] in known else by_id.get(cell.id)
        if exercise:
            # An own cell id is the surest sign; of several copies the last one is meant.
            claims[exercise].append((by_id.get(cell.id) == exercise, n))
    return {exercise: max(found)[1] for exercise, found in claims.items()}


def _answer_place(exercise: str, backbone: Backbone) -> int:
    return next(i for i, c in enumerate(backbone.cells) if str(c.metadata.get("exercise")) == exercise)


def _given_place(
    cell: LearnerCell, backbone: Backbone, places: dict[str, int], free: set[int], kept_ids: set[str]
) -> int | None:
    """The backbone's cell that a learner's cell is a copy of, if any: by id, by source, by its check."""
    place_of_id = places.get(cell.id)
    if place_of_id in free:
        course = backbone.cells[place_of_id]
        if course.cell_type == cell.type and "exercise" not in course.metadata:
            return place_of_id
    for place in sorted(free):
        if backbone.cells[place].cell_type == cell.type and backbone.cells[place].source.strip() == cell.source.strip() != "":
            return place
    call = _CHECK_CALL.search(cell.source) if cell.type == "code" and place_of_id is None else None
    for place in sorted(free) if call else ():
        # A check cell that was changed and has lost its id; where the id is still there, this is an added cell.
        if str(backbone.cells[place].metadata.get("check")) == call[1] and backbone.cells[place].id not in kept_ids:
            return place
    return None


def _look(made: Merge, learner: list[LearnerCell]) -> None:
    """Note what a look at the learner's cells shows before anything runs."""
    for exercise in made.exercises:
        if any(cell.type == "code" and f"{exercise} correct (" in cell.shows for cell in learner):
            made.exercise_notes[exercise].append(STORED_CORRECT)
    if any(cell.role in ("answer", "guess", "extra") and _binds(cell.source, "check") for cell in made.cells):
        made.notes.append("the name `check` is given another meaning in this notebook; the course's own check ran")


STORED_CORRECT = "the notebook as stored shows it as correct, and this run does not"


def _binds(source: str, name: str) -> bool:
    if len(source) > MOST_PARSED:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == name:
            return not (isinstance(node.value, ast.Name) and node.value.id == "self")
    return False
