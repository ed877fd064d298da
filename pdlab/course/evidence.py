"""The four kinds of evidence.  Every table and figure of the course names exactly one."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdlab.errors import BadInput

RUNS = Path(__file__).resolve().parents[2] / "data" / "runs"
LABELS = ("hypothetical", "published", "simulated", "measured")


@dataclass(frozen=True)
class Evidence:
    """What a table or figure rests on: its label, its source, and the recorded run if there is one."""

    label: str
    source: str
    recorded: str = ""

    def __str__(self) -> str:
        """One line for a corner or a caption: ``measured (recorded DATE on MACHINE) · SOURCE``.

        A run that the lab made is ``live, DATE``, one that ``$PDLAB_RUN_<lab>`` names ``your own cluster: GPUS``.
        """
        return f"{self.label}{self.recorded} · {self.source}"


def evidence(label: str | None, source: str | None, run: str | Path | None = None) -> Evidence:
    """Check a label and a source.  ``run``, a run directory, adds when and where it was recorded.

    Raises BadInput for a label that is missing or not one of ``LABELS``, for an empty source,
    and for measured evidence of a run whose provenance cannot be read.
    """
    if label not in LABELS:
        raise BadInput(repr(label), f"one of {', '.join(LABELS)}", "label", "say what kind of evidence this is")
    if not source or not source.strip():
        raise BadInput(repr(source), "where the numbers come from, in a few words", "source", "name the source")
    recorded = "" if run is None else _recorded(Path(run), label)
    return Evidence(label, source.strip(), recorded)


def recorded(name: str) -> Path:
    """The directory of one of the course's recorded runs.  Raises BadInput where there is none."""
    path = RUNS / name
    if not path.is_dir():
        known = ", ".join(sorted(p.name for p in RUNS.iterdir() if p.is_dir())) if RUNS.is_dir() else "none"
        raise BadInput(f"no run {name!r}", f"one of: {known}", str(RUNS))
    return path


def _recorded(run: Path, label: str) -> str:
    path = run / "provenance.json"
    try:
        provenance: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(str(error), "a readable provenance.json", str(path), "record the run again") from error
    stated = provenance.get("label")
    if stated != label:
        raise BadInput(label, f"{stated}, the label of the run itself", str(path), "keep the run's own label")
    if label != "measured":
        return ""
    date, machine = str(provenance.get("date") or ""), _machine(provenance.get("machine"))
    if not date or not machine:
        raise BadInput("no date or machine", "both", str(path), "record when and where the run was made")
    if any(key.startswith("PDLAB_RUN_") for key in os.environ):
        from pdlab.course.own import described  # it reads plans and records, which a recorded run's label need not

        if (own := described(run, machine)) is not None:
            return f"{own} ({date[:10]})"
    how = "recorded" if RUNS.resolve() in run.resolve().parents else "live,"  # a lab's own run lies elsewhere
    return f" ({how} {date[:10]} on {machine})"


def _machine(machine: Any) -> str:
    """A machine in few words; the records allow one sentence or a mapping of its parts."""
    if isinstance(machine, dict):
        processor, cores = str(machine.get("cpu") or ""), machine.get("cores")
        return f"{cores} cores of {processor}" if processor and cores else processor
    return str(machine or "")
