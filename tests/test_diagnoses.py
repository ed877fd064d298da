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


@pytest.mark.parametrize("answer", ["larger batch, FP8 weights", "A; C", "a but not b", "a, not b", "AAB"])
def test_a_text_in_place_of_a_list_is_told_the_form(answer: str) -> None:
    """Several words in one text that are not all choices are asked for as a list."""
    result = said(exercise(["a", "b"], kind="find", choices=["a", "b", "larger batch"]), answer)
    assert result.kind == "wrong-type" and "give a list" in result.says


@pytest.mark.parametrize("answer", ["AB", "a b", "B, a", "a; b", "A and B", "A & B", "letter a, letter b.", "[a, b]", ["a, b"], ["AB"]])
def test_a_list_of_choices_may_be_one_text(answer: Any) -> None:
    """Letters and names of a list are read from one text where each part is a choice, the order left to the exercise."""
    assert said(exercise(["a", "b"], kind="find", choices=["a", "b", "larger batch"]), answer).outcome == "correct"
    one = exercise({"x": ["a", "b"], "y": "b"}, kind="judge", choices={"x": ["a", "b", "c"], "y": ["a", "b"]})
    assert said(one, {"x": answer, "y": "b"}).outcome == "correct"
    calls = exercise(["proxy", "decode", "prefill"], kind="find", ordered=True, choices=["proxy", "decode", "prefill"])
    for text, outcome in (("proxy, decode, prefill", "correct"), ("proxy -> decode -> prefill", "correct"), ("proxy, prefill, decode", "not yet")):
        assert said(calls, text).outcome == outcome, text


LISTS = [e for e in REGISTRY.values() if isinstance(e.expected, list) and len(e.expected) > 1 and e.choices and not e.checker]
COMMAS = [e for e in LISTS if any("," in choice for choice in e.choices)]


@pytest.mark.parametrize("one", LISTS, ids=lambda e: e.id)
def test_every_list_of_the_course_may_be_one_text(one: Exercise) -> None:
    """The right choices in one text, with commas or "and" between, are right; with one left out they are not."""
    assert len(LISTS) > 10 and len(COMMAS) < 3
    for between in (", ", " and ", "; "):
        whole, some = said(one, between.join(one.expected)), said(one, between.join(one.expected[1:]))
        assert whole.outcome == ("not yet" if one in COMMAS else "correct"), whole.text
        assert some.outcome == "not yet", some.text


def test_a_comma_inside_a_choice_parts_nothing() -> None:
    """Where choices hold commas, a text with commas has more than one reading, and the form is asked for."""
    one = exercise(["killed, fail", "frozen"], kind="find", choices=["killed, fail", "killed, retry", "frozen"])
    assert said(one, "killed, fail, frozen").kind == "wrong-type"
    assert said(one, ["killed, fail", "frozen"]).outcome == "correct"
    wrong = said(exercise(["a", "c"], kind="find", choices=["a", "b", "c"]), "AB")
    assert (wrong.outcome, wrong.kind) == ("not yet", "mixed")


@pytest.mark.parametrize(("expected", "choices", "answer"), [("decode", ["prefill", "decode"], "the decode pool"), ("prefill", ["prefill", "decode", "neither"], "Prefill side"), (128, None, "chunk 128"), (128, None, "chunks of 128"), (128, None, "chunk size 128")])
def test_harmless_words_around_an_answer(expected: Any, choices: Any, answer: str) -> None:
    """A kind of thing behind a choice, or before a number, does not change it; with another choice it is that one."""
    assert said(exercise(expected, kind="find", **({"choices": choices} if choices else {})), answer).outcome == "correct"
    if choices:
        assert said(exercise(expected, kind="find", choices=choices), f"not {answer}").outcome == "not yet"


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
        ("3.12", "larger batch, fewer KV heads", "too-few"), ("L2.1", "A, C, and perhaps F", "wrong-type"),
    ],
)  # fmt: skip
def test_what_a_newcomer_was_told(name: str, answer: Any, kind: str) -> None:
    """Answers that were once explained with the wrong reason."""
    result = checks.evaluate(name, answer)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text


def test_setup_written_as_one() -> None:
    """A constant in place of an argument is named as that."""
    assert checks.evaluate("3.2", lambda b, r, s: 1 + b / (r * 1e9) * 1000).kind == "setup-fixed"


