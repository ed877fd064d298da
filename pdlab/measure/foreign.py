"""Reaching into JSON that another tool wrote, one step at a time, and never past what is there.

Each step keeps its place, so that a value of the wrong kind is refused with file and key path:
``bench.json, benchmarks[0].requests.successful: found 5 (int), expected a list``.
What is absent or null stays null all the way down: no file has to carry everything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pdlab.errors import BadInput
from pdlab.theory._check import shown

BIG = sys.float_info.max  # comparing holds for whole numbers that no float can carry, too
LONGEST_NS = 2**62  # half of what a column of nanoseconds holds: sums of two still fit


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it stands: ``where`` names the file, ``path`` the keys down to it."""

    value: Any
    where: str
    path: str = ""

    @property
    def there(self) -> bool:
        """Whether there is a value at all: neither absent nor null."""
        return self.value is not None

    @property
    def place(self) -> str:
        """File and key path, for messages."""
        return f"{self.where}, {self.path}" if self.path else self.where

    def refuse(self, expected: str) -> BadInput:
        """The error for a value of another kind than ``expected``."""
        return BadInput(shown(self.value), expected, self.place)

    def key(self, *names: str) -> Found:
        """The value under the first of ``names`` that holds one; this has to be an object or null."""
        if self.value is not None and not isinstance(self.value, dict):
            raise self.refuse("an object")
        held = self.value or {}
        name = next((name for name in names if held.get(name) is not None), names[0])
        return Found(held.get(name), self.where, f"{self.path}.{name}" if self.path else name)

    def items(self) -> Iterator[Found]:
        """The values of a list, none for null."""
        if self.value is not None and not isinstance(self.value, list | tuple):
            raise self.refuse("a list")
        for i, value in enumerate(self.value or []):
            yield Found(value, self.where, f"{self.path}[{i}]")

    def number(self) -> float | None:
        """A finite number, null for null; NaN, infinity, booleans and text are refused."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not -BIG <= value <= BIG:
            raise self.refuse("a finite number")
        return value

    def whole(self) -> int | None:
        """A whole number that a column can hold, ``12.0`` among them, null for null."""
        value = self.number()
        if value is not None and (value != int(value) or abs(value) > LONGEST_NS):
            raise self.refuse("a whole number")
        return None if value is None else int(value)

    def ns(self, unit_ns: int) -> int | None:
        """A time or a duration in units of ``unit_ns`` nanoseconds, as nanoseconds."""
        value = self.number()
        if value is not None and abs(value) > LONGEST_NS / unit_ns:
            raise self.refuse("a time of less than a century")
        return None if value is None else round(value * unit_ns)

    def text(self) -> str | None:
        """Text, null for null."""
        if self.value is not None and not isinstance(self.value, str):
            raise self.refuse("text")
        return self.value
