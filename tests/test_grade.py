"""The grader under honest notebooks, broken ones and hostile ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell

from pdlab.course import answers, exercises, grade, grade_merge, grade_report, grade_sandbox, reading
from pdlab.errors import BadInput
from tests.gradecourse import ANSWERS, learner, write_course

LIMITS = grade.Limits(cell_s=3.0, notebook_s=120.0, memory_mb=600)
PATCH = """
import pdlab.course, sys
from pdlab.course import answers, checks, diagnose, exercises, feedback
check = pdlab.course.check = checks.show = print
def forged(name, value=None, **more):
    print(f"{name} correct (1 point). The number that all others are made of.")
pdlab.course.check = forged
answers.read = lambda value, depth=0: 327680
checks._send = forged
for file in exercises.folder().glob("*.yaml"):
    file.write_text(file.read_text().replace("withheld while grading", "ttft"))
"""
HOSTILE_OUTSIDE = """
import os, pathlib, shutil, signal, subprocess
print("\x1b[2J" * 3)
subprocess.Popen(["sleep", "1234.5"], start_new_session=True)
for path in pathlib.Path("..").rglob("*.json"):
    try:
        path.unlink()
    except OSError:
        pass
shutil.rmtree("..", ignore_errors=True)
"""
# Only where the kernel has been asked to contain these: elsewhere they would hit this test itself.
HOSTILE_CONTAINED = """
for target in (pathlib.Path(ROOT), pathlib.Path.home().parent, pathlib.Path("/tmp")):
    try:
        (target / "pwned").write_text("x")
    except OSError:
        pass
shutil.rmtree(ROOT, ignore_errors=True)
for pid in (os.getppid(), GRADER):
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError:
        pass
"""


def add(source: str, after: str, name: str = "added"):
    """A change that puts a cell of the learner's own behind the cell with the id ``after``."""

    def change(cells: list) -> None:
        place = next(i for i, cell in enumerate(cells) if cell.id == after)
        cells.insert(place + 1, new_code_cell(source, id=name))

    return change


def mangle(cells: list) -> None:
    """Lose every id, reverse the order of the exercises, drop a check cell, add a helper cell."""
    head, pairs, tail = cells[:4], cells[4:12], cells[12:]
    pairs = [pairs[i] for i in (6, 7, 4, 5, 2, 3, 0, 1)]
    pairs.remove(next(cell for cell in pairs if cell.id == "check-2-3"))
    helper = new_code_cell("two = 2", id="helper")
    cells[:] = [*head, helper, *pairs, *tail]
    for number, cell in enumerate(cells):
        cell.id = f"new-{number}"