UNITS = [
    ("1.1", [f"206.1 {u}" for u in ("FLOP/B", "FLOP/byte", "FLOPs/byte", "FLOP per byte", "operations per byte")]),
    ("7.4", [f"8.29{u}" for u in (" requests/s", "\u00a0requests/s", "requests/s", " req/s", " rps", " requests per second", " requests a second", " /s", " 1/s", " Hz")]),
    ("4.11", ["11.89 req/s", "11.89 rps"]),
    ("3.4", ["1 449 tokens", "1\u202f449", "1,449 tokens"]),
    ("5.4", [{"aggregated": "282.21 GB", "disaggregated": "282209550336 B"}]),
    ("1.8", [{"line": "tpot", "ms": "40 ms"}, {"line": "tpot", "ms": "0.04 s"}]),
    ("4.7", [{"prefill GPUs": "5 GPUs", "decode GPUs": 3, "rps per GPU": "3.5 requests/s"}]),
    ("6.12", [{"A": f"4{u}", "A stopped by": "queue", "B": "not monotonic", "C": "sample too small"} for u in (" requests/s", " req/s", " rps")]),
    ("L2.8", [{"aggregated": "3 requests/s", "disaggregated": "3\u00a0requests per second", "claim": "open", "longest_gaps": "disaggregated", "ttft": "aggregated"}]),
    ("L2.11", [{"side": "prefill", "idle_percent": p, "found_by": "every thread"} for p in ("94 %", "94%", "94 per cent", "94 percent", "94\u00a0%", 94)]),
    ("L5.7", [{"gap_ms": "60 ms", "tpot_ms": "0.02 s"}]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, them in UNITS for answer in them])
def test_the_unit_asked_for_may_be_written(name: str, answer: Any) -> None:
    """A number with the unit that the text names is as right as the bare number, however the unit is spelled."""
    assert checks.evaluate(name, answer).outcome == "correct", checks.evaluate(name, answer).text


def test_a_function_may_return_the_unit() -> None:
    """What a function returns is read like any answer: a number, or a text with its unit."""
    floor = checks.evaluate("1.2", lambda f, b, p, w: f"{max(f / p, b / w) * 1000:.2f} ms")
    gaps = checks.evaluate("6.4", lambda ms, n: f"{(ms[-1] - ms[0]) / (sum(n) - 1)} ms" if sum(n) > 1 else "undefined")
    pools = checks.evaluate("4.6", lambda p, d, a, b: f"{min(p * a, d * b) / (p + d)} req/s")
    assert [found.outcome for found in (floor, gaps, pools)] == ["correct"] * 3, floor.text


def test_a_number_in_a_unit_has_that_unit() -> None:
    """Wherever a text asks for a rate or a time, the registry knows the unit, so that no learner is refused for writing it."""
    root, seen = exercises.folder().parents[1], 0
    pages = {s.number: s.path.read_text(encoding="utf-8") for s in sources(root)}
    for one in REGISTRY.values():
        if not isinstance(one.expected, int | float) or isinstance(one.expected, bool):
            continue
        text = re.split(r"# %%", pages[one.notebook].partition(f'exercise="{one.id}"')[0])[-2]
        question = next((line for line in reversed(text.splitlines()) if line.rstrip().endswith(("?", "decimals.", "**."))), "")
        for words, unit in (("in requests a second", "1/s"), ("**bytes**", "B"), ("in ms", "ms")):
            if words in question:
                seen += 1
                assert diagnose.diagnose(one, answers.read(f"{one.expected} {unit}")).outcome == "correct", one.id
    assert seen >= 5


