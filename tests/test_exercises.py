"""Answers in any honest form, mistakes named by kind, and a registry that refuses slips."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdlab.course import answers, checks, diagnose, exercises, predictions, reading, slips, units
from pdlab.course.exercises import Exercise
from pdlab.course.feedback import Feedback
from pdlab.errors import BadInput


@functools.cache
def registry() -> pint.UnitRegistry:
    """A learner's own registry; made when first asked for, since every worker imports this file."""
    return pint.UnitRegistry()


def exercise(expected: Any, **more: Any) -> Exercise:
    kind = more.pop("kind", "compute")
    return Exercise(id="2.1", kind=kind, title="t", expected=expected, source="s", label="hypothetical", hints=("a", "b"), **more)


def function(reference: str, cases: list[list[Any]], **more: Any) -> Exercise:
    return Exercise(
        id="2.2", kind="implement", title="t", function="f", reference=reference, cases=tuple(cases), source="s",
        label="hypothetical", hints=("a", "b"), **more,
    )  # fmt: skip


def said(one: Exercise, answer: Any, *expected: Any) -> Feedback:
    plain = answers.call(answer, one.cases) if one.is_function else answers.read(answer)
    return diagnose.diagnose(one, plain, *expected)


BYTES = exercise(655360000, unit="B")
HONEST = [
    655360000, 655360000.0, np.int64(655360000), np.float64(655360000), np.array(655360000), np.array([655360000]),
    pd.Series([655360000]), pd.Series([655360000], index=["a"]).iloc[0], Fraction(655360000), Decimal(655360000),
    "655360000", "655,360,000 B", "655_360_000", "625 MiB", "625MiB", "0.65536 GB", "6.5536e8 bytes", "5242880000 bit",
    "5.24288 Gbit", [655360000],
    (655360000,), "≈ 655360000 B",
]  # fmt: skip


@pytest.mark.parametrize("answer", HONEST)
def test_honest_forms_of_a_number_are_correct(answer: Any) -> None:
    """An int, a float, a numpy or pandas scalar, a quantity, a fraction or text with a unit are one answer."""
    assert said(BYTES, answer).text == "2.1 correct (1 point)."


@pytest.mark.parametrize(("number", "unit"), [(625, "MiB"), (655.36, "MB"), (np.int64(625), "mebibyte")])
def test_a_quantity_is_an_honest_number(number: Any, unit: str) -> None:
    """A quantity of the learner's own registry is the number it stands for, in any unit of bytes."""
    assert said(BYTES, registry().Quantity(number, unit)).text == "2.1 correct (1 point)."


def test_a_quantity_of_something_else_is_told() -> None:
    """Seconds are no bytes."""
    result = said(BYTES, registry().Quantity(1, "s"))
    assert (result.outcome, result.kind) == ("not yet", "unit-mismatch") and len(result.says) > 10


@pytest.mark.parametrize("nothing", [..., None, "", "  ", [], {}, set(), [..., ...], {"a": ...}])
def test_nothing_is_not_attempted(nothing: Any) -> None:
    """What nobody filled in is not attempted, in whatever shape it was left."""
    assert said(BYTES, nothing).text == "2.1 not attempted"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (655360000 * 8, "bits-for-bytes"), (655360000 / 8, "bits-for-bytes"), (625, "unit-prefix"), (655.36, "unit-prefix"),
        ("625 MB", "gb-for-gib"), ("0.625 GiB", "gb-for-gib"), (655360000 / 2, "k-without-v"), (655360000 * 2, "counted-twice"),
        (-655360000, "sign"), (655360001, "nearly"), (655000000, "nearly"), (3, "too-small"), (1e30, "too-large"),
        (7e8, "too-large"), (0, "too-small"), ("625 ms", "unit-mismatch"), ("625 zork", "unknown-unit"), ("a lot", "wrong-type"),
        (True, "wrong-type"), (np.True_, "wrong-type"), (math.nan, "not-finite"), (math.inf, "not-finite"), (-math.inf, "not-finite"),
        (np.float64("nan"), "not-finite"), ("nan", "wrong-type"), ("3,5", "decimal-comma"), ([1, 2], "wrong-type"), ({"a": 1}, "wrong-type"),
        (lambda: 1, "wrong-type"), (1j, "wrong-type"), (object(), "wrong-type"), (datetime.timedelta(seconds=1), "unit-mismatch"),
        (pd.DataFrame({"a": [1, 2]}), "wrong-type"), (b"655360000", "wrong-type"), ("1/0", "not-finite"),
        (Decimal("Infinity"), "not-finite"), (pd.NA, "wrong-type"), ("1e999 B", "too-large"),
    ],
)  # fmt: skip
def test_a_wrong_number_is_told_its_kind(answer: Any, kind: str) -> None:
    """Units, prefixes, halves, signs, types: a mistake that nobody listed still gets its kind and a sentence."""
    result = said(BYTES, answer)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text
    assert len(result.says) > 10 and "655360000" not in result.says.replace(",", "")