def forge(cells: list) -> None:
    """Store outputs that claim every exercise, and check something else."""
    for cell in cells:
        if name := cell.metadata.get("check"):
            cell.outputs = [{"output_type": "stream", "name": "stdout", "text": f"{name} correct (1 point). Well done."}]
            cell.execution_count = 1
            cell.source = f'check("{name}", 327680)\n# mine'


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, grade.Report]:
    """Every submission below, graded in one go; the learners' files are checked to be untouched."""
    root = tmp_path_factory.mktemp("course")
    write_course(root)
    files = tmp_path_factory.mktemp("learners")
    outside = f"ROOT, GRADER = {str(root)!r}, {os.getpid()}\n{HOSTILE_OUTSIDE}"
    outside += HOSTILE_CONTAINED if grade_sandbox.landlock_version() >= 6 else ""
    loop = "while True:\n    try:\n        import time; time.sleep(0.01)\n    except BaseException: pass"
    submissions = {
        "untouched": learner(root, files / "a.ipynb", {}),
        "right": learner(root, files / "b.ipynb", ANSWERS),
        "mangled": learner(root, files / "renamed copy.ipynb", ANSWERS | {"2.1": "bytes_per_token = 2 * 80 * 8 * 128 * two"}, mangle),
        "shouting": learner(root, files / "m.ipynb", ANSWERS | {"2.1": "raise ValueError('\\x1b[2J red')", "2.3": "from IPython.display import display, HTML\nlatency = 'itl'\ndisplay(HTML('x' * 20_000_000))"}),
        "wrong": learner(root, files / "d.ipynb", {"2.1": "bytes_per_token = 163840", "2.2": "def kv_bytes(l, h, d, t):\n    return l * h * d * 2 * t", "2.3": 'latency = "ttft"', "2.4": 'verdict = {"adopt": ..., "kib": 320}'}),
        "broken": learner(root, files / "e.ipynb", ANSWERS | {"2.1": "bytes_per_token = = 3", "2.2": "import os\nos._exit(3)", "2.3": "import time\nwhile True: time.sleep(0.1)"}),
        "stubborn": learner(root, files / "f.ipynb", ANSWERS | {"2.1": loop, "2.2": "def kv_bytes(l, h, d, t):\n    import time\n    while True: time.sleep(0.1)", "2.3": "while True: print('x' * 100)"}),
        "greedy": learner(root, files / "g.ipynb", ANSWERS | {"2.1": "hog = [bytes(50_000_000) for _ in range(100)]\nbytes_per_token = 327680", "2.3": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'x = [b\"1\" * 40_000_000 for _ in range(100)]; import time; time.sleep(60)'])\nlatency = 'ttft'"}),
        "patched": learner(root, files / "h.ipynb", {"2.3": 'latency = "ttft"'}, add(PATCH, "code-1")),
        "shadowed": learner(root, files / "i.ipynb", ANSWERS, add("check = print", "code-1")),
        "forged": learner(root, files / "j.ipynb", {}, forge),
        "outside": learner(root, files / "k.ipynb", ANSWERS | {"2.3": outside}),
        "deleted": learner(root, files / "l.ipynb", ANSWERS, lambda cells: cells.pop(4)),
    }  # fmt: skip
    (files / "no.ipynb").write_text("{]")
    submissions["unreadable"] = files / "no.ipynb"
    before = {name: fingerprint(path) for name, path in submissions.items()}
    course = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(exercises.COURSE, str(root))
        reports = grade.grade(list(submissions.values()), LIMITS, jobs=2)
    assert {name: fingerprint(path) for name, path in submissions.items()} == before
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == course
    return dict(zip(submissions, reports, strict=True))


def fingerprint(path: Path) -> tuple[str, int]:
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns


def outcomes(report: grade.Report) -> dict[str, str]:
    return {result.id: result.outcome for result in report.exercises}


def result(report: grade.Report, name: str) -> grade_report.Result:
    return next(result for result in report.exercises if result.id == name)


ALL = dict.fromkeys(ANSWERS, "correct")


def test_untouched_notebook_is_not_attempted(graded: dict[str, grade.Report]) -> None:
    """An untouched copy earns nothing and is told nothing bad."""
    report = graded["untouched"]
    assert outcomes(report) == dict.fromkeys(ANSWERS, "not attempted")
    assert (report.points, report.max_points, report.notes) == (0, 7, [])


def test_right_answers_earn_all_points(graded: dict[str, grade.Report]) -> None:
    """The course's own answers are correct, without a note."""
    report = graded["right"]
    assert outcomes(report) == ALL
    assert (report.points, report.notes, [r.notes for r in report.exercises]) == (7, [], [[]] * 4)


def test_names_order_and_added_cells_do_not_matter(graded: dict[str, grade.Report]) -> None:
    """A renamed file with lost ids, reordered exercises, a dropped check and a helper cell is graded in full."""
    report = graded["mangled"]
    assert report.course_notebook == "02-mini"
    assert outcomes(report) == ALL
    assert any("removed" in note for note in result(report, "2.3").notes)


def test_wrong_answers_name_their_mistake(graded: dict[str, grade.Report]) -> None:
    """Each wrong answer is not yet right, with its kind of mistake."""
    report = graded["wrong"]
    assert outcomes(report) == dict.fromkeys(ANSWERS, "not yet")
    assert [r.kind for r in report.exercises] == ["k-without-v", "k-without-v", "other-word", "incomplete"]


def test_a_broken_cell_hurts_only_its_exercise(graded: dict[str, grade.Report]) -> None:
    """A syntax error, a kernel exit and an endless loop each end in a line of their own; the rest is graded."""
    report = graded["broken"]
    assert outcomes(report) == {"2.1": "not yet", "2.2": "not yet", "2.3": "not yet", "2.4": "correct"}
    assert [r.kind for r in report.exercises[:3]] == ["syntax-error", "died", "timeout"]
    assert "line 2" in result(report, "2.1").message


