"""Answers that mean the right thing: kinds of an exception, None, infinity, words around a choice, decimal points."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import jupytext
import numpy as np
import pytest

from pdlab.course import answers, diagnose, exercises, units
from pdlab.course.exercises import Exercise
from pdlab.course.feedback import Feedback
from pdlab.course.source import sources

REGISTRY = exercises.registry()
ROOT = exercises.folder().parents[1]


def said(exercise_id: str, answer: Any) -> Feedback:
    """What an exercise of the course says, after the way to the grader and back."""
    one = REGISTRY[exercise_id]
    plain = answers.call(answer, one.cases) if one.is_function else answers.read(answer)
    return diagnose.diagnose(one, answers.decode(json.loads(json.dumps(answers.encode(plain)))))


@pytest.mark.parametrize(
    ("exercise_id", "answer"),
    [
        ("8.4", None), ("8.4", "None."), ("8.7", "line 3"), ("8.7", "Line 3"), ("4.13", "factor 9"), ("4.13", "a factor of 9"), ("4.13", "by 9"),
        ("8.9", {"100 GB/s": 295, "25 GB/s": math.inf, "10 GB/s": np.inf}), ("8.9", {"100 GB/s": "about 295", "25 GB/s": "inf", "10 GB/s": None}),
        ("8.9", {"100 GB/s": 295, "25 GB/s": "infinity", "10 GB/s": "∞"}), ("8.10", "bytes"), ("8.10", "the bytes on the wire"),
        ("5.3", ["letter B", "row D"]), ("4.12", "setup twice (inside the rate)"), ("4.1", "1.207959552 GB"), ("4.2", "about 96.64 Gbit/s"),
        ("L1.3", ["{0} B", "{1} B"]), ("L1.3", ["{0:,} bytes", "{1:,} bytes"]),
    ],
)  # fmt: skip
def test_an_answer_that_means_the_right_thing_is_correct(exercise_id: str, answer: Any) -> None:
    """None where there is none, infinity for never, a label before a choice, its beginning, a unit where there is one."""
    if exercise_id == "L1.3":
        answer = [words.format(*REGISTRY["L1.3"].expected) for words in answer]
    assert said(exercise_id, answer).outcome == "correct", said(exercise_id, answer).text


@pytest.mark.parametrize(
    ("exercise_id", "answer", "words"),
    [
        ("8.4", "line", "is not it"), ("8.10", "wire", "none of the choices"), ("4.5", dict.fromkeys("ABCDE", "miss"), "none of the choices"),
        ("4.12", "setup", "none of the choices"), ("4.3", dict.fromkeys("ABCDE", "does"), "none of the choices"), ("L1.4", dict.fromkeys("ABCD", "not"), "none of the choices"),
        ("8.9", {"100 GB/s": None, "25 GB/s": None, "10 GB/s": None}, "still to be filled in: \"100 GB/s\""), ("4.13", "factor 7", "less than a factor of two"),
        ("L3.1", dict.fromkeys(["killed, fail", "killed, recompute", "frozen, retry", "decode killed", "stale", "corrupted"], "error"), "none of the choices"),
        ("L3.3", ["corrupted"], "none of the choices"), ("L3.3", ["fail"], '"prefill-killed-before, fail", "prefill-killed-before, retry", '),
    ],
)  # fmt: skip
def test_half_a_word_is_no_answer(exercise_id: str, answer: Any, words: str) -> None:
    """What fits two choices, turns the sense of one or stands inside one is not taken for it; choices are listed in quotes."""
    result = said(exercise_id, answer)
    assert result.outcome == "not yet" and words in result.says, result.text


WITHOUT_CANDIDATE = """
def choose(running, rack, home, how):
    names = [n for n in running if how == "none" or rack[n] == home]
    if not names:
        raise {error}("nobody")
    return min(names, key=lambda n: (running[n], n))