def test_a_number_of_thousands_of_digits_is_no_answer() -> None:
    """A number too long to print is told so, and costs no time."""
    assert said(BYTES, 10**5000).says == "one number is asked for (in B), not a number of thousands of digits"


@pytest.mark.parametrize(
    ("expected", "unit", "answer", "kind"),
    [
        (0.9, "", 90, "percent-for-fraction"), (90, "%", 0.9, "percent-for-fraction"), (27.2144, "ms", 0.0272144, "unit-prefix"),
        (27.2144, "ms", 27.2, "rounded-too-early"), (12.08, "GB/s", 96.64, "bits-for-bytes"), (96.64, "Gbit/s", 12.08, "bytes-for-bits"),
        (40.0, "", 0.025, "upside-down"), (0, "", 5, "off"), (16, "", "16 ms", "unit-mismatch"), (400, "", 200, "factor-two"), (0.5, "", 0.25, "factor-two"), (4, "", 2, "too-small"),
    ],
)  # fmt: skip
def test_slips_with_other_units(expected: Any, unit: str, answer: Any, kind: str) -> None:
    """Per cent, milliseconds, rates and reciprocals have slips of their own."""
    assert said(exercise(expected, unit=unit), answer).kind == kind


@pytest.mark.parametrize(
    ("expected", "more", "right", "wrong"),
    [
        (27.2144, {"unit": "ms", "tolerance": {"abs": 0.00005}}, [27.2144, "27.21435 ms", "0.0272144 s"], [27.2145001, 27.2]),
        (0.3, {}, [0.1 + 0.2, "30 %", "3/10"], [0.301]),
        (10.0, {"tolerance": {"rel": 0.1}}, [9, 11], [8.9, 11.2]),
        (16, {}, [16, "16 GPUs", "16 requests"], [15, "16 B"]),
        (True, {}, [True, np.True_, "yes", "True"], [False, "no", 1, "maybe"]),
        ("not yet", {"choices": ("adopt", "not yet")}, ["Not-Yet", "not_yet", " NOT YET. "], ["adopt", "notyetx", 5]),
        ("insufficient evidence", {"synonyms": {"insufficient evidence": ("cannot tell",)}}, ["cannot tell", "Insufficient-Evidence"], ["reject"]),
        (["a", "b"], {}, [["B", "a"], {"a", "b"}, ("a", "b"), {"a": 1, "b": 2}.keys(), pd.Series(["a", "b"])], [["a"], ["a", "b", "c"], "a"]),
        ([1, 2.5], {}, [[1, 2.5], np.array([1, 2.5]), pd.Series([1, 2.5])], [[2.5, 1], {1, 2.5}, [1]]),
        (["b", "a"], {"ordered": True}, [["b", "a"]], [["a", "b"], {"a", "b"}]),
        ({"x": True, "100": 7.5}, {}, [{"x": "yes", 100: 7.5}, {"X": True, "100.0": "7.5"}], [{"x": True}, {"x": True, 100: 7}]),
    ],
)  # fmt: skip
def test_forms_of_other_answers(expected: Any, more: dict[str, Any], right: list[Any], wrong: list[Any]) -> None:
    """Tolerances, yes and no, words, sets, sequences and mappings accept honest spellings and nothing else."""
    one = exercise(expected, kind="judge", **more)
    assert [said(one, answer).outcome for answer in right] == ["correct"] * len(right)
    assert [said(one, answer).outcome for answer in wrong] == ["not yet"] * len(wrong)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (["a"], "too-few"), (["a", "b", "c"], "too-many"), (["a", "c"], "mixed"), (["a", "zz"], "not-a-choice"), (["a", ...], "incomplete"),
    ],
)  # fmt: skip
def test_a_list_of_findings_says_how_it_falls_short(answer: Any, kind: str) -> None:
    """Too few, too many and mixed findings differ, and a typing slip is told apart from a wrong finding."""
    result = said(exercise(["a", "b"], kind="find", choices=("a", "b", "c")), answer)
    assert result.kind == kind