def test_what_a_notebook_shows_cannot_harm_the_reader(graded: dict[str, grade.Report]) -> None:
    """Control characters do not reach the terminal, and an output of 20 MB costs at most its own exercise."""
    report = graded["shouting"]
    assert result(report, "2.1").message == "its cell raises ValueError:  [2J red"
    assert {outcomes(report)[name] for name in ("2.2", "2.4")} == {"correct"}


def test_what_cannot_be_interrupted_is_ended(graded: dict[str, grade.Report]) -> None:
    """A loop that catches interrupts, a function that never returns and a flood of output are stopped."""
    report = graded["stubborn"]
    assert outcomes(report) == {"2.1": "not yet", "2.2": "not yet", "2.3": "not yet", "2.4": "correct"}
    assert result(report, "2.1").kind == "timeout"
    assert "when it is checked" in result(report, "2.2").message
    assert result(report, "2.3").kind in ("flood", "timeout"), report


def test_memory_is_bounded(graded: dict[str, grade.Report]) -> None:
    """A cell, or a process that it starts, cannot take more than the limit."""
    report = graded["greedy"]
    assert outcomes(report) == {"2.1": "not yet", "2.2": "correct", "2.3": "not yet", "2.4": "correct"}
    assert result(report, "2.1").kind == "memory"


def test_patching_the_course_in_the_kernel_earns_nothing(graded: dict[str, grade.Report]) -> None:
    """Replacing check, its parts or the registry's files in the kernel, or printing its words, earns no point."""
    report = graded["patched"]
    assert report.points == 0
    assert {r.kind for r in report.exercises} <= {"check-replaced", "other-word", ""}
    assert any("another meaning" in note for note in report.notes)


def test_an_own_variable_named_check_does_no_harm(graded: dict[str, grade.Report]) -> None:
    """Right answers count although the notebook uses the name `check` for something else, and that is told."""
    report = graded["shadowed"]
    assert outcomes(report) == ALL
    assert any("another meaning" in note for note in report.notes)


def test_forged_outputs_and_changed_checks_are_told(graded: dict[str, grade.Report]) -> None:
    """Stored outputs count for nothing; claiming more than the run shows is told, and so is a changed check."""
    report = graded["forged"]
    assert outcomes(report) == dict.fromkeys(ANSWERS, "not attempted")
    assert all(grade_merge.STORED_CORRECT in r.notes for r in report.exercises)
    assert all(any("changed" in note for note in r.notes) for r in report.exercises)


def test_an_attack_on_files_and_processes_hurts_only_itself(graded: dict[str, grade.Report]) -> None:
    """Deleting the copy beside it, writing elsewhere and signalling the grader leave the other exercises graded."""
    report = graded["outside"]
    assert {k: v for k, v in outcomes(report).items() if k != "2.3"} == {"2.1": "correct", "2.2": "correct", "2.4": "correct"}
    assert result(report, "2.3").outcome == "not yet"
    assert not Path("/tmp/pwned").exists()
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "1234.5"]]


def test_a_deleted_answer_cell_is_not_attempted(graded: dict[str, grade.Report]) -> None:
    """An exercise whose cell is gone is not attempted, says so, and later ones do not suffer."""
    report = graded["deleted"]
    assert outcomes(report) == ALL | {"2.1": "not attempted"}
    assert "no cell for it" in result(report, "2.1").message


def test_an_unreadable_file_does_not_stop_the_others(graded: dict[str, grade.Report]) -> None:
    """A file that is no notebook gets a report with the reason, among those that are graded."""
    assert "found something that is no notebook" in graded["unreadable"].error


def test_command_prints_one_document_and_refuses_bad_input(tmp_path: Path) -> None:
    """`pdlab grade --json` ends with exit status 2 and no traceback when nothing can be graded."""
    write_course(tmp_path)
    (tmp_path / "x.ipynb").write_text('{"cells": []}')
    command = [sys.executable, "-m", "pdlab.course.cli", "grade", "--json", str(tmp_path / "x.ipynb"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {exercises.COURSE: str(tmp_path)})
    document = json.loads(done.stdout)
    assert (done.returncode, document["points"], "Traceback" in done.stderr) == (2, 0, False)
    assert "no exercise and no cell of the course" in document["notebooks"][0]["error"]
    assert "found a folder" in document["notebooks"][1]["error"]


def test_what_is_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    """A device or a pipe is not waited for."""
    with pytest.raises(BadInput, match="no ordinary file"):
        grade_merge.read_learner(Path("/dev/zero"))
    with pytest.raises(BadInput, match="no such file"):
        grade_merge.read_learner(tmp_path / "none.ipynb")


def test_a_kernel_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no kernel starts, the notebook's report says so; it is no mark of the learner's."""
    write_course(tmp_path)
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))
    path = learner(tmp_path, tmp_path / "a.ipynb", ANSWERS)
    report = grade.grade([path], grade.Limits(memory_mb=1))[0]
    assert "its kernel did not start" in report.error and not report.exercises


def test_a_course_without_answers_notebooks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without built notebooks there is nothing to grade against, and the message says how to build them."""
    write_course(tmp_path)
    (tmp_path / "solutions" / "02-mini.ipynb").unlink()
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))
    with pytest.raises(BadInput, match="pdlab build"):
        grade.grade([tmp_path / "x.ipynb"])


