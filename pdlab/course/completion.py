"""The course's completion list: what a learner can do at the end, each line tied to its exercises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from pdlab.course import exercises
from pdlab.documents import read_yaml
from pdlab.errors import BadInput


@dataclass(frozen=True, slots=True)
class Line:
    """``says`` is the ability, ``topic`` what it is about; ``proved_by`` are the exercise ids that prove it.

    ``says`` may answer an exercise, so it is for whoever has proved it.
    """

    topic: str
    says: str
    proved_by: tuple[str, ...]


def path() -> Path:
    """data/completion.yaml of the course."""
    return exercises.folder().parent / "completion.yaml"


def lines() -> list[Line]:
    """The list in order.  Raises BadInput for a line without exercises or an unknown exercise."""
    known = exercises.registry()
    found = []
    for entry in read_yaml(path()):
        line = Line(entry["topic"], entry["says"], tuple(str(name) for name in entry["proved_by"]))
        unknown = [name for name in line.proved_by if name not in known]
        if unknown or not line.proved_by:
            raise BadInput(f"exercises {unknown}", "at least one id of the registry", f"{path()}: {line.says!r}")
        found.append(line)
    return found


def show() -> None:
    """Print the topics of the list with the exercises of each line."""
    for number, line in enumerate(lines(), 1):
        print(fill(f"{number:2}. {line.topic}", 90, subsequent_indent="    "))
        print(f"    proved by {', '.join(line.proved_by)}")
