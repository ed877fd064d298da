"""Plain forms read as what an exercise asks for: a number in a unit, a yes or no, a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pdlab.course import units
from pdlab.course.answers import Bag, Calls, Other, Quantity, Raised, is_number

_NUMBER = re.compile(
    r"[~≈=×x]?\s*(?P<number>[+\-−]?(?:\d{1,3}(?:,\d{3})+|[1-9]\d{0,2}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d[\d_]*|(?=\.\d))(?:\.\d*)?(?:[eE][+\-]?\d{1,3})?)"
    r"(?:\s*/\s*(?P<under>\d+))?\s*(?P<unit>.*)"
)
# A comma that parts no groups of three digits: 8,8643 and 0,125, not 1,449 or 655,360,000.
_DECIMAL_COMMA = re.compile(r"[~≈=]?\s*[+\-−]?(?!(?:[1-9]\d{0,2}(?:,\d{3})+)(?!\d))\d+,\d+(?![\d,]).*")
_EITHER_COMMA = re.compile(r"[~≈=]?\s*[+\-−]?[1-9]\d{0,2},\d{3}(?![\d,.]).*")
_DOTS = re.compile(r"[~≈=]?\s*(?P<number>[1-9]\d{0,2}(?:\.\d{3})+)(?![\d.])\s*(?P<unit>.*)")
# What people write before a number without meaning anything by it: "line 3", "a factor of 9", "about 12 ms".
_BEFORE = re.compile(r"(?:(?:by\s+)?(?:an?\s+)?factor(?:\s+of)?|by|about|approximately|approx\.?|roughly|circa|ca\.?|line|row|number|chunks?(?:\s+(?:of|size))?)\s+(?=[~≈=+\-−.\d])", re.I)
# The same behind a choice: "decode pool" where the choices are "prefill" and "decode".
_KIND = re.compile(r"\s+(?:pool|side|servers?|workers?|replicas?|design|phase)$", re.I)
_AND = r"[,;+&/|]|->|→|\band\b"  # between the choices of a list that is written as one text
_LABEL = re.compile(r"(?:the|an?(?=\s+\w\w)|letter|line|row|case|day|statement|sentence|option|number)\s+", re.I)
NEGATIONS = {"no", "not", "none", "never", "neither", "nor", "nothing", "without"}
MOST_NUMBER_CHARACTERS = 200  # a number and its unit; a longer text is none, and the pattern would be slow on it
_YES, _NO = {"yes", "true", "y"}, {"no", "false", "n"}


class Unreadable(ValueError):
    """An answer that cannot be read as asked; carries the kind of mistake and what to say."""

    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind, self.says = kind, says


def number(plain: Any, unit: str) -> Any:
    """A plain form as a number in ``unit``.  Raises Unreadable."""
    if isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    if isinstance(plain, bool):
        raise Unreadable("wrong-type", f"{plain} is no number, and a number is asked for{_in(unit)}")
    if isinstance(plain, str):
        plain = _quantity(plain, unit)
    if is_number(plain):
        return plain
    if isinstance(plain, list) and len(plain) == 2 and all(isinstance(part, int) and not isinstance(part, bool) for part in plain):
        raise Unreadable("wrong-type", f"one number is asked for{_in(unit)}, not two; for decimals write a point, not a comma")
    if isinstance(plain, Quantity):
        if not is_number(plain.number):
            raise Unreadable("wrong-type", f"one number is asked for{_in(unit)}, not {spelled(plain)}")
        return _converted(plain, unit)
    raise Unreadable("wrong-type", f"one number is asked for{_in(unit)}, not {named(plain)}")


def _quantity(text: str, unit: str) -> Quantity | Any:
    text = _BEFORE.sub("", text.strip()[: MOST_NUMBER_CHARACTERS + 1], count=1)
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= MOST_NUMBER_CHARACTERS else None
    if found and (found["unit"].startswith(",") or _DECIMAL_COMMA.fullmatch(text.strip())):
        raise Unreadable("decimal-comma", f"{text.strip()[:60]!r} looks like a decimal comma; write a point")
    if found is None:
        raise Unreadable("wrong-type", f"a number is asked for{_in(unit)}, not the text {text.strip()[:60]!r}")
    value = _as_number(re.sub(r"[,_\s]", "", found["number"]).replace("−", "-"))
    if found["under"]:
        if int(found["under"]) == 0:
            raise Unreadable("not-finite", "a division by zero has no value")
        value = Fraction(value) / int(found["under"])
    return Quantity(value, found["unit"]) if found["unit"] else value


def either_comma(plain: Any) -> str:
    """What to say of a text such as "17,384", which is read as thousands and may mean a decimal; else nothing."""
    if not isinstance(plain, str) or not _EITHER_COMMA.fullmatch(plain.strip()[:MOST_NUMBER_CHARACTERS]):
        return ""
    return f"{plain.strip()[:60]!r} is read with a comma between thousands; if it is a decimal comma, write a point"


def _dotted(plain: Any) -> re.Match[str] | None:
    """A text that is a number whose dots may part thousands, perhaps with a unit."""
    return _DOTS.fullmatch(plain.strip()[:MOST_NUMBER_CHARACTERS]) if isinstance(plain, str) else None


def thousands_dot(plain: Any) -> str:
    """What to say of a text such as "277.217.280" or "1.449" where a whole number is asked for; else nothing.

    Several dots can only part thousands.  One dot is a decimal point, the more so before a unit ("1.208 GB").
    """
    found = _dotted(plain)
    if found and found["number"].count(".") > 1:
        return f"{plain.strip()[:60]!r} has dots between thousands, and a dot is read as the decimal point; leave them out or write commas"
    return one_dot(plain) if found and not found["unit"] else ""


def one_dot(text: str) -> str:
    """The doubt about a dot that may part thousands, voiced and not asserted."""
    return f"{text.strip()[:60]!r} is read with a decimal point; if the dot is to part thousands, leave it out or write a comma"


def without_dot(plain: Any) -> str:
    """A text such as "1.449 tokens" with its dot taken as one between thousands; empty where there is none."""
    found = _dotted(plain)
    return f"{found['number'].replace('.', '')} {found['unit']}".strip() if found else ""


def small_b(plain: Any, unit: str) -> str:
    """A text in bits, as "625 Mib", with its unit in bytes instead; empty where nothing is to change."""
    found = re.fullmatch(r"(.*\d\s*[KkMGTP]?i?)b((?:/s|ps)?)\s*", plain) if isinstance(plain, str) and units.is_data(unit) else None
    return f"{found[1]}B{found[2].replace('ps', '/s')}" if found and "bit" not in unit and "bps" not in unit else ""


def _as_number(digits: str) -> Any:
    return int(digits) if re.fullmatch(r"[+-]?\d+", digits) else Fraction(digits)


def _converted(quantity: Quantity, unit: str) -> Any:
    try:
        factor = units.factor(quantity.unit, unit)
    except units.UnknownUnit:
        raise Unreadable(
            "unknown-unit", f"the unit {quantity.unit!r} is not one that the course uses; a number{_in(unit)} is asked for"
        ) from None
    except units.OtherKind:
        wanted = f"an answer in {unit}" if unit else "a plain number without a unit"
        raise Unreadable("unit-mismatch", f"{wanted} is asked for, and {quantity.unit!r} measures something else") from None
    value = quantity.number
    return value * float(factor) if isinstance(value, float) and factor != 1 else value * factor


def truth(plain: Any) -> bool:
    """A plain form as yes or no.  Raises Unreadable."""
    if isinstance(plain, bool):
        return plain
    if isinstance(plain, str) and (said := word(plain)) in _YES | _NO:
        return said in _YES
    raise Unreadable("wrong-type", f"a yes or no is asked for (True or False), not {named(plain)}")


def word(plain: Any) -> str:
    """A word without case, spaces, hyphens or a closing dot, so that honest spellings are one."""
    return _folded(str(plain))


@lru_cache(maxsize=1024)  # the same few choices are folded for each word of an answer
def _folded(text: str) -> str:
    text = re.sub(r"[\s_\-‐-―]+", "", text.casefold()).strip(".,;:!?'\"`")
    return {"true": "yes", "false": "no"}.get(text, text)


def bare(text: str) -> str:
    """A text without an article or a label before it, or a kind of thing behind it: "B" of "letter B"."""
    return _KIND.sub("", _LABEL.sub("", text.strip(), count=1))


def split(text: str, choices: Iterable[str]) -> list[str]:
    """The choices of a list written as one text, "C D", "C and D" or "CD"; empty where it can't be read in one way.

    Every part must be a choice, and a comma parts nothing where a choice holds one.
    """
    known = {word(choice) for choice in choices}
    if word(text) in known or any(re.search(_AND, choice) for choice in choices):
        return []
    for between in (_AND, r"[\s,;]+"):
        found = [bare(part) for part in re.split(between, text.strip().strip(".;,()[]{}")) if part.strip()]
        if len(found) > 1 and all(word(part) in known for part in found):
            return found
    letters = list(text.strip().strip(".").casefold())
    return letters if 1 < len(letters) == len(set(letters)) and known.issuperset(letters) else []


def parts(text: str) -> list[str]:
    """The words of a text, folded."""
    return re.findall(r"\w+", text.casefold())


def listed(words: Iterable[Any]) -> str:
    """Choices or keys as feedback lists them: in quotes, since they may hold commas; numbers without."""
    return ", ".join(said if re.fullmatch(r"[\d.,]+", said := str(one)) else f'"{said}"' for one in words)


def key(plain: Any) -> Any:
    """A mapping's key: numbers by value (100, 100.0 and "100" are one), the rest as words."""
    try:
        return Fraction(str(plain)) if not isinstance(plain, bool) else word(plain)
    except (ValueError, ZeroDivisionError):
        return word(plain)