def test_choices_may_be_numbers_or_yes_and_no() -> None:
    """Of numeric choices, one that is not among them is told apart from a wrong one."""
    one = exercise({"chunk": 512, "safe": False}, kind="find", choices={"chunk": [256, 512, 1024], "safe": [True, False]})
    assert one.choices == {"chunk": ("256", "512", "1024"), "safe": ("yes", "no")}
    assert said(one, {"chunk": 700, "safe": False}).kind == "not-a-choice"
    assert said(one, {"chunk": 256, "safe": False}).says == "1 of the 2 are right"
    assert said(one, {"chunk": "512", "safe": "no"}).outcome == "correct"


def test_a_mapping_says_how_much_of_it_is_right() -> None:
    """Missing, unknown and wrong entries are told apart; a common slip of the wrong ones is named."""
    one = exercise({"x": 8, "y": 16, "z": "itl"}, kind="judge", unit="B", choices={"z": ("itl", "ttft")})
    assert said(one, {"x": 8, "y": 16}).kind == "incomplete"
    assert said(one, {"x": 8, "y": 16, "z": "itl", "w": 1}).kind == "unknown-key"
    assert said(one, {"x": 8, "y": 128, "z": "itl"}).kind == "bits-for-bytes"
    assert said(one, {"x": 8, "y": 16, "z": "tpot"}).kind == "not-a-choice"
    assert said(one, {"x": 1e9, "y": 16, "z": "ttft"}).says == "1 of the 3 are right"
    assert said(one, [8, 16]).kind == "wrong-type"


def test_a_partial_mistake_of_a_mapping_is_recognised() -> None:
    """A listed mistake names only the entries that make it; the rest of the answer may be anything."""
    mistake = {"answer": "{'decision': 'adopt'}", "kind": "adopts", "says": "nothing was measured yet"}
    one = exercise({"decision": "wait", "ms": 9}, kind="judge", mistakes=[mistake])
    assert said(one, {"decision": "Adopt", "ms": 123}).kind == "adopts"
    assert said(one, {"decision": "wait", "ms": 9}).outcome == "correct"


def test_an_expected_value_of_the_learners_own_run() -> None:
    """A lab's own value replaces the stored one; mistakes of the recorded run are not held against it."""
    mistakes = [
        {"answer": "20", "kind": "recorded", "says": "a value of the recorded run"},
        {"answer": "expected * 3", "kind": "three-times", "says": "three times too much"},
    ]
    one = exercise(10.0, tolerance={"rel": 0.01}, mistakes=mistakes)
    assert said(one, 20.0, 20.0).outcome == "correct"
    assert said(one, 20.0).kind == "recorded"
    assert said(one, 20.0, 50.0).kind == "too-small"
    assert said(one, 60.0, 20.0).kind == "three-times"


DOUBLE = function("lambda n: 2 * n", [[1], [2], [30], [0]], mistakes=[{"answer": "lambda n: n", "kind": "once", "says": "only one of the two"}])


def stub(n: int) -> int: ...


def documented_stub(n: int) -> int:
    """Twice n."""


def unwritten(n: int) -> int:
    raise NotImplementedError


def forgetful(n: int) -> None:
    twice = 2 * n  # noqa: F841


