"""Turning what a person wrote into numbers we can trust: one place, one style of message."""

from __future__ import annotations

import math
from numbers import Integral, Real

from pdlab.errors import BadInput


def whole(value: object, name: str, *, low: int = 1, high: int = 10**9) -> int:
    """``value`` as an int in [low, high]; booleans, strings, floats and NaN are refused.

    numpy integers count as integers.  Raises ``BadInput`` that names ``name``.
    """
    expected = f"a whole number from {low} to {high:,}"
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise BadInput(shown(value), expected, name)
    return int(value)


def positive(value: object, name: str, unit: str = "") -> float:
    """``value`` as a finite float above zero."""
    return _real(value, name, f"a finite number above 0{_in(unit)}", lambda x: x > 0)


def not_negative(value: object, name: str, unit: str = "") -> float:
    """``value`` as a finite float, zero allowed."""
    return _real(value, name, f"a finite number, 0 or more{_in(unit)}", lambda x: x >= 0)


def shown(value: object) -> str:
    """``value`` for a message: short, and with its type where that is the mistake."""
    if isinstance(value, int) and abs(value) >= 10**60:
        return f"a whole number of {value.bit_length()} bits"  # its digits may be more than Python writes
    if isinstance(value, Real) and not isinstance(value, bool):
        return str(value)
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({type(value).__name__})" if value is not None else "null"


def _real(value: object, name: str, expected: str, fits) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadInput(shown(value), expected, name)
    number = float(value)
    if not math.isfinite(number) or not fits(number):
        raise BadInput(shown(value), expected, name)
    return number


def _in(unit: str) -> str:
    return f" {unit}" if unit else ""
