"""Every exercise of the course, whoever wrote it: no exercise can leave these tests out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from pdlab.course import answers, diagnose, exercises
from pdlab.course.compare import Rules, matches
from pdlab.course.exercises import Exercise
from pdlab.course.feedback import Feedback
from pdlab.course.reading import word
from pdlab.course.source import sources
from pdlab.documents import read_yaml

ROOT = exercises.folder().parents[1]
REGISTRY = exercises.registry()
SMALL = 13  # whole numbers below this stand in any prose and give nothing away


def of_each(claim: Callable[[Exercise], None]) -> Callable[[], None]:
    """One test that a claim holds of every exercise: a thousand tests of a millisecond would cost more than they say."""

    def test() -> None:
        broken = {}
        for exercise in REGISTRY.values():
            try:
                claim(exercise)
            except Exception as error:
                broken[exercise.id] = f"{type(error).__name__}: {error}"
        assert not broken, "\n\n".join(f"{name}: {why}" for name, why in broken.items())

    test.__doc__ = claim.__doc__
    return test


def expected_of(exercise: Exercise) -> Any:
    """The right answer as a learner's object: the reference function, or the expected value."""
    return exercises.reference(exercise) if exercise.is_function else exercise.expected


def value(exercise: Exercise, expression: str) -> Any:
    return exercises.evaluate(expression, f"exercise {exercise.id}", expected=expected_of(exercise))


def feedback(exercise: Exercise, answer: Any) -> Feedback:
    """What the exercise says about a learner's object."""
    plain = answers.call(answer, exercise.cases) if exercise.is_function else answers.read(answer)
    return diagnose.diagnose(exercise, plain)


def untouched(exercise: Exercise) -> list[Any]:
    if exercise.is_function:

        def stub(*args: Any, **kwargs: Any) -> None: ...

        return [..., stub]
    if isinstance(exercise.expected, dict):
        return [..., None, dict.fromkeys(exercise.expected, ...)]
    return [...] if exercise.expected == "none" else [..., None]  # there None is an answer, and the right one


def test_registry_is_not_empty() -> None:
    """The tests below ran over something: every notebook source has exercises in the registry."""
    assert {e.notebook for e in REGISTRY.values()} == {s.number for s in sources(ROOT)}


@of_each
def test_untouched_is_not_attempted(exercise: Exercise) -> None:
    """An exercise that nobody touched is not attempted, and is not told anything."""
    for nothing in untouched(exercise):
        assert feedback(exercise, nothing).text == f"{exercise.id} not attempted"


@of_each
def test_right_answer_is_correct(exercise: Exercise) -> None:
    """The expected value, or the reference, is correct and earns the points."""
    result = feedback(exercise, expected_of(exercise))
    assert (result.outcome, result.points) == ("correct", exercise.points), result.text


@of_each
def test_other_honest_forms_are_correct(exercise: Exercise) -> None:
    """At least two further ways to write the answer are accepted."""
    assert len(exercise.forms) >= 2
    for form in exercise.forms:
        assert feedback(exercise, value(exercise, form)).outcome == "correct", form


@of_each
def test_anticipated_mistakes_are_named(exercise: Exercise) -> None:
    """At least three wrong answers are not yet right, each with its own kind of mistake."""
    assert len(exercise.mistakes) >= 3
    for mistake in exercise.mistakes:
        result = feedback(exercise, value(exercise, mistake.answer))
        assert (result.outcome, result.kind) == ("not yet", mistake.kind), f"{mistake.answer}: {result.text}"
        assert result.says


@of_each
def test_answers_survive_the_way_to_the_grader(exercise: Exercise) -> None:
    """Encoded and decoded, an answer gets the same feedback: a kernel and the grader agree."""
    for answer in (expected_of(exercise), *(value(exercise, m.answer) for m in exercise.mistakes)):
        plain = answers.call(answer, exercise.cases) if exercise.is_function else answers.read(answer)
        assert diagnose.diagnose(exercise, answers.decode(answers.encode(plain))) == diagnose.diagnose(exercise, plain)


@of_each
def test_expected_is_recomputed(exercise: Exercise) -> None:
    """The stored value is what pdlab itself computes, wherever the exercise says how."""
    if exercise.recompute is None:
        assert exercise.is_function or exercise.kind != "compute", "a compute exercise says how its value is recomputed"
        return
    made, rules = answers.read(value(exercise, exercise.recompute)), Rules.of(exercise)
    if exercise.is_function:
        assert feedback(exercise, value(exercise, exercise.recompute)).outcome == "correct"
        return
    assert matches(made, answers.read(exercise.expected), rules), f"recomputed {made!r}"


