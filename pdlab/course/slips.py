"""Mistakes with numbers that anyone makes: a slip is its kind and what it looks like."""

from __future__ import annotations

import math
from typing import Any

from pdlab.course import units
from pdlab.course.answers import is_finite

Slip = tuple[str, str]
SMALL = 100

# Kinds that say enough to be named for several values at once.
NAMED = {
    "bits-for-bytes", "bytes-for-bits", "gb-for-gib", "unit-prefix", "k-without-v", "counted-twice", "factor-two",
    "percent-for-fraction", "sign", "upside-down", "rounded-too-early",
}  # fmt: skip


def off(value: Any, expected: Any, unit: str, computed: bool = True) -> Slip:
    """What kind of wrong ``value`` is, both in ``unit``.

    A guess at the step that went wrong is made only where the number was ``computed``: one that was
    read off a table may be half of the right one by chance.
    """
    if not is_finite(value):
        what = "infinite: a division by zero?" if value in (math.inf, -math.inf) else "not a number (NaN): a 0 / 0, or an empty mean?"
        return "not-finite", f"the result is {what}"
    try:
        value, expected = float(value), float(expected)
    except OverflowError:
        return "too-large", "it is too large by hundreds of orders of magnitude"
    if value == -expected:
        return "sign", "the size is right and the sign is not: which of the two is subtracted from which?"
    if expected == 0:
        return "off", "some terms that should cancel do not"
    if value == 0:
        return "too-small", "zero is not it. Was something rounded down, or divided with //?"
    ratio = value / expected
    if ratio == 0 or math.isinf(ratio):  # beyond what a float holds
        kind, words = ("too-large", "too large") if ratio else ("too-small", "too small")
        return kind, f"it is {words} by hundreds of orders of magnitude"
    if not computed:
        if slip := _prefix(ratio, unit):
            return slip
        return _order(ratio)[0], "another number is asked for. Perhaps it was read from another row or column"
    return _scaled(ratio, unit, expected) or _near(ratio, value, expected, unit) or _order(ratio)


def _prefix(ratio: float, unit: str) -> Slip | None:
    if (units.is_data(unit) or units.is_time(unit)) and _is(ratio, *(base**k for base in (1000, 1024) for k in (-3, -2, -1, 1, 2, 3))):
        return "unit-prefix", f"the digits look right and the prefix does not; the unit asked for is {unit}"
    if not unit and _is(ratio, 0.001):
        return "thousands-dot", "the digits look right; if the dot was to part thousands, leave it out, since it is read as a decimal point"
    return None


def _scaled(ratio: float, unit: str, expected: float) -> Slip | None:
    data, bits = units.is_data(unit), "bit" in unit or "bps" in unit
    if data and _is(ratio, 8, 1 / 8):
        if bits:
            return "bytes-for-bits", f"that looks like bytes; the unit asked for is {unit}, in bits"
        return "bits-for-bytes", f"that looks like bits and bytes mixed up, a factor of 8; the unit asked for is {unit}"
    if data and _is(ratio, *(1.024**k for k in (-4, -3, -2, -1, 1, 2, 3, 4))):
        return "gb-for-gib", f"powers of 1000 and of 1024 are mixed up (GB and GiB, MB and MiB); the unit asked for is {unit}"
    if slip := _prefix(ratio, unit):
        return slip
    if unit in ("", "%") and any(math.isclose(ratio, factor, rel_tol=5e-3) for factor in (0.01, 100)):
        asked = "per cent" if unit else "a fraction"
        return "percent-for-fraction", f"per cent and fraction are mixed up; {asked} is asked for"
    if not data and expected == int(expected) and abs(expected) < SMALL:
        return None  # of small whole numbers one is often half of another
    if _is(ratio, 0.5):
        if data:
            return "k-without-v", "that is half of it. Perhaps one of two equal parts is left out: K without V, or 1 byte for an element of 2?"
        return "factor-two", "that is half of it. Perhaps a factor of two is missing"
    if _is(ratio, 2):
        return "counted-twice" if data else "factor-two", "that is twice as much. Perhaps something is counted two times"
    return None


def _near(ratio: float, value: float, expected: float, unit: str) -> Slip | None:
    whole, counted = expected == int(expected), not (units.is_data(unit) or units.is_time(unit) or unit == "%")
    if whole and counted and value != int(value) and abs(value - expected) < 1:
        return "not-whole", f"very near, and a whole number{f' ({unit})' if unit else ''} is asked for. Which way has it to be rounded here?"
    if whole and counted and abs(value - expected) == 1 and 2 < abs(expected) < 10_000:
        return "off-by-one", "one away. If you counted, perhaps one end too many or too few; if you rounded, perhaps the other way"
    if whole and value == int(value) and abs(ratio - 1) <= 5e-3:
        return "nearly", "very near, and the exact number is asked for: perhaps a digit is mistyped, or something was rounded before the last step"
    if abs(ratio - 1) <= 5e-3:
        return "rounded-too-early", "very near. Perhaps something was rounded on the way: keep more digits until the last step"
    if _is(value * expected, 1):
        return "upside-down", "that is the reciprocal: which quantity belongs under the line?"
    return None


def _order(ratio: float) -> Slip:
    """How far off, by order only, so that the answer cannot be worked out from it."""
    kind, words = ("too-large", "too large") if abs(ratio) > 1 else ("too-small", "too small")
    if ratio < 0:
        return "sign", "the sign is wrong, and the size as well"
    decades = abs(math.log10(ratio))
    if decades < math.log10(2):
        how = "by less than a factor of two"
    elif decades < 1:
        how = "by more than a factor of two, and less than ten"
    else:
        how = f"by about {round(decades)} order{'s' if round(decades) > 1 else ''} of magnitude: check the units, and whether a factor is missing or in there twice"
    return kind, f"{words}, {how}"


def _is(ratio: float, *factors: float) -> bool:
    return any(math.isclose(ratio, factor, rel_tol=2e-4) for factor in factors)