def spelled(plain: Any) -> str:
    """A plain form as a person would write it."""
    match plain:
        case None | bool() | str() | int():
            return str(plain)
        case float():
            return f"{plain:.10g}"
        case Fraction():
            return str(plain) if abs(plain.denominator) < 1000 else f"{float(plain):.10g}"
        case Quantity(value, unit):
            return f"{spelled(value)} {unit}".strip()
        case Bag(items):
            return "{" + ", ".join(map(spelled, items)) + "}"
        case list():
            return "[" + ", ".join(map(spelled, plain)) + "]"
        case dict():
            return "{" + ", ".join(f"{spelled(k)}: {spelled(v)}" for k, v in plain.items()) + "}"
        case Raised(type=kind, text=text):
            return f"{kind}: {text}"
    return "..." if plain is Ellipsis else named(plain)


def named(plain: Any) -> str:
    """The kind of thing a plain form is, with an article."""
    match plain:
        case bool():
            return f"the truth value {plain}"
        case str():
            return f"the text {plain[:60]!r}"
        case Bag():
            return "a set"
        case list():
            return f"a list of {len(plain)}"
        case dict():
            return "a mapping"
        case Calls():
            return "a function"
        case Quantity():
            return "a quantity"
        case Other(what):
            return f"a {what}"
    return "a number" if is_number(plain) else "nothing"


def _in(unit: str) -> str:
    return f" (in {unit})" if unit else ""