@of_each
def test_no_feedback_gives_the_answer_away(exercise: Exercise) -> None:
    """Neither a hint nor what is said about a wrong or untouched answer holds the right one."""
    for text in said(exercise):
        leak = found_in(text, exercise)
        assert not leak, f"{leak!r} stands in {text!r}"


def said(exercise: Exercise) -> Iterator[str]:
    """Every text that someone without the answer can see."""
    yield from exercise.hints
    if exercise.checker:
        return  # `expected` is one right answer of many there, and what a checker quotes is the learner's own
    for mistake in exercise.mistakes:
        yield feedback(exercise, value(exercise, mistake.answer)).says
    for wrong in generic_mistakes(exercise):
        result = feedback(exercise, wrong)
        if result.outcome != "correct":
            yield result.says


def generic_mistakes(exercise: Exercise) -> list[Any]:
    """Wrong answers of any exercise: other sizes, other forms, parts of a collection."""
    if exercise.is_function:
        return [lambda *a, **k: 0, lambda: 1, lambda *a, **k: "x", 3]
    expected = exercise.expected
    numbers = [expected] if isinstance(expected, int | float) and not isinstance(expected, bool) else []
    scaled = [n * f for n in numbers for f in (8, 1 / 8, 2, 0.5, 1000, 1.048576, 1e6, 1e-6, -1, 1.3, 100, 1.0001)]
    parts = [expected[:-1]] if isinstance(expected, list) else []
    parts += [{k: v for k, v in expected.items() if k != key} for key in expected] if isinstance(expected, dict) else []
    return [*scaled, *parts, 1, "something else", [1, 2], {"a": 1}, {1, 2}, float("nan"), float("inf"), True, "5 s", "5 zork", object()]


def found_in(text: str, exercise: Exercise) -> str:
    """The answer, or the part of it, that a text gives away; empty when it keeps it."""
    if exercise.is_function:
        return ""  # a formula on other numbers is what a last hint is for
    flat = list(flatten(exercise.expected))
    numbers = [v for v in flat if isinstance(v, int | float) and not isinstance(v, bool) and not (v == int(v) and abs(v) < SMALL)]
    for number in numbers:
        for match in re.finditer(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text):
            written = match[0].rstrip(",").replace(",", "")
            if float(written) == abs(float(number)) or len(written) > 3 and same_digits(written, number):
                return match[0]
    words = [v for v in flat if isinstance(v, str)]
    if exercise.checker or not words:
        return ""
    if isinstance(exercise.expected, str) and names(text, words[0]):
        others = [c for c in exercise.choices if word(c) != word(words[0])]
        return "" if any(names(text, other) for other in others) else words[0]
    if isinstance(exercise.expected, list) and len(words) > 1 and all(names(text, w) for w in words) and not any(names(text, c) for c in choices(exercise) if c not in words):
        return ", ".join(words)
    return ""


def choices(exercise: Exercise) -> list[str]:
    by_key = exercise.choices.values() if isinstance(exercise.choices, dict) else [exercise.choices]
    return list(itertools.chain.from_iterable(by_key))


def flatten(expected: Any) -> Iterator[Any]:
    if isinstance(expected, dict):
        expected = list(expected.values())
    if isinstance(expected, list | tuple):
        for item in expected:
            yield from flatten(item)
    else:
        yield expected


def same_digits(written: str, number: float) -> bool:
    """Whether a written number is the answer in another decimal prefix: 655.36 for 655360."""
    return written.replace(".", "").strip("0") == f"{abs(number):.12g}".replace(".", "").strip("0") != ""


def names(text: str, choice: str) -> bool:
    return re.search(rf"(?<![a-z]){re.escape(choice.casefold())}(?![a-z])", text.casefold()) is not None


def test_ids_are_unique_and_in_their_own_file() -> None:
    """No id stands twice, in one file or in two."""
    ids = [
        str(entry["id"])
        for path in exercises.folder().glob("*.yaml")
        for entry in read_yaml(path)["exercises"]
    ]
    assert len(ids) == len(set(ids)) == len(REGISTRY) > 0


def test_registry_and_notebook_sources_name_the_same_exercises() -> None:
    """Every registered exercise stands in a notebook source, and every exercise there is registered."""
    in_sources = {
        name for one in sources(ROOT) for name in re.findall(r'^# %%.*\bexercise="([^"]+)"', one.path.read_text(encoding="utf-8"), re.M)
    }
    assert in_sources == set(REGISTRY)


def test_plain_arithmetic_is_at_most_a_third() -> None:
    """Most exercises ask for more than a computed number."""
    computed = sum(e.kind == "compute" for e in REGISTRY.values())
    assert computed <= len(REGISTRY) / 3, f"{computed} of {len(REGISTRY)} are compute"
