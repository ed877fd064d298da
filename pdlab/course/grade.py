"""Grade learners' notebooks: their answers in the course's notebook, run by nbval, confined.

Each notebook is merged (grade_merge), run in a temporary copy of the course (grade_run, under
grade_sandbox) and reported exercise by exercise (grade_report).  A cell that ends the kernel, or has to be ended
with it, is left out and the rest is run again; the first outcome of an exercise stands.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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
from pdlab.course.grade_report import Limits, Records, Report, notes, printable, result
from pdlab.course.warm import Child, Warm
from pdlab.errors import BadInput


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
        what = printable(f"{type(error).__name__}: {error}")[:300]
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
    report.notes = [printable(note) for note in merged.notes + notes(merged, records, culprits, limits)]
    for exercise_id in merged.exercises:
        report.exercises.append(result(exercise_id, merged, records, culprits, limits))
    report.seconds = time.monotonic() - started


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