@pytest.mark.parametrize(
    ("answer", "outcome", "kind"),
    [
        (stub, "not attempted", ""), (documented_stub, "not attempted", ""), (unwritten, "not attempted", ""), (..., "not attempted", ""),
        (lambda n: n + n, "correct", ""), (lambda n: np.int64(2 * n), "correct", ""), (lambda n: n, "not yet", "once"),
        (forgetful, "not yet", "no-return"), (lambda: 1, "not yet", "raises"), (lambda n: 1 // 0, "not yet", "raises"), (8, "not yet", "wrong-type"),
        (lambda n: 2 * n if n < 9 else 0, "not yet", "too-small"), (lambda n: str(2 * n), "correct", ""), (lambda n: "x", "not yet", "wrong-type"),
    ],
)  # fmt: skip
def test_functions_are_checked_on_every_case(answer: Any, outcome: str, kind: str) -> None:
    """A function is right on all cases, a known wrong one, one that raises, one that returns nothing, or untouched."""
    result = said(DOUBLE, answer)
    assert (result.outcome, result.kind) == (outcome, kind), result.text


class _Ends:
    @property
    def magnitude(self) -> float:
        sys.exit(1)


class _Endless(dict):
    def items(self) -> Any:
        return ((n, n) for n in itertools.count())


_WIDE: list[Any] = []
_WIDE += [_WIDE] * 1000


@pytest.mark.parametrize(
    "answer", [_Ends(), Mock(), _Endless(), _WIDE, ["x" * 10_000] * 900, np.zeros(10**6), range(10**12), {"a": [Mock()]}, "9" * 10_000]
)
@pytest.mark.parametrize("one", [exercise(2.5), exercise(["a"]), exercise({"a": 1.5})])
def test_an_object_that_ends_floods_or_never_ends_is_no_answer(answer: Any, one: Exercise) -> None:
    """It is looked at for a moment, and told in a few words."""
    started = time.perf_counter()
    found = said(one, answer)
    assert found.outcome == "not yet" and len(found.text) < 1000
    assert time.perf_counter() - started < 2


def test_a_function_that_ends_the_process_raises() -> None:
    """So does one whose exception cannot be spelled; Ctrl-C still stops the check."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def ends() -> None:
        sys.exit(3)

    def speechless() -> None:
        raise Unspeakable

    def stopped() -> None:
        raise KeyboardInterrupt

    assert answers.call(ends, [[]]).results == (answers.Raised("SystemExit", "3"),)
    assert answers.call(speechless, [[]]).results == (answers.Raised("Unspeakable", ""),)
    with pytest.raises(KeyboardInterrupt):
        answers.call(stopped, [[]])


def test_results_of_other_cases_are_no_answer() -> None:
    """Whoever sends them did not call the function as the check does."""
    with pytest.raises(ValueError, match="1 results of 4 cases"):
        diagnose.diagnose(function("lambda x: x", [[1], [2], [3], [4]]), answers.Calls((1,), False))


def test_a_run_without_a_value_is_told() -> None:
    """A lab's check of the learner's own run, where the run has none."""
    for value, words in ((None, "no value"), (math.nan, "nan"), ("none", "none")):
        with pytest.raises(BadInput, match=f"found {words}, expected what your own run gave"):
            said(BYTES, 3.0, value)


def test_a_function_gets_its_own_copy_of_the_arguments() -> None:
    """A function that changes its argument spoils no later call."""
    one = function("lambda items: sum(items)", [[[1, 2]], [[3]], [[]], [[4, 4]]])
    assert said(one, lambda items: sum(items.pop() for _ in range(len(items)))).outcome == "correct"
    assert said(one, sum).outcome == "correct"


def test_bad_input_may_be_what_a_function_has_to_refuse() -> None:
    """Where the reference raises, the same exception is right and a value is not."""
    one = function("lambda a, b: a / b", [[1, 2], [4, 2], [1, 0], [9, 3]])
    assert said(one, lambda a, b: a / b).outcome == "correct"
    assert said(one, lambda a, b: a / b if b else 0).kind == "accepts-bad-input"


plain_forms = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.fractions() | st.text(max_size=30) | st.just(...),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(plain_forms)
def test_plain_forms_survive_json(plain: Any) -> None:
    """Encoding and decoding gives back the same value of the same type."""
    import json

    back = answers.decode(json.loads(json.dumps(answers.encode(plain))))
    assert repr(back) == repr(plain)


@pytest.mark.parametrize(("answer", "kind"), [(5e-324, "too-small"), (-5e-324, "too-small"), (1.7e308, "too-large"), (-1.7e308, "too-large")])
def test_a_ratio_that_no_float_holds_is_told(answer: float, kind: str) -> None:
    """The smallest and the largest numbers there are get an order of magnitude, not an exception."""
    assert slips.off(answer, 1e6 if kind == "too-small" else 1e-6, "B")[0] == kind


@given(plain_forms)
def test_any_answer_gets_feedback(answer: Any) -> None:
    """Whatever is handed in, the check answers in one of three outcomes and does not raise."""
    for one in (BYTES, DOUBLE, exercise(["a", "b"], kind="find"), exercise({"a": 1.5, "b": "x"}, kind="judge"), exercise(True), exercise("w")):
        assert said(one, answer).outcome in ("not attempted", "not yet", "correct")


@given(st.text(max_size=40) | st.from_regex(r"[-+~≈]?\d{1,6}([.,]\d+)?(e\d{1,5})? ?[a-zA-Z/%*^() ]{0,12}", fullmatch=True))
def test_text_is_read_or_refused(text: str) -> None:
    """Any text either gives a number in the unit or is refused with a kind; nothing else escapes."""
    try:
        assert answers.is_number(reading.number(text, "GB/s"))
    except reading.Unreadable as error:
        assert error.kind and error.says


@given(st.floats(1e-6, 1e12), st.sampled_from(["", "B", "ms", "GB/s", "%"]), st.floats(1e-9, 1e9))
def test_generic_feedback_never_holds_the_answer(expected: float, unit: str, ratio: float) -> None:
    """However wrong a number is, what is said about it has no digit of the right one."""
    says = said(exercise(expected, unit=unit), expected * ratio).says
    for written in (f"{expected:.4g}", f"{expected:.6f}", f"{expected:,.0f}"):
        assert len(written) < 5 or written not in says


@pytest.mark.parametrize("document", [
    ["int", 5], ["float", "zz"], ["list", 3], ["fraction", "0x1", "0x0"], {}, None, ["map", [[1]]], ["calls", [], 1], [["list"] * 99],
    ["int", hex(2**10_001)], ["list", [["text", "x" * 9_999]] * 900], ["list", [["list", [["nothing"]] * 900]] * 900],
])  # fmt: skip
def test_what_is_no_plain_form_is_refused(document: Any) -> None:
    """The grader decodes only what encode writes."""
    with pytest.raises(ValueError):
        answers.decode(document)


@pytest.mark.parametrize(
    ("unit", "target", "factor"),
    [("MiB", "B", 2**20), ("Gbps", "GB/s", Fraction(1, 8)), ("KB", "B", 1000), ("%", "", Fraction(1, 100)), ("requests/s", "1/s", 1), ("µs", "ms", Fraction(1, 1000))],
)  # fmt: skip
def test_units_convert_exactly(unit: str, target: str, factor: Any) -> None:
    """Factors between units are exact, with bits apart from bytes and 1000 from 1024."""
    assert units.factor(unit, target) == factor


ENTRY = """notebook: "02"
exercises:
  - id: "2.1"
    kind: compute
    title: t
    expected: 3
    source: s
    label: hypothetical
    hints: [a, b]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: compute", "kind: guess", r"exercise 2\.1\.kind: found 'guess'"),
        ("title: t", "titel: t", r"exercise 2\.1\.title: found no such key"),
        ("    source: s", "    source: s\n    colour: red", r"exercise 2\.1\.colour: found an unknown key"),
        ("expected: 3", "points: 2", "expected is missing"),
        ("label: hypothetical", "label: guessed", r"exercise 2\.1\.label"),
        ('id: "2.1"', 'id: "3.1"', "exercise 3.1 does not belong to notebook 02"),
        ('id: "2.1"', "id: 2.1", r"2\.1\.id"),
        ("hints: [a, b]", "hints: [a]", r"2\.1\.hints"),
        ("title: t", "title: t\n    title: u", "a second time"),
        ('notebook: "02"', 'notebook: "03"', "."),
        ("kind: compute", "kind: implement", "reference"),
        ("notebook:", "notebook: [", "expected YAML"),
        ("hints: [a, b]", "hints: [a, b]\n    tolerance: {rel: 0.1, abs: 2}", "either rel or abs"),
    ],
)  # fmt: skip
def test_a_slip_in_the_registry_is_refused_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Unknown keys, missing values, foreign ids and doubled keys are refused by file and key."""
    path = tmp_path / "02.yaml"
    path.write_text(ENTRY)
    assert list(exercises.load(path)) == ["2.1"]
    path.write_text(ENTRY.replace(old, new, 1))
    with pytest.raises(BadInput, match=message) as caught:
        exercises.load(path)
    assert str(path) in str(caught.value)


def test_a_course_without_registry_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where data/exercises is not found, the message says where it was looked for."""
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))
    with pytest.raises(BadInput, match="no data/exercises"):
        checks.evaluate("2.1", 3)


