"""The course at a glance, from saved notebooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdlab.course import completion, exercises, progress
from pdlab.course.cli import main
from tests.gradecourse import ANSWERS, learner, write_course


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_course(tmp_path)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))
    return tmp_path


def shows(texts: dict[str, str]):
    """A change that stores these texts as the outputs of the check cells."""

    def change(cells: list) -> None:
        for cell in cells:
            if (name := cell.metadata.get("check")) in texts:
                cell.outputs = [{"output_type": "display_data", "metadata": {}, "data": {"text/plain": texts[name]}}]

    return change


def test_saved_outcomes_are_counted(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each check's saved words count; what never ran is not attempted; only correct earns points."""
    texts = {"2.1": "2.1 correct (1 point). Why.", "2.2": "2.2 not yet: no", "2.3": "2.3 not attempted"}
    learner(course, course / "notebooks" / "02-mini.ipynb", ANSWERS, shows(texts))
    assert main(["progress", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    book = document["notebooks"][0]
    assert book["exercises"] == {"2.1": "correct", "2.2": "not yet", "2.3": "not attempted", "2.4": "not attempted"}
    assert (document["points"], document["max_points"], book["not_yet"], document["basis"]) == (1, 7, 1, "saved notebooks")


def test_the_completion_list_follows_its_exercises(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line is done, and written out, when every exercise that proves it is correct; until then its topic and how many are."""
    (course / "data" / "completion.yaml").write_text(
        '- {topic: "a size", says: "size it", proved_by: ["2.1"]}\n- {topic: "a verdict", says: "judge it", proved_by: ["2.1", "2.4"]}\n'
    )
    learner(course, course / "notebooks" / "02-mini.ipynb", ANSWERS, shows({"2.1": "2.1 correct (1 point)."}))
    lines = progress.completion(progress.survey())
    assert [line.done for line in lines] == [True, False]
    assert main(["progress"]) == 0
    text = capsys.readouterr().out
    assert "1 of 2" in text and "1 of 7 points" in text
    assert "size it" in text and "a verdict" in text and "judge it" not in text
    assert main(["progress", "--json"]) == 0
    assert [line["says"] for line in json.loads(capsys.readouterr().out)["completion"]] == ["size it", "a verdict"]


def test_the_topics_of_the_list_answer_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What the course shows of its list before anything is proved names no figure and no finding."""
    completion.show()
    shown = capsys.readouterr().out
    assert len(completion.lines()) == 10 and all(line.topic in " ".join(shown.split()) for line in completion.lines())
    for answer in ("625", "experimental", "throughput", "lack of evidence", "no token twice"):
        assert answer not in shown


def test_a_missing_or_broken_notebook_is_told(course: Path) -> None:
    """A notebook that is not built or cannot be read has a remark, and the survey goes on."""
    assert "pdlab build" in progress.survey()[0].remark
    (course / "notebooks" / "02-mini.ipynb").write_text("{")
    book = progress.survey()[0]
    assert "no notebook" in book.remark and set(book.outcomes.values()) == {"not attempted"}


def test_prove_grades_instead_of_believing(course: Path) -> None:
    """With --prove, an answer that is right counts though nothing was saved, and a saved claim alone does not."""
    claim = shows({"2.3": "2.3 correct (1 point)."})
    learner(course, course / "notebooks" / "02-mini.ipynb", {"2.1": ANSWERS["2.1"]}, claim)
    book = progress.survey(prove=True)[0]
    assert book.outcomes == {"2.1": "correct", "2.2": "not attempted", "2.3": "not attempted", "2.4": "not attempted"}


def test_a_duplicate_does_not_hide_the_worked_notebook(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a blank copy the worked file counts, whichever of the two it is, and the remark names the other."""
    plain, copy = course / "notebooks" / "02-mini.ipynb", course / "notebooks" / "02-mini-Copy1.ipynb"
    worked = shows({"2.1": "2.1 correct (1 point).", "2.2": "2.2 correct (2 points)."})
    for done, blank in ((plain, copy), (copy, plain)):
        learner(course, done, ANSWERS, worked)
        learner(course, blank, {})
        book = progress.survey()[0]
        assert (book.name, book.points) == (done.stem, 3)
        assert "best of 2 files" in book.remark and f"{blank.name} 0/7" in book.remark
    assert main(["progress"]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert head.split()[-1] == "remark"
