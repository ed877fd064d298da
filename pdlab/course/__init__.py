"""Course: exercises, build, grading, figures and the pdlab command.

A notebook starts with ``from pdlab.course import *``.  That line must be quick, so nothing
heavy is imported here: each helper below loads its module when it is first called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pdlab.course import _lazy

__all__ = ["check", "hint", "predict", "guesses", *_lazy.NAMES]

_UNSET: Any = object()


def check(exercise_id: str, value: Any = None, *, expected: Any = _UNSET) -> None:
    """Show how an answer stands: not attempted, not yet, or correct.

    ``value`` may be a number, a numpy or pandas scalar, a quantity, text such as ``"625 MiB"``,
    a list, set or mapping, or (for an *implement* exercise) the function itself.
    ``expected`` replaces the registry's value where a lab computes it from the learner's own run.
    """
    from pdlab.course import checks

    checks.show(exercise_id, value, *(() if expected is _UNSET else (expected,)))


def hint(exercise_id: str) -> None:
    """Show the next hint of an exercise, one step a call."""
    from pdlab.course import checks

    checks.show_hint(exercise_id)


def predict(guess_id: str, guess: Any, choices: Iterable[Any] | None = None, *, count: int | None = None) -> None:
    """Keep a guess for :func:`guesses`.  A guess is never marked; ``choices`` and ``count`` catch typing slips.

    With ``count``, that many of the choices are asked for, as a list; one may come more than once.
    """
    from pdlab.course import predictions

    predictions.keep(guess_id, guess, choices, count)


def guesses(outcomes: Mapping[str, Any] | None = None) -> None:
    """Show the guesses of this notebook, beside what came out where ``outcomes`` gives it."""
    from pdlab.course import predictions

    predictions.show(outcomes or {})


def __getattr__(name: str) -> Any:
    """Figure and table helpers, as thin functions that import their module when called."""
    if name in _lazy.NAMES:
        return _lazy.helper(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