@pytest.mark.parametrize(
    ("name", "answer", "kind"),
    [
        ("L2.5", "277.217.280", "thousands-dot"), ("7.3", {"chunk": "2.048", "why_not_4096": "gap", "why_not_8192": "refused"}, "thousands-dot"),
        ("7.3", {"chunk": 2.048, "why_not_4096": "gap", "why_not_8192": "refused"}, "thousands-dot"),
        ("1.8", {"line": "tpot", "ms": 0.04}, "unit-prefix"), ("8.4", "0,15", "decimal-comma"),
        ("6.2", [1, 2, 3, 4], "counted-from-zero"), ("6.2", [180, 205, 230, 290], "times-for-frames"),
        ("6.3", {"ttft": 180, "tpot": 36.7, "max_itl": 60, "e2e": 290}, "frames-for-tokens"),
        ("6.6", {"error_rate": 5, "among_successes": 94.7, "over_all": 90}, "percent-for-fraction"),
        ("L4.3", {"requests": 3, "kind": "short", "condition": "share"}, "other-trace"),
        ("L4.8", {"claim": "supported", "fewest_bytes": "all-local", "idle_core": "all-local", "evidence": "measured"}, "nothing-sent"),
    ],
)  # fmt: skip
def test_a_likely_slip_is_told_what_it_is(name: str, answer: Any, kind: str) -> None:
    """Dots between thousands, another prefix, per cent to three digits, a count from zero: each is called what it is."""
    result = checks.evaluate(name, answer)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text


@pytest.mark.parametrize(
    ("name", "wrong", "kind"),
    [
        ("7.2", lambda p: ([r for r, v in p if v == "pass"] or [0])[-1], "not-sorted"),
        ("7.2", lambda p: max([r for r, v in p if v == "pass" and all(w != "fail" for s, w in p if s < r)], default=0), "unjudged-skipped"),
        ("L2.7", lambda p: ([r for r, ok in p if ok] or [0])[-1], "order"), ("L4.2", lambda p, h, b: max(0, h - 1) * b, "always-one-less"),
        ("8.3", lambda p, c: "local" if p - c < 2048 and (p - c) / p <= 0.7 else "remote", "edge-inclusive"),
        ("8.3", lambda p, c: "local" if p - c <= 2048 and (p - c) / p < 0.7 else "remote", "edge-inclusive"),
        ("7.2", lambda p: 2, "too-small"), ("L4.2", lambda p, h, b: h * b // 2, "too-small"),
    ],
)  # fmt: skip
def test_a_function_is_told_no_factor_from_one_result(name: str, wrong: Any, kind: str) -> None:
    """One result may be half of the right one by chance; a factor is named only where it explains all of them."""
    result = checks.evaluate(name, wrong)
    assert (result.outcome, result.kind) == ("not yet", kind), result.text
    assert "half" not in result.says and "factor" not in result.says


def test_a_function_wrong_by_one_factor_is_told_so() -> None:
    """Where every result is half of the right one, that is said."""
    one = Exercise(id="2.2", kind="implement", title="t", function="f", reference="lambda x: 200 * x", cases=([1], [3], [5], [7]), source="s", label="hypothetical", hints=("a", "b"))
    assert diagnose.diagnose(one, answers.call(lambda x: 100 * x, one.cases)).kind == "factor-two"


@pytest.mark.parametrize("expected", [1, 2, 4, 16, 60, 98])
def test_small_whole_numbers_are_no_guess_at_a_factor(expected: int) -> None:
    """Of small counts one is often half of another."""
    for wrong in (expected * 2, expected / 2):
        assert "half" not in said(exercise(expected), wrong).says and "twice" not in said(exercise(expected), wrong).says


@pytest.mark.parametrize(
    ("name", "answer", "telling"),
    [
        ("8.4", 0.15, ("word", "number")), ("8.4", [1, 2], ("word",)), ("8.9", {"100 GB/s": 295, "25 GB/s": 1000, "10 GB/s": "never"}, ("word", "number")),
        ("6.2", [2, 3, 4], ("4", "four")), ("6.2", [1, 2, 3, 4, 5, 6], ("4 ", "four")),
    ],
)  # fmt: skip
def test_kind_and_count_are_not_given_away(name: str, answer: Any, telling: tuple[str, ...]) -> None:
    """Where finding out that there is none, or how many there are, is the task, the feedback does not say it."""
    result = checks.evaluate(name, answer)
    assert result.outcome == "not yet" and not any(words in result.says for words in telling), result.text


def test_slips_of_the_recorded_run_are_told_on_the_recorded_run() -> None:
    """A lab hands over its own run's value; where that is the recorded one, the listed mistakes are recognised."""
    one = REGISTRY["L4.5"]
    for mistake in one.mistakes:
        wrong = exercises.evaluate(mistake.answer, "test", expected=one.expected)
        assert checks.evaluate("L4.5", wrong, one.expected).kind == mistake.kind
    assert checks.evaluate("L4.5", 1000, one.expected + 1).outcome == "not yet"
