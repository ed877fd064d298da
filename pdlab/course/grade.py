"""Grade learners' notebooks: their answers in the course's notebook, run by nbval, confined.

Each notebook is merged (grade_merge), run in a temporary copy of the course (grade_run, under
grade_sandbox) and reported exercise by exercise.  A cell that ends the kernel, or has to be ended
with it, is left out and the rest is run again; the first outcome of an exercise stands.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pdlab.course import _quick  # isort: skip  # noqa: F401, before nbformat
import nbformat
import psutil
import yaml

from pdlab.course import exercises, grade_merge, grade_sandbox, kernels
from pdlab.course.checks import GRADING, JOB
from pdlab.course.grade_merge import Backbone, Merge
from pdlab.course.warm import Child, Warm
from pdlab.errors import BadInput


MOST_SAID = 1_000  # characters of a message; what a learner wrote may stand in it


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


def grade(paths: list[Path], limits: Limits = Limits(), jobs: int | None = None) -> list[Report]:
    """Grade every notebook; one that cannot be read gets a report that says so.

    Raises BadInput when the course itself has no answers notebooks.
    """
    answers = grade_merge.backbones(root() / "solutions")
    with Warm(["pdlab.course.grade_run"], _own_environment()) as judge, ThreadPoolExecutor(jobs or min(len(paths) or 1, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda path: _grade_one(path, answers, limits, judge), paths))


def root() -> Path:
    """The course's folder."""
    return exercises.folder().parents[1]


def _grade_one(path: Path, answers: list[Backbone], limits: Limits, judge: Warm) -> Report:
    """The report on one notebook; whatever goes wrong with it stands there and nowhere else."""
    report = Report(str(path))
    try:
        _fill(report, path, answers, limits, judge)
    except BadInput as error:
        report.error = str(error)
    except Exception as error:  # nobody thought of it; the rest of the batch is graded all the same
        if "No space left on device" in str(error):
            report.error = f"{path}: no room for a copy of the course in {tempfile.gettempdir()}. Free some, or set TMPDIR to another folder"
            return report
        what = _printable(f"{type(error).__name__}: {error}")[:300]
        report.error = f"{path}: the grader failed on this notebook ({what})"
    return report


def _fill(report: Report, path: Path, answers: list[Backbone], limits: Limits, judge: Warm) -> None:
    started = time.monotonic()
    learner = grade_merge.read_learner(path)
    backbone = grade_merge.choose(learner, answers, path)
    report.course_notebook = backbone.name
    merged = grade_merge.merge(learner, backbone)
    try:
        records, culprits = _run_to_the_end(merged, limits, started + limits.notebook_s, judge)
    except RuntimeError as error:
        report.error = f"{path}: its kernel did not start ({error}). Run pdlab doctor, and grade it again"
        return
    report.notes = [_printable(note) for note in merged.notes + _notes(merged, records, culprits, limits)]
    for exercise_id in merged.exercises:
        report.exercises.append(_result(exercise_id, merged, records, culprits, limits))
    report.seconds = time.monotonic() - started


Records = dict[str, dict[str, Any]]


def _run_to_the_end(merged: Merge, limits: Limits, deadline: float, judge: Warm) -> tuple[Records, dict[str, str]]:
    """Run, leaving out each cell that ends the kernel, until every cell that is left has run.

    Raises RuntimeError when no kernel starts, twice.
    """
    records: Records = {}
    unstarted = 0
    culprits: dict[str, str] = {}
    while time.monotonic() < deadline and len(culprits) <= len(merged.cells):
        lines, trouble = _run(merged, frozenset(culprits), limits, deadline, judge)
        for line in lines:
            records.setdefault(line["key"], line)
        order = [cell.key for cell in merged.cells]
        if lines and not lines[-1]["alive"]:
            culprits[lines[-1]["key"]] = lines[-1]["state"]
        elif len(lines) == len(order):
            break
        elif trouble:
            unstarted += 1
            if unstarted == 2:
                raise RuntimeError(trouble)
        elif time.monotonic() < deadline:
            culprits[order[len(lines)]] = "died"  # it took the process that watched it along
    return records, culprits