@pytest.fixture
def small_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "exercises").mkdir(parents=True)
    (tmp_path / "data" / "exercises" / "02.yaml").write_text(ENTRY)
    monkeypatch.setenv(exercises.COURSE, str(tmp_path))


@pytest.mark.usefixtures("small_course")
def test_hints_come_one_at_a_time_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Each call gives the next hint; the last says that it is the last, and stays."""
    checks._hints_given.clear()
    for _ in range(3):
        checks.show_hint("2.1")
    assert capsys.readouterr().out.splitlines() == [
        "2.1 hint 1 of 2: a",
        "2.1 hint 2 of 2 (the last one): b",
        "2.1 hint 2 of 2 (again: there is no further one): b",
    ]


@pytest.mark.usefixtures("small_course")
def test_an_unknown_exercise_is_named_with_those_that_exist() -> None:
    """A wrong id says which ids there are."""
    with pytest.raises(BadInput, match=r"'2\.7', expected one of 2\.1"):
        checks.evaluate("2.7", 3)
    with pytest.raises(BadInput, match="'two'"):
        checks.evaluate("two", 3)
    with pytest.raises(BadInput, match="'9{40}'"):
        checks.evaluate("9" * 5000, 3)


def test_guesses_are_kept_and_never_marked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess is kept and shown beside what came out; a typing slip or a missing guess is told."""
    monkeypatch.delenv(predictions.FILE, raising=False)
    predictions._kept.clear()
    predictions.show({})
    predictions.keep("2.a", ..., None)
    predictions.keep("2.b", "up", ["up", "down"])
    predictions.keep("2.c", "sideways", ["up", "down"])
    predictions.keep("2.a", 30, None)
    predictions.show({"2.a": 27.2144})
    lines = capsys.readouterr().out.splitlines()
    for slip in ("ten", [3, 1, 1], [2, 1], [2, 1, ...], 5):
        predictions.keep("2.b", slip, range(3), 3)
        assert "2.b not kept: " in capsys.readouterr().out and predictions._kept["2.b"] == "up"
    predictions.keep("2.d", [2, "1", 0.0], range(3), 3)
    assert "2.d guess kept: [2, 1, 0]" in capsys.readouterr().out
    assert lines[0].startswith("No guesses yet")
    assert lines[1].startswith("2.a no guess yet")
    assert 'none of the choices: "up", "down"' in lines[3]
    assert [line.split() for line in lines[5:]] == [["guess", "you", "said", "what", "came", "out"], ["2.b", "up"], ["2.a", "30", "27.2144"]]


