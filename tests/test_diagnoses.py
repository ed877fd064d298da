"""What a check says is true of the answer at hand: no accusation from the spelling, no guess where none is likely."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pdlab.course import answers, checks, diagnose, exercises
from pdlab.course.compare import Rules, matches
from pdlab.course.exercises import Exercise
from pdlab.course.feedback import Feedback
from pdlab.course.source import sources
from pdlab.errors import BadInput

REGISTRY = exercises.registry()


def exercise(expected: Any, **more: Any) -> Exercise:
    return Exercise(id="2.1", kind=more.pop("kind", "compute"), title="t", expected=expected, source="s", label="hypothetical", hints=("a", "b"), **more)


def said(one: Exercise, answer: Any) -> Feedback:
    return diagnose.diagnose(one, answers.read(answer))


@pytest.mark.parametrize(
    ("expected", "unit", "answer"),
    [
        (8.86432, "ms", "8,8643"), (8.86432, "ms", "8,86432 ms"), (10.8304, "ms", "10,8304"), (10.8304, "ms", "≈ 10,83 ms"),
        (625, "MiB", "0,6103515625 GiB"), (17.384, "ms", "17,384"), (17.384, "ms", "17,384 ms"), (0.125, "", "0,125"),
        (-3.5, "", "-3,5"), (3.2, "ms", "1,234"), (1449, "token", "1449,58"),
    ],
)  # fmt: skip
def test_a_decimal_comma_is_called_one(expected: Any, unit: str, answer: str) -> None:
    """However many digits follow, a decimal comma is told apart from units and prefixes."""
    result = said(exercise(expected, unit=unit), answer)
    assert (result.kind, "point" in result.says) == ("decimal-comma", True), result.text


@pytest.mark.parametrize(("expected", "answer"), [(1449, "1,449"), (655360000, "655,360,000"), (17384.5, "17,384.5"), (2000, "2,000")])
def test_commas_between_thousands_are_read(expected: Any, answer: str) -> None:
    """A comma that parts thousands stays an honest way to write a number."""
    assert said(exercise(expected), answer).outcome == "correct"


def test_two_numbers_from_an_unquoted_comma() -> None:
    """Python reads 8,8643 as two numbers; the check says where they may come from."""
    assert "point" in said(exercise(8.8643, unit="ms"), (8, 8643)).says


@pytest.mark.parametrize(
    ("unit", "expected", "answer", "kind"),
    [
        ("B", 327680, 327681, "nearly"), ("MiB", 625, 624, "nearly"), ("ms", 15, 16, "too-large"), ("", 100, 101, "off-by-one"),
        ("token", 1449, 1449.58, "not-whole"), ("", 20, 19.4, "not-whole"), ("ms", 17.384, 17.3, "rounded-too-early"),
        ("MiB", 625, "625 Mib", "bits-for-bytes"), ("GB/s", 25, "25 Gb/s", "bits-for-bytes"),
    ],
)  # fmt: skip
def test_a_near_miss_is_told_what_is_likely(unit: str, expected: Any, answer: Any, kind: str) -> None:
    """Bytes and milliseconds have no ends to count, and tokens come whole."""
    result = said(exercise(expected, unit=unit), answer)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text


def test_a_number_from_a_table_gets_no_guess_at_arithmetic() -> None:
    """What was looked up may be half of the right value by chance."""
    looked_up = said(exercise(128, kind="find"), 64)
    assert "row" in looked_up.says and "half" not in looked_up.says
    assert said(exercise(128, kind="find", choices=[64, 128, 1024]), 64).kind == "other-choice"
    assert "erhaps" in said(exercise(128), 64).says


def test_a_factor_too_many_is_not_blamed_on_units_alone() -> None:
    """A large ratio may come from a factor as well as from a unit."""
    assert "factor" in said(exercise(46080, unit="B"), 46080 * 300).says


@pytest.mark.parametrize("answer", ["larger batch, FP8 weights", "a b", "A; C", "AB"])
def test_a_text_in_place_of_a_list_is_told_the_form(answer: str) -> None:
    """Several words in one text are asked for as a list."""
    result = said(exercise(["a", "b"], kind="find", choices=["a", "b", "larger batch"]), answer)
    assert result.kind == "wrong-type" and "give a list" in result.says


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("measured (recorded)", "correct"), ("Measured (an old run)", "correct"), ("measured (or simulated)", "not yet"),
        ("simulated (measured)", "not yet"), ("recorded (measured)", "not yet"),
    ],
)  # fmt: skip
def test_a_remark_in_brackets_does_not_spoil_a_word(answer: str, outcome: str) -> None:
    """A choice with a remark behind it is the choice, unless the remark names another one."""
    one = exercise("measured", kind="find", choices=["published", "simulated", "measured"])
    assert said(one, answer).outcome == outcome


@pytest.mark.parametrize("answer", ["2x", "2 x", "2×", "2X", "x2", "×2", 2.0])
def test_a_factor_may_carry_its_cross(answer: Any) -> None:
    """A factor written as 2x is the number."""
    assert said(exercise(2), answer).outcome == "correct"


def test_a_number_for_an_id_is_refused_where_it_may_be_two() -> None:
    """2.10 without quotes is 2.1 to Python, so it is not answered as 2.1."""
    with pytest.raises(BadInput, match="quotes"):
        checks.show_hint(2.10)
    assert exercises.find(2.3).id == "2.3"


def test_three_digits_are_enough_where_no_decimals_are_named() -> None:
    """One rule for the course: three significant digits, unless the exercise says how many decimals."""
    root, seen = exercises.folder().parents[1], 0
    pages = {s.number: s.path.read_text(encoding="utf-8") for s in sources(root)}
    for one in REGISTRY.values():
        if isinstance(one.expected, float) and one.expected != int(one.expected):
            cell = re.search(rf'exercise="{re.escape(one.id)}".*?BEGIN SOLUTION', pages[one.notebook], re.S)
            assert cell, one.id
            seen += 1
            assert "decimal" in cell[0] or matches(float(f"{one.expected:.3g}"), one.expected, Rules.of(one)), one.id
    assert seen > 10


@pytest.mark.parametrize(
    ("name", "answer", "kind"),
    [
        ("3.1", "8,8643", "decimal-comma"), ("9.3", "10,8304", "decimal-comma"), ("2.2", "0,6103515625 GiB", "decimal-comma"),
        ("3.8", "17,384", "decimal-comma"), ("2.2", "625 Mib", "bits-for-bytes"), ("2.2", 624, "nearly"), ("2.1", 327681, "nearly"),
        ("2.6", 2 * 40 * 576 * 2 * 128, "gqa-factors"), ("2.11", 1128960, "blocks-for-slots"), ("3.4", 1449.58, "part-of-a-token"),
        ("3.12", "larger batch, fewer KV heads", "wrong-type"), ("L2.1", "A, C, F", "wrong-type"),
    ],
)  # fmt: skip
def test_what_a_newcomer_was_told(name: str, answer: Any, kind: str) -> None:
    """Answers that were once explained with the wrong reason."""
    result = checks.evaluate(name, answer)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text


def test_setup_written_as_one() -> None:
    """A constant in place of an argument is named as that."""
    assert checks.evaluate("3.2", lambda b, r, s: 1 + b / (r * 1e9) * 1000).kind == "setup-fixed"