def _run(
    merged: Merge, without: frozenset[str], limits: Limits, deadline: float, judge: Warm
) -> tuple[list[dict[str, Any]], str]:
    """One run of nbval on the merge in a fresh temporary copy: a line for each cell that ended.

    The text is not empty when the run failed before its first cell.
    """
    with tempfile.TemporaryDirectory(prefix="pdlab-grade-", ignore_cleanup_errors=True) as folder:
        # `kept` is for the process that grades, `given` is all that the notebook's kernel may see and change.
        kept, given = Path(folder, "kept"), Path(folder, "given")
        kept.mkdir()
        cwd = _copy_course(given, merged.name)
        nbformat.write(merged.notebook(without), kept / "merged.ipynb")
        (kept / "pytest.ini").write_text("[pytest]\n")
        (kept / "job.json").write_text(json.dumps(_job(merged, given, cwd, limits)))
        reading, writing = os.pipe()
        with open(kept / "stderr", "w+b") as stderr, open(os.devnull, "rb") as nothing:
            try:
                process = judge.start(
                    "pdlab.course.grade_run:main",
                    fds=[nothing.fileno(), stderr.fileno(), stderr.fileno(), writing],
                    cwd=kept,
                    env={JOB: str(kept / "job.json")},
                    new_session=True,
                )
            except BaseException:
                os.close(reading)
                raise
            finally:
                os.close(writing)
            try:
                text = _read_until(reading, deadline)
            finally:
                os.close(reading)
                _end(process)
            stderr.seek(0)
            said = " ".join(stderr.read(20_000).decode(errors="replace").split())
    lines = [json.loads(line) for line in text.split(b"\n")[:-1]]
    # Ended by a signal, it was the first cell that took it along; ended by itself, no cell ever ran.
    return lines, "" if lines or process.returncode < 0 else said[-300:] or "no message"


