"""Reading an answer in any honest form, and carrying it between processes as JSON.

``read`` turns whatever a learner passed to ``check`` into one of a few plain forms: ``...``
(nothing yet), None, bool, int, float, Fraction, str, list, dict, :class:`Bag`, :class:`Quantity`,
:class:`Calls` (what a function returned) and :class:`Other` (a thing that is no answer).
A plain form holds no code, so the grader can judge it in its own process.
"""

from __future__ import annotations

import copy
import dis
import math
from collections.abc import Callable, KeysView, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

MOST_ITEMS, MOST_CHARACTERS, MOST_DEPTH, MOST_BITS = 1_000, 10_000, 6, 10_000
MOST_VALUES, MOST_NAME = 10_000, 100  # values in all; characters of a type's or a unit's name
MOST_BASES = 20
_NO_BODY = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP"}


@dataclass(frozen=True)
class Quantity:
    """A number with the unit that the learner wrote."""

    number: Any
    unit: str


@dataclass(frozen=True)
class Bag:
    """Items without an order."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class Other:
    """A value that is no answer; ``what`` names its type."""

    what: str


@dataclass(frozen=True)
class Raised:
    """An exception instead of a result; ``bases`` are the exceptions that it is a kind of."""

    type: str
    text: str
    bases: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Calls:
    """What a function returned on each case; ``stub`` when its body is still ``...``."""

    results: tuple[Any, ...]
    stub: bool


def read(value: Any) -> Any:
    """The plain form of ``value``.  Never raises: what cannot be read is :class:`Other`."""
    return _look(value, 0, [MOST_VALUES])


def _look(value: Any, depth: int, left: list[int]) -> Any:
    """``left`` holds how many values more may be looked at, a long text counting as several.

    A list may hold itself a thousand times over.
    """
    try:
        left[0] -= 1 + (min(len(value), MOST_CHARACTERS) // 100 if isinstance(value, str) else 0)
        if left[0] < 0:
            raise ValueError("too many values for an answer")
        return _read(value, depth, left)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a learner's object may do anything when it is looked at, end the process too
        return Other(_kind(value))


def _read(value: Any, depth: int, left: list[int]) -> Any:
    def inside(part: Any) -> Any:
        return _look(part, depth + 1, left)

    if value is None or value is Ellipsis:
        return value
    if isinstance(value, bool | int | float | Fraction | str):
        return _plain_scalar(value)
    if isinstance(value, Decimal):
        return _plain_scalar(Fraction(value)) if value.is_finite() and abs(value.adjusted()) < 1_000 else float(value)
    if isinstance(value, timedelta):
        return Quantity(value.total_seconds(), "s")
    if depth > MOST_DEPTH:
        return Other(_kind(value))
    if hasattr(value, "magnitude") and hasattr(value, "units"):
        number = inside(value.magnitude)
        return Quantity(number, str(value.units)[:MOST_NAME]) if number is None or number is Ellipsis or is_number(number) else Other(_kind(value))
    if isinstance(value, Mapping):
        return {_key(k): inside(v) for k, v in _few(value.items())}
    if isinstance(value, Set) and not isinstance(value, KeysView):
        return Bag(tuple(inside(v) for v in sorted(_few(value), key=repr)))
    if isinstance(value, list | tuple | range | KeysView | ValuesView):
        return [inside(v) for v in _few(value)]
    if getattr(value, "size", None) == 1 and hasattr(value, "item"):  # numpy, pandas: 0-d or one element
        return inside(value.item())
    if hasattr(value, "tolist") and getattr(value, "ndim", 1) == 1:
        if len(value) > MOST_ITEMS:  # as a list it would be many times as large
            raise ValueError("too many items for an answer")
        return [inside(v) for v in _few(value.tolist())]
    return Other("function" if callable(value) else _kind(value))


def _kind(value: Any) -> str:
    try:
        return str(type(value).__name__)[:MOST_NAME]
    except Exception:
        return "thing"


def _plain_scalar(value: Any) -> Any:
    """A builtin number or text, stripped of any subclass."""
    if isinstance(value, str):
        return str(value[:MOST_CHARACTERS]).encode(errors="replace").decode()  # half a surrogate pair cannot be shown
    if isinstance(value, bool | float):
        return bool(value) if isinstance(value, bool) else float(value)
    exact = Fraction(value)
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > MOST_BITS:
        return Other("number of thousands of digits")
    return int(value) if isinstance(value, int) else exact


def _key(key: Any) -> Any:
    plain = read(key)
    return plain if isinstance(plain, bool | int | float | Fraction | str) else str(key)[:MOST_CHARACTERS]


def _few(items: Any) -> list[Any]:
    few = list(islice(items, MOST_ITEMS + 1))
    if len(few) > MOST_ITEMS:
        raise ValueError("too many items for an answer")
    return few


def call(function: Any, cases: Sequence[Any]) -> Any:
    """Run a learner's function on every case; the plain form of what it did.

    A case is a list of arguments or a mapping of keyword arguments.  Each call gets its own copy.
    """
    if not callable(function):
        return read(function)
    results = []
    for case in cases:
        try:
            results.append(read(apply(function, copy.deepcopy(case))))
        except KeyboardInterrupt:
            raise
        except NotImplementedError:
            results.append(Ellipsis)
        except BaseException as error:  # sys.exit() in a learner's function, too
            results.append(Raised(_kind(error), _message(error), _bases(error)))
    nothing = all(result is None or result is Ellipsis for result in results)
    return Calls(tuple(results), nothing and _has_no_body(function))


def _message(error: BaseException) -> str:
    try:
        return " ".join(str(error)[:MOST_CHARACTERS].split())[:300]
    except Exception:
        return ""


def _bases(error: BaseException) -> tuple[str, ...]:
    return tuple(base.__name__[:MOST_NAME] for base in type(error).__mro__[1:MOST_BASES] if issubclass(base, Exception))


def apply(function: Callable[..., Any], case: Any) -> Any:
    """Call with a case's arguments: a mapping by keyword, a list by place."""
    return function(**case) if isinstance(case, Mapping) else function(*case)


