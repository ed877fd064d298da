"""From an answer's plain form to one of three outcomes, with the kind of mistake.

The order is: nothing yet, right, a mistake that the exercise anticipates, a mistake that anyone
makes with units and formats, and last how far off it is.  No text holds the answer.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from typing import Any

from pdlab.course import answers, exercises, slips
from pdlab.course.answers import Bag, Calls, Quantity, Raised, is_nothing
from pdlab.course.compare import Rules, in_words, matches
from pdlab.course.exercises import Exercise, Tolerance
from pdlab.course.feedback import Feedback
from pdlab.course.reading import (
    Unreadable, either_comma, key, listed, named, number, one_dot, small_b, spelled, thousands_dot, truth, without_dot, word,
)  # fmt: skip
from pdlab.errors import BadInput

_UNSET: Any = object()
MOST_SAID = 800  # characters; what was handed in may stand in it, whole


def diagnose(exercise: Exercise, plain: Any, expected: Any = _UNSET) -> Feedback:
    """The feedback on a plain form; ``expected`` replaces the registry's value (a lab's own run)."""
    if not exercise.is_function and not exercise.checker:
        plain = in_words(plain, exercise.expected, Rules.of(exercise))
    if is_nothing(plain) and not (exercise.expected in ([], {}, "") and plain is not Ellipsis):
        return Feedback(exercise.id, "not attempted")
    if exercise.is_function:
        slip = _function(exercise, plain)
    elif exercise.checker:
        slip = _checked(exercise, plain)
    else:
        stored = answers.read(exercise.expected)
        wanted = stored if expected is _UNSET else answers.read(expected)
        finite = answers.is_number(wanted) and answers.is_finite(wanted)
        if wanted is None or wanted is Ellipsis or answers.is_number(stored) and not finite:
            raise BadInput("no value" if wanted is None or wanted is Ellipsis else spelled(wanted)[:80], "what your own run gave", f"check({exercise.id!r})", "The run may be incomplete; run it again.")
        slip = _value(exercise, plain, wanted, live=not matches(wanted, stored, Rules.of(exercise)))
    if slip is None:
        return Feedback(exercise.id, "correct", says=exercise.why.strip(), points=exercise.points)
    kind, says = slip
    says = says.strip()
    return Feedback(exercise.id, "not yet", kind, says if len(says) <= MOST_SAID else says[: MOST_SAID - 1] + "…")


def _checked(exercise: Exercise, plain: Any) -> slips.Slip | None:
    """The verdict of the exercise's own checker, which looks at ordinary Python values."""
    module, _, name = (exercise.checker or "").partition(":")
    judge = getattr(importlib.import_module(module), name)
    try:
        finding = judge(_ordinary(plain))
    except Exception as error:  # a checker meets every shape that a learner can think of
        return "unreadable", f"{named(plain)} that cannot be read as asked ({type(error).__name__}); keep the form of the stub"
    return None if finding.ok else (finding.kind, finding.says)


def _ordinary(plain: Any) -> Any:
    match plain:
        case Quantity() | Raised() | Calls() | answers.Other():
            return spelled(plain)
        case Bag(items):
            return [_ordinary(item) for item in items]
        case list():
            return [_ordinary(item) for item in plain]
        case dict():
            return {k: _ordinary(v) for k, v in plain.items()}
    return plain


def _value(exercise: Exercise, plain: Any, expected: Any, live: bool) -> slips.Slip | None:
    rules = Rules.of(exercise)
    if matches(plain, expected, rules):
        return None
    if slip := _misread(plain, expected, rules):
        return slip
    for mistake in exercise.mistakes:
        if live and "expected" not in mistake.answer:
            continue  # a wrong value of the recorded run says nothing about the learner's own
        where = f"exercise {exercise.id}.mistakes"
        wrong = answers.read(exercises.evaluate(mistake.answer, where, expected=_ordinary(expected)))
        if _is_mistake(plain, wrong, mistake.match, rules, expected):
            return mistake.kind, mistake.says
    return _slip(exercise, plain, expected, rules)