def _read_until(pipe: int, deadline: float) -> bytes:
    """Everything that comes before the other side closes, or before time is up."""
    parts = []
    while (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            parts.append(part)
    return b"".join(parts)


def _end(process: Child) -> None:
    """Wait for the run to tidy up, then end whatever is left of it."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid).children(recursive=True)
        process.kill()  # it hangs, or time is up; either way nothing more is to be learnt from it
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()


_NEEDED = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "MPLCONFIGDIR", "XDG_CACHE_HOME"}


def _own_environment() -> dict[str, str]:
    """For the process that judges: the course's own package, no plugin but those named, one thread at a fork."""
    # No more than it needs: a kernel may find a way to read what stands here.
    kept = {k: v for k, v in os.environ.items() if k in _NEEDED or k.startswith(("LC_", "PDLAB_"))}
    own = str(Path(exercises.__file__).parents[2])
    return kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": own, "OPENBLAS_NUM_THREADS": "1"}


def _job(merged: Merge, given: Path, cwd: Path, limits: Limits) -> dict[str, Any]:
    scratch = given / "scratch"
    sandbox = {
        "read": [],
        "write": [str(given)],
        "memory_bytes": limits.memory_bytes,
        "file_bytes": 200_000_000,
        "cpu_s": int(limits.notebook_s),
    }
    environment = kernels.FIXED | {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "MPLCONFIGDIR": str(scratch),
        "IPYTHONDIR": str(scratch / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(scratch),
        "PYTHONPATH": str(given),
        GRADING: str(scratch / "cases.json"),
        grade_sandbox.LIMITS: json.dumps(sandbox),
    }
    return {
        "cells": [
            {"key": c.key, "role": c.role, "exercise": c.exercise, "reference": c.reference} for c in merged.cells
        ],
        "argv": [sys.executable, "-P", "-m", "pdlab.course.grade_sandbox", "-f", "{connection_file}"],
        "connection_file": str(scratch / "kernel.json"),
        "cwd": str(cwd),
        "env": environment,
        "memory_bytes": limits.memory_bytes,
        "cell_timeout_s": limits.cell_s,
    }


def _copy_course(given: Path, name: str) -> Path:
    """The course as a graded notebook sees it: package and data, no answer; the folder it runs in."""
    course = root()
    shutil.copytree(Path(exercises.__file__).parents[1], given / "pdlab")
    shutil.copytree(course / "data", given / "data", ignore=lambda at, _: ["exercises"] if Path(at) == course / "data" else [])
    (given / "data" / "exercises").mkdir(parents=True)
    for file_name, text in _without_answers().items():
        (given / "data" / "exercises" / file_name).write_text(text, encoding="utf-8")
    scratch, cwd = given / "scratch", given / ("labs" if name.startswith("L") else "notebooks")
    scratch.mkdir()
    cwd.mkdir()
    cases = {e.id: list(e.cases) for e in exercises.registry().values() if e.is_function}
    (scratch / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    for fonts in _font_lists():
        shutil.copy2(fonts, scratch)
    return cwd


@cache
def _without_answers() -> dict[str, str]:
    """The registry's files with every expected value, reference and mistake taken out."""
    kept = ("id", "kind", "title", "points", "unit", "choices", "function", "cases", "source", "label", "hints")
    files: dict[str, list[dict[str, Any]]] = {}
    for exercise in exercises.registry().values():
        entry = {k: v for k, v in json.loads(exercise.model_dump_json(include=set(kept))).items() if v not in (None, [], "")}
        entry |= {"reference": "None"} if exercise.is_function else {"expected": "withheld while grading"}
        files.setdefault(exercise.notebook, []).append(entry)
    dump = {notebook: {"notebook": notebook, "exercises": entries} for notebook, entries in files.items()}
    return {f"{notebook}.yaml": yaml.safe_dump(document, allow_unicode=True) for notebook, document in dump.items()}


def _font_lists() -> list[Path]:
    """matplotlib's list of fonts, which takes seconds to make anew."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folders = [Path(os.environ["MPLCONFIGDIR"])] if "MPLCONFIGDIR" in os.environ else [cache_home / "matplotlib"]
    return [path for folder in folders for path in folder.glob("fontlist-*.json")]


def _result(exercise_id: str, merged: Merge, records: Records, culprits: dict[str, str], limits: Limits) -> Result:
    """One exercise's line of the report."""
    exercise = exercises.find(exercise_id)
    result = Result(exercise_id, exercise.title, "not yet", 0, exercise.points)
    check = next((r for r in records.values() if r["role"] == "check" and r["exercise"] == exercise_id), None)
    answer = next((r for r in records.values() if r["role"] == "answer" and r["exercise"] == exercise_id), None)
    trouble = _trouble(answer, culprits, limits)
    judged = check and check["feedback"]
    if judged:
        result.outcome, result.kind, result.message = judged["outcome"], judged["kind"], judged["says"]
    if judged and result.outcome == "correct":
        if check["green"]:
            result.points = exercise.points
        else:
            result.outcome, result.kind = "not yet", "course-stale"
            result.message = "right, but the course's stored output says something else; rebuild the course (pdlab build)"
    elif trouble:
        result.outcome, (result.kind, result.message) = "not yet", trouble
    elif exercise_id in merged.missing:
        result.outcome, result.kind = "not attempted", "no-cell"
        result.message = f"no cell for it: neither its cell id nor a first line '# Exercise {exercise_id}'"
    elif check is None:
        result.kind, result.message = "no-time", f"the notebook used up its {limits.notebook_s:g} s before it"
    elif not judged:
        result.outcome, result.kind, result.message = _unjudged(exercise_id, merged, check, culprits, limits)
    result.message = _printable(result.message)[:MOST_SAID]
    notes = merged.exercise_notes.get(exercise_id, [])
    result.notes = [note for note in notes if result.outcome != "correct" or note != grade_merge.STORED_CORRECT]
    return result


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


def _printable(text: str) -> str:
    """Text of a learner's making without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in text)


_SYNTAX = ("SyntaxError", "IndentationError", "TabError")


def _notes(merged: Merge, records: Records, culprits: dict[str, str], limits: Limits) -> list[str]:
    """What is to be told about cells that belong to no exercise."""
    notes = []
    for cell in merged.cells:
        record = records.get(cell.key)
        if cell.role in ("extra", "guess") and (trouble := _trouble(record, culprits, limits)):
            first = next(iter(cell.source.strip().splitlines()), "")
            which = "an added cell" if cell.role == "extra" else "a cell with a guess"
            notes.append(f"{which} ({first[:50]!r}): {trouble[1].replace('its cell', 'it')}")
    # The list of guesses follows the learner's, so it is not compared with the course's.
    given = [cell.key for cell in merged.cells if cell.role == "given" and "guesses(" not in cell.source]
    differing = sum(key in records and not records[key]["green"] for key in given)
    if differing:
        cells = "one given cell shows" if differing == 1 else f"{differing} given cells show"
        notes.append(f"{cells} something else than in the course, with these answers")
    return notes