def _has_no_body(function: Any) -> bool:
    """Whether a Python function does nothing but return a constant, or says that it is not written yet."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    return "NotImplementedError" in code.co_names or {op.opname for op in dis.get_instructions(code)} <= _NO_BODY


def encode(plain: Any) -> Any:
    """A plain form as JSON with a tag on every value, so that 1, 1.0, True and "1" stay apart."""
    match plain:
        case _ if plain is Ellipsis:
            return ["nothing"]
        case None:
            return ["none"]
        case bool():
            return ["bool", plain]
        case int():
            return ["int", hex(plain)]
        case float():
            return ["float", plain.hex()]
        case Fraction():
            return ["fraction", hex(plain.numerator), hex(plain.denominator)]
        case str():
            return ["text", plain]
        case Quantity(number, unit):
            return ["quantity", encode(number), unit]
        case Bag(items):
            return ["bag", [encode(v) for v in items]]
        case list():
            return ["list", [encode(v) for v in plain]]
        case dict():
            return ["map", [[encode(k), encode(v)] for k, v in plain.items()]]
        case Raised(kind, text, bases):
            return ["raised", kind, text, list(bases)]
        case Calls(results, stub):
            return ["calls", [encode(v) for v in results], stub]
        case Other(what):
            return ["other", what]
    raise TypeError(f"{type(plain).__name__} is no plain form")


def decode(document: Any) -> Any:
    """The plain form that ``encode`` wrote.  Raises ValueError for anything else.

    It holds no more than ``read`` lets in: whoever judges an answer need not trust who sent it.
    """
    return _decoded(document, 0, [2 * MOST_VALUES])


def _decoded(document: Any, depth: int, left: list[int]) -> Any:
    if depth > 2 * MOST_DEPTH:
        raise ValueError("nested too deeply")

    def inside(part: Any) -> Any:
        return _decoded(part, depth + 1, left)

    def short(text: str) -> str:
        left[0] -= len(text) // 100
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"a text of {len(text):,} characters")
        return text

    def whole(digits: str) -> int:
        number = int(short(digits), 16)
        if number.bit_length() > MOST_BITS:
            raise ValueError("a number of thousands of digits")
        return number

    left[0] -= 1
    if left[0] < 0:
        raise ValueError("more values than an answer has")
    try:
        match document:
            case ["nothing"]:
                return Ellipsis
            case ["none"]:
                return None
            case ["bool", bool() as value]:
                return value
            case ["text", str() as value]:
                return short(value)
            case ["int", str() as digits]:
                return whole(digits)
            case ["float", str() as digits]:
                return float.fromhex(short(digits))
            case ["fraction", str() as over, str() as under]:
                return Fraction(whole(over), whole(under))
            case ["quantity", number, str() as unit]:
                return Quantity(inside(number), short(unit)[:MOST_NAME])
            case ["bag", list() as items]:
                return Bag(tuple(inside(v) for v in _few(items)))
            case ["list", list() as items]:
                return [inside(v) for v in _few(items)]
            case ["map", list() as pairs]:
                return {inside(k): inside(v) for k, v in _few(pairs)}
            case ["raised", str() as kind, str() as text, list() as bases]:
                return Raised(short(kind), short(text), tuple(short(str(base))[:MOST_NAME] for base in bases[:MOST_BASES]))
            case ["calls", list() as results, bool() as stub]:
                return Calls(tuple(inside(v) for v in _few(results)), stub)
            case ["other", str() as what]:
                return Other(short(what)[:MOST_NAME])
    except (TypeError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"no plain form: {error}") from error
    raise ValueError("no plain form")


def is_nothing(plain: Any) -> bool:
    """Whether an answer was never filled in: ``...``, empty text, None, an empty or all-``...`` collection."""
    match plain:
        case str():
            return not plain.strip()
        case Bag(items):
            return all(map(is_nothing, items))
        case list():
            return all(map(is_nothing, plain))
        case dict():
            return all(map(is_nothing, plain.values()))
        case Calls(_, stub):
            return stub
        case Quantity(number, _):
            return number is None or number is Ellipsis
    return plain is None or plain is Ellipsis


def is_number(plain: Any) -> bool:
    """Whether a plain form is a number (True and False are none)."""
    return isinstance(plain, int | float | Fraction) and not isinstance(plain, bool)


def is_finite(number: Any) -> bool:
    return not isinstance(number, float) or math.isfinite(number)