def _misread(plain: Any, expected: Any, rules: Rules) -> slips.Slip | None:
    """A number whose spelling says something else than was meant, before anything is made of its size."""
    if not answers.is_number(expected) or not answers.is_finite(expected):
        return None
    if expected == int(expected) and abs(expected) >= 1000 and (says := thousands_dot(plain)):
        return "thousands-dot", says
    if (dotless := without_dot(plain)) and matches(dotless, expected, rules):
        return "thousands-dot", one_dot(plain)
    if expected != int(expected) and (says := either_comma(plain)):
        return "decimal-comma", says
    if (in_bytes := small_b(plain, rules.unit)) and matches(in_bytes, expected, rules):
        return "bits-for-bytes", "a small b stands for bits; the byte has a capital B"
    return None


def _is_mistake(plain: Any, wrong: Any, match: str | None, rules: Rules, expected: Any) -> bool:
    if isinstance(plain, dict) and isinstance(wrong, dict) and match != "exact":
        said = {key(k): v for k, v in plain.items()}
        right = {key(k): v for k, v in expected.items()} if isinstance(expected, dict) else {}
        return bool(wrong) and all(
            key(k) in said and matches(said[key(k)], v, _to_three_digits(rules.at(k), v, right.get(key(k)))) for k, v in wrong.items()
        )
    if match == "contains" and (items := _items(plain)) is not None:
        return all(any(matches(item, one, rules) for item in items) for one in _items(wrong) or [wrong])
    return matches(plain, wrong, _to_three_digits(rules, wrong, expected))


def _to_three_digits(rules: Rules, wrong: Any, expected: Any) -> Rules:
    """A wrong number with decimals is recognised when it is written to three digits, unless the right one is near."""
    if not (answers.is_number(wrong) and answers.is_finite(wrong) and answers.is_number(expected)) or wrong == int(wrong):
        return rules
    if abs(float(wrong) - float(expected)) < 0.05 * abs(float(wrong)):
        return rules
    return replace(rules, tolerance=Tolerance(rel=0.005))


def _items(plain: Any) -> list[Any] | None:
    if isinstance(plain, Bag):
        return list(plain.items)
    return plain if isinstance(plain, list) else None


def _slip(exercise: Exercise, plain: Any, expected: Any, rules: Rules) -> slips.Slip:
    """A mistake that the exercise does not anticipate."""
    if isinstance(expected, dict):
        return _mapping_slip(exercise, plain, expected, rules)
    if isinstance(expected, list):
        return _list_slip(exercise, plain, expected, rules)
    if isinstance(expected, bool):
        return _truth_slip(plain)
    if isinstance(expected, str):
        return _word_slip(exercise, plain, rules)
    if slip := _misread(plain, expected, rules):
        return slip
    try:
        value = number(plain, rules.unit)
        if rules.choices and not any(matches(choice, value, rules) for choice in rules.choices):
            return "not-a-choice", f"{spelled(plain)!r} is none of the choices: {listed(rules.choices)}"
        if rules.choices:
            return "other-choice", "that is another one of the choices"
        return slips.off(value, expected, rules.unit, computed=exercise.kind != "find")
    except Unreadable as error:
        return error.kind, error.says


def _truth_slip(plain: Any) -> slips.Slip:
    try:
        truth(plain)
    except Unreadable as error:
        return error.kind, error.says
    return "other-way", "it is not so here. Ask which condition it rests on, and whether that holds"


