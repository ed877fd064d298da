"""What ``check`` and ``hint`` do in a notebook."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from pdlab.course import answers, feedback

GRADING = "PDLAB_GRADING"  # set by the grader: a file with the cases of every function to be sent
JOB = "PDLAB_GRADE_JOB"  # set for the process that judges: a file that says what to run
CHANNEL = "pdlab-answer"  # the metadata key under which an answer travels to the grader

_hints_given: Counter[str] = Counter()


def show(exercise_id: str, value: Any, *expected: Any) -> None:
    """Show how an answer stands; while grading, hand it to the grader instead."""
    if GRADING in os.environ:
        _send(str(exercise_id), value)
        return
    result = evaluate(exercise_id, value, *expected)
    feedback.publish(result.text, result.html)


def evaluate(exercise_id: str, value: Any, *expected: Any) -> feedback.Feedback:
    """The feedback on ``value``; ``expected`` (at most one) replaces the registry's value.

    Raises BadInput for an unknown exercise.
    """
    from pdlab.course import diagnose, exercises

    exercise = exercises.find(exercise_id)
    plain = answers.call(value, exercise.cases) if exercise.is_function else answers.read(value)
    return diagnose.diagnose(exercise, plain, *expected)


def show_hint(exercise_id: str) -> None:
    """Show the next hint; after the last one, say so and show it again."""
    from pdlab.course import exercises

    if GRADING in os.environ:
        return
    exercise = exercises.find(exercise_id)
    count = len(exercise.hints)
    step = min(_hints_given[exercise.id] + 1, count)
    again = _hints_given[exercise.id] >= count
    _hints_given[exercise.id] = step
    head = f"{exercise.id} hint {step} of {count}"
    tail = " (again: there is no further one)" if again else " (the last one)" if step == count else ""
    says = exercise.hints[step - 1].strip()
    feedback.publish(f"{head}{tail}: {says}", feedback.panel(f"<strong>{head}</strong>{tail}: {feedback.marked(says)}"))


@cache
def _cases() -> dict[str, Any]:
    return json.loads(Path(os.environ[GRADING]).read_text(encoding="utf-8"))


def _send(exercise_id: str, value: Any) -> None:
    """Ship the plain form of an answer in the metadata of an output; nothing is judged here."""
    cases = _cases().get(exercise_id)
    plain = answers.read(value) if cases is None else answers.call(value, cases)
    feedback.publish(f"{exercise_id} handed in", "", {CHANNEL: {"id": exercise_id, "answer": answers.encode(plain)}})
