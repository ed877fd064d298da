"""Numbers on a command line: argparse types with a range, and one message for what lies outside it.

``int`` and ``float`` take more than a person means: nan, inf, 1_000, digits of other scripts.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")

DAY_S = 86_400.0
MILLION = 10**6


def whole(low: int = 1, high: int = MILLION) -> Callable[[str], int]:
    """An argparse type: a whole number from ``low`` to ``high``."""

    def read(text: str) -> int:
        if not WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"found {shown(text)}, expected a whole number from {low:,} to {high:,}")
        return int(text)

    return read


def real(unit: str, high: float, low: float = 0.0) -> Callable[[str], float]:
    """An argparse type: a number above zero, at least ``low`` where one is given, and at most ``high``."""

    def read(text: str) -> float:
        value = float(text) if REAL.fullmatch(text) else 0.0
        if not 0 < value <= high or value < low:
            least = f"from {low:g}" if low else "above 0"
            raise argparse.ArgumentTypeError(f"found {shown(text)}, expected a number {least} to {high:,.0f} {unit}")
        return value

    return read


def seconds() -> Callable[[str], float]:
    """An argparse type: a time above zero, at most a day."""
    return real("seconds", DAY_S)


def shown(text: str) -> str:
    """What was given, short enough for a message."""
    return repr(text) if len(text) <= 40 else f"{text[:30]!r}… ({len(text)} characters)"