def test_a_later_kernel_knows_the_guesses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a file, a guess outlives its kernel and shows in the later notebook that asks for it, and only there."""
    monkeypatch.setenv(predictions.FILE, str(tmp_path / "new" / "guesses.json"))
    monkeypatch.setattr(predictions, "_kept", {})
    predictions.keep("0.a", "no")
    predictions.keep("2.a", 8)
    predictions._kept.clear()  # what a restart does
    predictions.keep("9.a", "yes")
    capsys.readouterr()
    predictions.show({"9.a": "not yet"})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["guess", "9.a"]
    predictions.show({"9.a": "not yet", "0.a": "it depends"})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [["0.a", "no"], ["9.a", "yes"]]
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["guesses.json"]


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"2.a": 3}', "{", None])
def test_a_spoilt_file_of_guesses_is_no_error(
    content: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that holds something else, or a place that cannot be written, leaves the notebook as it was."""
    file = tmp_path / "guesses.json" / ("below" if content is None else "")
    (tmp_path / "guesses.json").write_text(content or "")
    monkeypatch.setenv(predictions.FILE, str(file))
    monkeypatch.setattr(predictions, "_kept", {})
    predictions.keep("2.b", "up")
    predictions.keep(None, "x" * 10_000 + "\ud800")  # type: ignore[arg-type]
    predictions.show({"2.b": "up"})
    shown = capsys.readouterr().out
    assert "2.b    up" in shown and len(shown) < 2000
    assert list(tmp_path.iterdir()) == [tmp_path / "guesses.json"]


def test_feedback_says_the_outcome_in_words_in_every_form() -> None:
    """Text and HTML begin with the outcome; HTML is escaped and takes its colours from the theme."""
    for outcome in ("not attempted", "not yet", "correct"):
        one = Feedback("2.1", outcome, says="<b>1 & 2</b>", points=2)
        assert one.text.startswith(f"2.1 {outcome}")
        assert f"<strong>2.1 {outcome}</strong>" in one.html
        assert "<b>" not in one.html and "var(--jp-ui-font-color1, inherit)" in one.html
    assert Feedback("2.1", "correct", says="Why.", points=2).text == "2.1 correct (2 points). Why."


def test_the_first_line_of_a_notebook_is_quick() -> None:
    """`from pdlab.course import *` imports no heavy library and offers what notebooks use."""
    code = (
        "import sys\nfrom pdlab.course import *\n"
        "heavy = {'pandas', 'numpy', 'matplotlib', 'pint', 'pydantic', 'yaml', 'IPython', 'nbformat'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(all(map(callable, (check, hint, predict, guesses, show_table, show_figure, figure))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
