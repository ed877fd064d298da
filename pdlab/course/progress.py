"""The whole course at a glance: which exercises of the learner's notebooks are done.

What the saved notebooks show is read at once; ``prove`` runs them through the grader instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdlab.course import exercises
from pdlab.course.exercises import Exercise
from pdlab.errors import BadInput

OUTCOMES = ("correct", "not yet", "not attempted")
_SHOWN = re.compile(r"^(?P<id>L?\d+\.\d+) (?P<outcome>correct \(|not yet|not attempted)", re.M)


@dataclass
class Notebook:
    """One notebook of the course and the outcome of each of its exercises."""

    name: str
    outcomes: dict[str, str]
    exercises: list[Exercise]
    remark: str = ""

    def count(self, outcome: str) -> int:
        return list(self.outcomes.values()).count(outcome)

    @property
    def points(self) -> int:
        return sum(e.points for e in self.exercises if self.outcomes[e.id] == "correct")

    @property
    def max_points(self) -> int:
        return sum(e.points for e in self.exercises)

    def document(self) -> dict[str, Any]:
        return {
            "notebook": self.name,
            "points": self.points,
            "max_points": self.max_points,
            **{outcome.replace(" ", "_"): self.count(outcome) for outcome in OUTCOMES},
            "exercises": self.outcomes,
            "remark": self.remark or None,
        }


@dataclass
class Line:
    """One line of the completion list and how many of its exercises are correct."""

    topic: str
    ability: str
    proved_by: dict[str, str]

    @property
    def done(self) -> bool:
        return all(outcome == "correct" for outcome in self.proved_by.values())

    @property
    def says(self) -> str:
        """The line in full once it is proved; before that its topic, since the line may answer an exercise."""
        return self.ability if self.done else self.topic

    def document(self) -> dict[str, Any]:
        return {"says": self.says, "done": self.done, "proved_by": self.proved_by}


def survey(prove: bool = False) -> list[Notebook]:
    """Every notebook with exercises, in the course's order.  Raises BadInput without a registry."""
    root = exercises.folder().parents[1]
    by_notebook: dict[str, list[Exercise]] = {}
    for exercise in exercises.registry().values():
        by_notebook.setdefault(exercise.notebook, []).append(exercise)
    files = {number: _files(root, number) for number in by_notebook}
    graded = _graded([file for found in files.values() for file in found]) if prove else {}
    return [_best(number, files[number], own, graded) for number, own in by_notebook.items()]


def completion(notebooks: list[Notebook]) -> list[Line]:
    """The course's completion list, each line with the outcomes of the exercises that prove it."""
    from pdlab.course import completion as stored

    if not stored.path().is_file():
        return []
    outcomes = {name: outcome for notebook in notebooks for name, outcome in notebook.outcomes.items()}
    return [Line(line.topic, line.says, {name: outcomes[name] for name in line.proved_by}) for line in stored.lines()]


def _files(root: Path, number: str) -> list[Path]:
    """The notebook and the copies that somebody made of it, the shortest name first."""
    folder = root / ("labs" if number.startswith("L") else "notebooks")
    return sorted(folder.glob(f"{number}-*.ipynb"), key=lambda file: (len(file.name), file.name))


def _best(number: str, files: list[Path], own: list[Exercise], graded: dict[str, Any]) -> Notebook:
    """Of several files of one notebook the one with most points; the remark names them all with theirs."""
    found = [_notebook(number, file, own, graded) for file in files or [None]]
    best = max(found, key=lambda notebook: (notebook.points, notebook.count("correct")))
    others = [f"{one.name}.ipynb {one.points}/{one.max_points}" for one in found if one is not best]
    if others:
        best.remark = "; ".join([*filter(None, [best.remark]), f"the best of {len(found)} files; also {', '.join(others)}"])
    return best


def _graded(files: list[Path]) -> dict[str, Any]:
    from pdlab.course import grade

    return {report.notebook: report for report in grade.grade(files)} if files else {}


def _notebook(number: str, file: Path | None, own: list[Exercise], graded: dict[str, Any]) -> Notebook:
    found = Notebook(file.stem if file else number, {e.id: "not attempted" for e in own}, own)
    if file is None:
        found.remark = "not built yet: pdlab build"
    elif report := graded.get(str(file)):
        found.remark = report.error
        found.outcomes |= {r.id: r.outcome for r in report.exercises if r.id in found.outcomes}
    else:
        try:
            shown = _stored(file)
        except BadInput as error:
            shown, found.remark = {}, str(error)
        found.outcomes |= {name: outcome for name, outcome in shown.items() if name in found.outcomes}
    return found


def _stored(file: Path) -> dict[str, str]:
    """What the saved notebook's checks show; the last one of an exercise counts."""
    from pdlab.course.grade_merge import read_learner

    text = "\n".join(cell.shows for cell in read_learner(file) if cell.type == "code")
    return {match["id"]: match["outcome"].removesuffix(" (") for match in _SHOWN.finditer(text)}
