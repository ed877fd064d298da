"""Whether a plain form is the expected one, under an exercise's unit, tolerance and spelling."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pdlab.course.answers import Bag, is_finite, is_number
from pdlab.course.exercises import Exercise, Tolerance
from pdlab.course.reading import NEGATIONS, Unreadable, bare, key, number, parts, split, truth, word

EXACT_REL, FLOAT_REL = 1e-12, 1e-9  # rounding in the last bits is never a mistake
MOST_CHOICE = 200  # characters; a longer text is no choice, and not worth folding


@dataclass(frozen=True)
class Rules:
    """How answers to one exercise are compared."""

    unit: str = ""
    tolerance: Tolerance | None = None
    ordered: bool | None = None
    choices: tuple[str, ...] = ()
    choices_by_key: tuple[tuple[Any, tuple[str, ...]], ...] = ()
    unit_by_key: tuple[tuple[Any, str], ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, exercise: Exercise) -> Rules:
        by_key = exercise.choices if isinstance(exercise.choices, dict) else {}
        return cls(
            exercise.unit if isinstance(exercise.unit, str) else "",
            exercise.tolerance,
            exercise.ordered,
            () if by_key else _worth_naming(exercise.choices),
            tuple((key(k), _worth_naming(v)) for k, v in by_key.items()),
            tuple((key(k), v) for k, v in exercise.unit.items()) if isinstance(exercise.unit, dict) else (),
            tuple((word(other), word(meant)) for meant, others in exercise.synonyms.items() for other in others),
        )

    def at(self, mapping_key: Any) -> Rules:
        """The rules for one entry of a mapping."""
        folded = key(mapping_key)
        return replace(self, choices=dict(self.choices_by_key).get(folded, self.choices), unit=dict(self.unit_by_key).get(folded, self.unit))

    @cached_property
    def _known(self) -> dict[str, str]:
        return {word(choice): word(choice) for choice in self.choices} | dict(self.synonyms)

    def meant(self, plain: Any) -> str:
        """A word, with its synonyms made one.

        An article or a label before a choice does not change it ("letter B"), nor does a remark in brackets
        behind it, unless that names another: "measured (recorded)".  Where one choice alone begins so, its
        beginning is enough: "bytes" for "bytes on the wire".
        """
        if isinstance(plain, str) and len(plain.strip()) > MOST_CHOICE:
            return plain
        known = self._known
        if not isinstance(plain, str) or word(plain) in known:
            return known.get(word(plain), word(plain))
        if word(bare(plain)) in known:
            return known[word(bare(plain))]
        if remarked := re.fullmatch(r"([^()]+)\(([^()]*)\)\s*", plain):
            said, remark = word(remarked[1]), word(remarked[2])
            if said in known and not any(other in remark for other, means in known.items() if means != known[said]):
                return known[said]
        said = parts(plain)
        begun = [choice for choice in self.choices if parts(choice)[: len(said)] == said]
        return word(begun[0]) if len(begun) == 1 and _is_enough(said, parts(begun[0])) else word(plain)

    def allows(self, said: str, expected: str) -> bool:
        """Whether a word is one that the exercise knows: a choice, a synonym, or what is expected."""
        return word(said) in map(word, (*self.choices, *(other for other, _ in self.synonyms), expected))

    def in_order(self, expected: list[Any]) -> bool:
        """Whether the order of a list counts: unless told, numbers are in order and words are not."""
        if self.ordered is not None:
            return self.ordered
        return not all(isinstance(item, str) for item in expected)


def _worth_naming(choices: Any) -> tuple[str, ...]:
    """The choices, unless there is only one: to name it would be to give it away."""
    return tuple(choices) if len(choices) > 1 else ()


def _is_enough(said: list[str], choice: list[str]) -> bool:
    """Whether the first words of a choice say it: more than a syllable or a *not*, and no *not* in what is left out."""
    return len("".join(said)) > 3 and not NEGATIONS & {*choice[len(said) :]} and not {*said} <= NEGATIONS


def in_words(plain: Any, expected: Any, rules: Rules) -> Any:
    """An answer in the words of the exercise, where it knows them: None as "none", infinity as "infinity", "A, C" as a list."""
    match plain:
        case str() | [str()] if isinstance(expected, list) and (listed := _listed(plain, expected, rules)):
            return listed
        case None if isinstance(expected, str) and rules.allows("none", expected):
            return "none"
        case float() if plain == math.inf and isinstance(expected, str) and rules.allows("infinity", expected):
            return "infinity"
        case list():
            return [in_words(item, next(iter(expected), "") if isinstance(expected, list) else "", rules) for item in plain]
        case dict():
            wanted = {key(k): v for k, v in expected.items()} if isinstance(expected, dict) else {}
            return {k: in_words(v, wanted.get(key(k)), rules.at(k)) for k, v in plain.items()}
    return plain


def _listed(plain: str | list[str], expected: list[Any], rules: Rules) -> list[str]:
    """The choices of a list that was given as one text; empty where no list of choices is asked for."""
    text = plain if isinstance(plain, str) else plain[0]
    if len(text) > MOST_CHOICE or not all(isinstance(item, str) for item in expected):
        return []
    return split(text, [*rules.choices, *(other for other, _ in rules.synonyms)])


def matches(plain: Any, expected: Any, rules: Rules) -> bool:
    """Whether the answer is right."""
    if isinstance(expected, dict):
        if not isinstance(plain, dict):
            return False
        said = {key(k): v for k, v in plain.items()}
        wanted = {key(k): (k, v) for k, v in expected.items()}
        return said.keys() == wanted.keys() and all(matches(said[f], v, rules.at(k)) for f, (k, v) in wanted.items())
    if isinstance(expected, list):
        return _list_matches(plain, expected, rules)
    if isinstance(expected, Bag):
        return _list_matches(plain, list(expected.items), replace(rules, ordered=False))
    try:
        if isinstance(expected, bool):
            return truth(plain) == expected
        if isinstance(expected, str):
            return isinstance(plain, str | bool) and rules.meant(plain) == rules.meant(expected)
        return is_number(expected) and near(number(plain, rules.unit), expected, rules.tolerance)
    except Unreadable:
        return False


def _list_matches(plain: Any, expected: list[Any], rules: Rules) -> bool:
    items = list(plain.items) if isinstance(plain, Bag) else plain if isinstance(plain, list) else [plain]
    if rules.in_order(expected):
        if isinstance(plain, Bag) or len(items) != len(expected):
            return False
        return all(matches(item, one, rules) for item, one in zip(items, expected, strict=True))
    return all(any(matches(i, e, rules) for i in items) for e in expected) and all(
        any(matches(i, e, rules) for e in expected) for i in items
    )


def near(value: Any, expected: Any, tolerance: Tolerance | None) -> bool:
    """Whether two numbers are the same within the tolerance; without one, to the last bits."""
    if value == expected:
        return True
    if not (is_finite(value) and is_finite(expected)):
        return False
    try:
        gap, size = abs(float(value) - float(expected)), abs(float(expected))
    except OverflowError:
        return False
    if tolerance is None:
        whole = expected == int(expected)
        if whole and isinstance(value, int):
            return False
        return gap <= size * (EXACT_REL if whole else FLOAT_REL)
    # The last bit must not decide at the edge: 0.30005 - 0.3 is a little over 0.00005.
    return gap <= (tolerance.abs if tolerance.abs is not None else tolerance.rel * size) * (1 + FLOAT_REL)