def test_the_kernel_never_holds_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a graded kernel can read has no expected value, no reference and no stored output."""
    write_course(tmp_path)
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))
    grade._without_answers.cache_clear()
    given = tmp_path / "given"
    grade._copy_course(given, "02-mini")
    grade._without_answers.cache_clear()
    text = "".join(path.read_text() for path in (given / "data" / "exercises").glob("*.yaml"))
    assert "Bytes for one token" in text
    assert not [secret for secret in ("327680", "2 * layers", "163840", "adopt") if secret in text]
    assert not list(given.rglob("*.ipynb"))
    assert exercises.load(given / "data" / "exercises" / "02.yaml").keys() == ANSWERS.keys()


def test_half_a_character_does_not_stop_the_batch(tmp_path: Path) -> None:
    """A lone surrogate, which JSON allows and UTF-8 does not, is replaced; the notebook can be written and run."""
    write_course(tmp_path)
    path = learner(tmp_path, tmp_path / "half.ipynb", ANSWERS | {"2.1": "bytes_per_token = 327680  # \ud800"})
    cells = grade_merge.read_learner(path)
    answers_notebooks = grade_merge.backbones(tmp_path / "solutions")
    merged = grade_merge.merge(cells, grade_merge.choose(cells, answers_notebooks, path)).notebook(frozenset())
    assert any("bytes_per_token = 327680  # ?" in cell.source for cell in merged.cells)
    nbformat.writes(merged).encode()


@pytest.mark.parametrize(
    "document", [["text", "x" * 10_001], ["int", "0x" + "f" * 10_001], ["fraction", "0x1", "0x" + "7" * 10_001], ["quantity", ["int", "0x1"], "m" * 10_001]]
)
def test_what_a_kernel_hands_in_is_bounded(document: list) -> None:
    """A kernel may send anything; what is longer than an answer can be is refused before it is judged."""
    with pytest.raises(ValueError, match="10,00"):
        answers.decode(document)


def test_a_text_in_place_of_a_number_is_read_at_once() -> None:
    """Thousands of spaces before, in or behind a number cost no time."""
    started = time.perf_counter()
    for text in (" " * 9_000 + "x", "1" + " " * 9_000 + "x", "1,111" * 1_900, "~" * 9_000):
        with pytest.raises(reading.Unreadable):
            reading.number(text, "B")
    assert time.perf_counter() - started < 0.2


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many bytes or cells are told, with what to do; a cell that is too long is not looked through."""
    path = tmp_path / "many.ipynb"
    path.write_text(json.dumps({"cells": [{}] * (grade_merge.MOST_CELLS + 1)}))
    with pytest.raises(BadInput, match="2,001 cells"):
        grade_merge.read_learner(path)
    monkeypatch.setattr(grade_merge, "MOST_BYTES", 100)
    with pytest.raises(BadInput, match="Clear Outputs"):
        grade_merge.read_learner(path)
    assert grade_merge._binds("check = 1", "check") and not grade_merge._binds("check = 1;" * 30_000, "check")


def test_a_failure_of_the_grader_stays_with_its_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw in one notebook is told in its report, and the batch goes on."""
    write_course(tmp_path)
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))
    monkeypatch.setattr(grade_merge, "merge", lambda *_: 1 / 0)
    files = [learner(tmp_path, tmp_path / f"{name}.ipynb", ANSWERS) for name in "ab"]
    assert ["ZeroDivisionError" in report.error for report in grade.grade(files)] == [True, True]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(grade_merge, "merge", full)
    assert "no room for a copy of the course in /" in grade.grade(files[:1])[0].error
