"""What is reported of a graded notebook: an outcome for each exercise, and what else is to be told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pdlab.course import exercises, grade_merge
from pdlab.course.grade_merge import Merge

Records = dict[str, dict[str, Any]]  # what came of each cell, by its key

MOST_SAID = 1_000  # characters of a message; what a learner wrote may stand in it
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")


@dataclass(frozen=True)
class Limits:
    """What one notebook may use."""

    cell_s: float = 20.0
    notebook_s: float = 240.0
    memory_mb: int = 2048

    @property
    def memory_bytes(self) -> int:
        return self.memory_mb * 1_000_000


@dataclass
class Result:
    """How one exercise stands.  ``kind`` names the mistake; ``notes`` is what else is to be told."""

    id: str
    title: str
    outcome: str
    points: int
    max_points: int
    kind: str = ""
    message: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    """One graded notebook, or the reason why it could not be graded."""

    notebook: str
    course_notebook: str = ""
    exercises: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""

    @property
    def points(self) -> int:
        return sum(result.points for result in self.exercises)

    @property
    def max_points(self) -> int:
        return sum(result.max_points for result in self.exercises)

    def document(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "notebook": self.notebook,
            "course_notebook": self.course_notebook or None,
            "points": self.points,
            "max_points": self.max_points,
            "seconds": round(self.seconds, 1),
            "error": self.error or None,
            "notes": self.notes,
            "exercises": [vars(result) for result in self.exercises],
        }


def result(exercise_id: str, merged: Merge, records: Records, culprits: dict[str, str], limits: Limits) -> Result:
    """One exercise's line of the report."""
    exercise = exercises.find(exercise_id)
    found = Result(exercise_id, exercise.title, "not yet", 0, exercise.points)
    check = next((r for r in records.values() if r["role"] == "check" and r["exercise"] == exercise_id), None)
    answer = next((r for r in records.values() if r["role"] == "answer" and r["exercise"] == exercise_id), None)
    trouble = _trouble(answer, culprits, limits)
    judged = check and check["feedback"]
    if judged:
        found.outcome, found.kind, found.message = judged["outcome"], judged["kind"], judged["says"]
    if judged and found.outcome == "correct":
        if check["green"]:
            found.points = exercise.points
        else:
            found.outcome, found.kind = "not yet", "course-stale"
            found.message = "right, but the course's stored output says something else; rebuild the course (pdlab build)"
    elif trouble:
        found.outcome, (found.kind, found.message) = "not yet", trouble
    elif exercise_id in merged.missing:
        found.outcome, found.kind = "not attempted", "no-cell"
        found.message = f"no cell for it: neither its cell id nor a first line '# Exercise {exercise_id}'"
    elif check is None:
        found.kind, found.message = "no-time", f"the notebook used up its {limits.notebook_s:g} s before it"
    elif not judged:
        found.outcome, found.kind, found.message = _unjudged(exercise_id, merged, check, culprits, limits)
    found.message = printable(found.message)[:MOST_SAID]
    told = merged.exercise_notes.get(exercise_id, [])
    found.notes = [note for note in told if found.outcome != "correct" or note != grade_merge.STORED_CORRECT]
    return found


def _unjudged(
    exercise_id: str, merged: Merge, check: dict[str, Any], culprits: dict[str, str], limits: Limits
) -> tuple[str, str, str]:
    """What to say where the check cell itself did not come through."""
    source = next(cell.source for cell in merged.cells if cell.role == "answer" and cell.exercise == exercise_id)
    if check["error"] and check["error"][0] == "NameError":
        if all(line.strip().startswith("#") or not line.strip() for line in source.splitlines()):
            return "not attempted", "empty-cell", "its cell is empty"
        return "not yet", "no-name", f"its cell does not set the name that is checked: {check['error'][1]}"
    kind, says = _trouble(check, culprits, limits) or ("check-failed", "its check did not come through")
    return "not yet", kind, says.replace("its cell", "the answer, when it is checked,")


def _trouble(record: dict[str, Any] | None, culprits: dict[str, str], limits: Limits) -> tuple[str, str] | None:
    """The kind and the words for a cell that did not end well; None for one that did."""
    if record is None:
        return None
    state = culprits.get(record["key"], record["state"])
    said = {
        "timeout": f"its cell ran for more than {limits.cell_s:g} s and was stopped",
        "died": "its cell ended the kernel",
        "memory": f"its cell took more than {limits.memory_mb} MB and was stopped",
        "flood": "its cell printed without end and was stopped",
        "processes": "its cell started too many processes and was stopped",
        "skipped": "its cell is marked to be skipped",
    }
    if state in said:
        return state, said[state]
    if record["error"]:
        name, text = (*record["error"], "")[:2]
        if name == "MemoryError":
            return "memory", f"its cell needs more than {limits.memory_mb} MB"
        text = re.sub(r"\((?:\S+\.py|<[^>]*>|<unknown>), (line \d+)\)", r"(\1)", text)
        return ("syntax-error" if name in _SYNTAX else "raises"), f"its cell raises {name}" + (f": {text}" if text else "")
    return None


def printable(text: str) -> str:
    """Text of a learner's making without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in text)


def notes(merged: Merge, records: Records, culprits: dict[str, str], limits: Limits) -> list[str]:
    """What is to be told about cells that belong to no exercise."""
    told = []
    for cell in merged.cells:
        record = records.get(cell.key)
        if cell.role in ("extra", "guess") and (trouble := _trouble(record, culprits, limits)):
            first = next(iter(cell.source.strip().splitlines()), "")
            which = "an added cell" if cell.role == "extra" else "a cell with a guess"
            told.append(f"{which} ({first[:50]!r}): {trouble[1].replace('its cell', 'it')}")
    # The list of guesses follows the learner's, so it is not compared with the course's.
    given = [cell.key for cell in merged.cells if cell.role == "given" and "guesses(" not in cell.source]
    differing = sum(key in records and not records[key]["green"] for key in given)
    if differing:
        cells = "one given cell shows" if differing == 1 else f"{differing} given cells show"
        told.append(f"{cells} something else than in the course, with these answers")
    return told