def _word_slip(exercise: Exercise, plain: Any, rules: Rules) -> slips.Slip:
    if isinstance(plain, str) and re.match(r"\s*[+-]?\d+,\d", plain):
        return "decimal-comma", f"{plain.strip()[:60]!r} looks like a decimal comma; write a point"
    if not isinstance(plain, str | bool) and rules.choices:
        return "wrong-type", f"found {named(plain)}; one of: {listed(rules.choices)}"
    if rules.choices and rules.meant(plain) not in map(word, rules.choices):
        return "not-a-choice", f"{spelled(plain)!r} is none of the choices: {listed(rules.choices)}"
    return "other-word", f"{spelled(plain)!r} is not it. hint({exercise.id!r}) gives the first step"


def _list_slip(exercise: Exercise, plain: Any, expected: list[Any], rules: Rules) -> slips.Slip:
    known = set(map(word, rules.choices))
    if isinstance(plain, str) and len(expected) > 1 and rules.meant(plain) not in known and (re.search(r"[\s,;]", plain.strip()) or set(word(plain)) <= known):
        form = "['…', '…'], each part in quotes of its own" if isinstance(expected[0], str) else "[…, …]"
        return "wrong-type", f"found {named(plain)}; give a list, as in {form}"
    items = _items(plain) if _items(plain) is not None else list(plain) if isinstance(plain, dict) else [plain]
    if any(map(is_nothing, items)):
        return "incomplete", f"{sum(map(is_nothing, items))} of the {len(items)} places are still `...`"
    if rules.in_order(expected):
        if isinstance(plain, Bag):
            return "wrong-type", "a set has no order, and the order matters here: give a list"
        if len(items) != len(expected):
            return "wrong-count", f"found {len(items)} values, and their number is not right"
        return _each(exercise, dict(enumerate(items, 1)), dict(enumerate(expected, 1)), rules, "value")
    for item in items:
        if rules.choices and isinstance(item, str) and rules.meant(item) not in known:
            return "not-a-choice", f"{spelled(item)!r} is none of the choices: {listed(rules.choices)}"
    right = sum(any(matches(item, one, rules) for item in items) for one in expected)
    wrong = sum(not any(matches(item, one, rules) for one in expected) for item in items)
    if wrong and right == len(expected):
        return "too-many", f"{wrong} of the {len(items)} that you name do{'es' * (wrong == 1)} not belong"
    if wrong:
        return "mixed", f"{right} of the {len(items)} that you name belong{'s' * (right == 1)}, and something is missing too"
    return "too-few", "what you name belongs, and it is not all"


def _mapping_slip(exercise: Exercise, plain: Any, expected: dict[Any, Any], rules: Rules) -> slips.Slip:
    if not isinstance(plain, dict):
        return "wrong-type", f"found {named(plain)}, and a mapping (a dict) is asked for"
    said, wanted = {key(k): v for k, v in plain.items()}, {key(k): (k, v) for k, v in expected.items()}
    if strange := [k for k in plain if key(k) not in wanted]:
        return "unknown-key", f"{spelled(strange[0])!r} is not one of the keys: {listed(expected)}"
    empty = [str(k) for folded, (k, _) in wanted.items() if is_nothing(said.get(folded, ...))]
    if empty:
        return "incomplete", f"still to be filled in: {listed(empty)}"
    return _each(exercise, {k: said[folded] for folded, (k, _) in wanted.items()}, expected, rules, "entry")


def _each(exercise: Exercise, said: dict[Any, Any], wanted: dict[Any, Any], rules: Rules, noun: str) -> slips.Slip:
    """What is wrong with several values: what they have in common, else how many are right."""
    wrong = {k: v for k, v in said.items() if not matches(v, wanted[k], rules.at(k))}
    found = {k: _slip(exercise, v, wanted[k], rules.at(k)) for k, v in wrong.items()}
    for k, (kind, says) in found.items():
        if kind in ("not-a-choice", "wrong-type", "unit-mismatch", "unknown-unit", "not-finite", "decimal-comma", "thousands-dot"):
            return kind, f"{noun} {k}: {says}"
    count = f"{len(said) - len(wrong)} of the {len(said)} are right"
    kinds = {kind for kind, _ in found.values()}
    if len(kinds) == 1 and kinds <= slips.NAMED:
        kind, says = next(iter(found.values()))
        others = "the other" if len(wrong) == 1 else "each of the others" if len(wrong) < len(said) else "both" if len(said) == 2 else "each"
        return kind, f"{count}; {others}: {says}"
    return "some-wrong", count