"""


@pytest.mark.parametrize("error", ["LookupError", "KeyError", "IndexError", "type('NoCandidate', (KeyError,), {})"])
def test_a_kind_of_the_wanted_exception_is_right(error: str) -> None:
    """Whoever catches a LookupError catches a KeyError too."""
    space: dict[str, Any] = {}
    exec(WITHOUT_CANDIDATE.format(error=error), space)
    assert said("8.8", space["choose"]).outcome == "correct"


def test_another_exception_is_told_which_one_is_asked_for() -> None:
    """The text names the exception to raise, and so may the check."""
    space: dict[str, Any] = {}
    exec(WITHOUT_CANDIDATE.format(error="ValueError"), space)
    result = said("8.8", space["choose"])
    assert result.kind == "other-exception" and result.says.endswith("raises ValueError, and it is an input to refuse with LookupError")


@pytest.mark.parametrize(
    ("expected", "unit", "answer", "kind", "words"),
    [
        (1207959552, "B", "1.208 GB", "nearly", "the exact number is asked for"), (1207959552, "B", "1.21 GB", "nearly", "the exact number is asked for"),
        (1207959552, "B", "1.207.959.552 B", "thousands-dot", "has dots between thousands"), (1207959552, "B", "2.416 GB", "counted-twice", "twice"),
        (1449, "token", "1.449 tokens", "thousands-dot", "if the dot is to part thousands"), (1449, "", "1.449", "thousands-dot", "if the dot is to part thousands"),
    ],
)  # fmt: skip
def test_one_dot_is_a_decimal_point(expected: int, unit: str, answer: str, kind: str, words: str) -> None:
    """A dot before three digits and a unit is no slip of itself; where it may part thousands, that is a doubt."""
    one = Exercise(id="2.1", kind="compute", title="t", expected=expected, unit=unit, source="s", label="hypothetical", hints=("a", "b"))
    result = diagnose.diagnose(one, answers.read(answer))
    assert result.kind == kind and words in result.says, result.text
    assert "has a dot between thousands" not in result.says


# ── what an exercise asks for and what it accepts ──


@functools.cache
def asked(notebook: str) -> dict[str, str]:
    """What stands before each exercise of a notebook, and its own stub: the words that ask for it."""
    (source,) = (one for one in sources(ROOT) if one.number == notebook)
    found, before = {}, ""
    for cell in jupytext.read(source.path, fmt="py:percent").cells:
        if cell.cell_type == "markdown":
            before = re.sub(r"(?s).*\n\n(?=[^|])", "", cell.source.strip())  # its last paragraph
        elif name := cell.metadata.get("exercise"):
            found[name] = f"{before}\n{cell.source.partition('### BEGIN')[0]}"
    return found


def numbers(one: Exercise) -> Iterator[Any]:
    """The keys of the numbers that an exercise asks for."""
    values = one.expected.items() if isinstance(one.expected, dict) else enumerate(one.expected) if isinstance(one.expected, list) else [("", one.expected)]
    return (name for name, value in values if isinstance(value, int | float) and not isinstance(value, bool))


def test_a_quantity_is_asked_for_in_a_unit_that_is_declared() -> None:
    """Where words or a key ask for bytes, milliseconds or per cent, an answer with that unit is read."""
    looked_at = 0
    for one in REGISTRY.values():
        if one.checker or (not one.is_function and not list(numbers(one))):
            continue
        looked_at += 1
        words = asked(one.notebook)[one.id]
        unit = next(iter(re.findall(r"\bin \**(bytes|milliseconds|ms|µs|seconds|[GMK]i?B(?:/s)?|Gbit/s|per cent)\b", words)), "")
        for name in numbers(one) if not one.is_function else [one.function]:
            declared = one.unit.get(name, "") if isinstance(one.unit, dict) else one.unit
            tail = re.search(r"_(ms|gb_s|s|bytes|gb|percent)$", str(name))
            for wanted in filter(None, (unit, tail and tail[1])):
                spelled = {"percent": "%", "per cent": "%", "bytes": "B", "gb": "GB", "gb_s": "GB/s", "milliseconds": "ms", "seconds": "s"}.get(wanted, wanted)
                assert declared, f"{one.id} asks for {wanted} and declares no unit"
                assert units.factor(spelled, declared), f"{one.id} asks for {wanted} and declares {declared}"
    assert looked_at > 40


def test_where_every_digit_counts_the_words_say_so() -> None:
    """00 promises that three digits are enough where an exercise names no more; a long exact number names more."""
    looked_at = 0
    for one in REGISTRY.values():
        if isinstance(one.expected, int) and not isinstance(one.expected, bool) and one.expected >= 10_000 and not one.tolerance:
            looked_at += 1
            assert re.search(r"\bexactly\b|\bexact\b|to the byte|every (?:byte|digit)", asked(one.notebook)[one.id], re.I), f"{one.id}: say that it is to be exact"
    assert looked_at >= 7
