"""Numbers on the command line: refused with the same one message as everything else."""

from __future__ import annotations

from pdlab.errors import BadInput
from pdlab.theory._check import not_negative, positive, whole


def whole_arg(text: str, flag: str, *, low: int = 1, high: int = 10**9) -> int:
    """The whole number written in ``text``."""
    try:
        value = int(text)
    except ValueError:
        raise BadInput(repr(text), f"a whole number from {low} to {high:,}", flag) from None
    return whole(value, flag, low=low, high=high)


def positive_arg(text: str, flag: str, unit: str) -> float:
    """The finite number above zero written in ``text``."""
    return positive(_number(text, flag, unit), flag, unit)


def not_negative_arg(text: str, flag: str, unit: str) -> float:
    """The finite number of zero or more written in ``text``."""
    return not_negative(_number(text, flag, unit), flag, unit)


def _number(text: str, flag: str, unit: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(repr(text), f"a number in {unit}", flag) from None