def _function(exercise: Exercise, plain: Any) -> slips.Slip | None:
    name = exercise.function or ""
    if not isinstance(plain, Calls):
        return "wrong-type", f"found {named(plain)}, and the function {name} itself is asked for (without calling it)"
    rules = Rules.of(exercise)
    wanted = answers.call(exercises.reference(exercise), exercise.cases).results
    if len(plain.results) != len(wanted):
        raise ValueError(f"{len(plain.results)} results of {len(wanted)} cases")
    right = _agrees(plain, wanted, rules)
    if all(right):
        return None
    for mistake in exercise.mistakes:
        wrong = exercises.evaluate(mistake.answer, f"exercise {exercise.id}.mistakes")
        if all(_agrees(plain, answers.call(wrong, exercise.cases).results, rules)):
            return mistake.kind, mistake.says
    at = right.index(False)
    result, case = plain.results[at], _spelled_call(name, exercise.cases[at])
    if isinstance(result, Raised) and isinstance(wanted[at], Raised):
        return "other-exception", f"{case} raises {result.type}, and it is an input to refuse with {wanted[at].type}"
    if isinstance(result, Raised):
        return "raises", f"{case} raises {result.type}" + (f": {result.text}" if result.text else "")
    if result is None or result is Ellipsis:
        return "no-return", f"{case} returns nothing. Is a `return` missing?"
    if isinstance(wanted[at], Raised):
        return "accepts-bad-input", f"{case} returns a value, and it is an input to refuse with {wanted[at].type}"
    kind, says = _returned(exercise, plain.results, wanted, right, rules)
    score = f"right on {sum(right)} of {len(right)} inputs; " if any(right) else ""
    return kind, f"{score}{case} returns {spelled(result)[:80]}: {says}"


def _returned(exercise: Exercise, results: tuple[Any, ...], wanted: tuple[Any, ...], right: list[bool], rules: Rules) -> slips.Slip:
    """What is wrong with a function's results: a factor or a unit is named only where it explains every wrong one."""
    wrong = [at for at, fine in enumerate(right) if not fine]
    first = wrong[0]
    slip = _slip(exercise, results[first], wanted[first], rules)
    if answers.is_number(wanted[first]) and answers.is_number(results[first]) and answers.is_finite(results[first]):
        pairs = [(results[at], wanted[at]) for at in wrong]
        numbers = all(map(answers.is_number, (number for pair in pairs for number in pair)))
        kinds = {_slip(exercise, result, want, rules)[0] for result, want in pairs} if numbers else set()
        if len(kinds) == 1 and (len(wrong) > 1 and slip[0] in slips.NAMED or slip[0] in ("rounded-too-early", "sign")):
            return slip
        return ("too-large", "that is too large") if results[first] > wanted[first] else ("too-small", "that is too small")
    if isinstance(wanted[first], str) and slip[0] == "other-word":
        return "other-word", "for these arguments another word is right"
    return slip


def _agrees(calls: Calls, wanted: tuple[Any, ...], rules: Rules) -> list[bool]:
    """Case by case, whether the results are the wanted ones; an exception may be of a kind of the wanted one."""
    return [
        isinstance(got, Raised) and want.type in (got.type, *got.bases) if isinstance(want, Raised) else matches(got, want, rules)
        for got, want in zip(calls.results, wanted, strict=True)
    ]


def _spelled_call(name: str, case: Any) -> str:
    if isinstance(case, dict):
        return f"{name}({', '.join(f'{k}={v!r}' for k, v in case.items())})"
    return f"{name}({', '.join(map(repr, case))})"
