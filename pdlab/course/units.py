"""The units of the course's answers, and the exact factor between two of them.

The registry is the course's own: data is a dimension here (in pint's default it is none, so a
radian would pass for a byte), powers of 1000 and of 1024 have different names, and the things
that are counted (tokens, requests, blocks, GPUs …) are plain numbers.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import Any

_DECIMAL = {"kilo": "k- = K", "mega": "M", "giga": "G", "tera": "T", "peta": "P"}
_BINARY = {"kibi": "Ki", "mebi": "Mi", "gibi": "Gi", "tebi": "Ti"}
_SMALL = {"milli": ("m", 3), "micro": ("u- = µ- = μ", 6), "nano": ("n", 9)}
_COUNTED = (
    "token", "request", "block", "slot", "head", "layer", "element", "rank", "chunk", "step", "frame", "prompt",
    "sequence", "stream", "replica", "worker", "server", "attempt", "point", "time", "req",
)  # fmt: skip


class UnknownUnit(ValueError):
    """A unit that the course does not use."""


class OtherKind(ValueError):
    """Two units that measure different things."""


@cache
def _registry() -> Any:
    import pint

    lines = [f"{name}- = {1000**i} = {symbol}-" for i, (name, symbol) in enumerate(_DECIMAL.items(), 1)]
    lines += [f"{name}- = {1024**i} = {symbol}-" for i, (name, symbol) in enumerate(_BINARY.items(), 1)]
    lines += [f"{name}- = 1/{10**zeros} = {symbol}-" for name, (symbol, zeros) in _SMALL.items()]
    lines += ["byte = [information] = B", "bit = byte / 8 = b = bits"]
    lines += ["second = [time] = s = sec", "minute = 60 second = min", "hour = 3600 second = h", "hertz = 1 / second = Hz"]
    lines += ["flop = [work] = FLOP = FLOPs = Flop", "operation = flop", "dollar = [money] = USD", "watt = [power] = W"]
    lines += ["GPU = [] = gpu", "percent = 1/100"]
    lines += [f"{name} = []" for name in _COUNTED]
    registry = pint.UnitRegistry(None, non_int_type=Fraction)
    registry.load_definitions(lines)
    return registry


def _spelled(unit: str) -> str:
    unit = "time" if unit.strip().lower() in ("x", "×", "fold", "-fold") else unit.strip()
    unit = re.sub(r"\bper\s+cent\b|%", "percent", re.sub(r"\b[rq]ps\b", "request/s", unit, flags=re.I))
    unit = re.sub(r"^/", "1/", re.sub(r"\s+(?:per|an?)\s+", "/", unit))
    return unit.replace("bps", "bit/s").replace("·", "*") or "dimensionless"


@cache
def factor(unit: str, target: str) -> Fraction:
    """What one ``unit`` is in ``target``.  Raises UnknownUnit or OtherKind."""
    import pint

    registry = _registry()
    try:
        one = registry.Quantity(Fraction(1), registry.parse_units(_spelled(unit)))
        goal = registry.parse_units(_spelled(target))
    except Exception as error:  # pint and its tokenizer raise many kinds for text that is no unit
        raise UnknownUnit(unit) from error
    try:
        return Fraction(one.to(goal).magnitude)
    except pint.DimensionalityError as error:
        raise OtherKind(unit) from error


def is_data(unit: str) -> bool:
    """Whether ``unit`` measures data, or data a second, where bits and bytes can be mixed up."""
    kind = dict(_registry().parse_units(_spelled(unit)).dimensionality) if unit else {}
    return kind.get("[information]") == 1 and kind.keys() <= {"[information]", "[time]"}


def is_time(unit: str) -> bool:
    """Whether ``unit`` is one of time."""
    return bool(unit) and dict(_registry().parse_units(_spelled(unit)).dimensionality) == {"[time]": 1}
