"""Helpers that ``from pdlab.course import *`` offers without importing matplotlib or pandas.

``pdlab.course.show`` is a module, so its function ``show`` is offered as ``show_figure``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_HOMES = {
    "show_figure": ("pdlab.course.show", "show"),
    "show_table": ("pdlab.course.show", "show_table"),
    "recorded": ("pdlab.course.evidence", "recorded"),
    "lab_run": ("pdlab.course.labs", "lab_run"),
    "own_link": ("pdlab.course.own_records", "own_link"),
    "own_routing": ("pdlab.course.own_records", "own_routing"),
    "own_sweep": ("pdlab.course.own", "own_sweep"),
    "figure": ("pdlab.course.plots", "figure"),
    "line": ("pdlab.course.plots", "line"),
    "ecdf": ("pdlab.course.plots", "ecdf"),
    "strip": ("pdlab.course.plots", "strip"),
    "name_at": ("pdlab.course.plots", "name_at"),
}
NAMES = tuple(_HOMES)


def helper(name: str) -> Callable[..., Any]:
    """A function that imports its module when it is first called."""
    module, attribute = _HOMES[name]

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), attribute)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Calls ``{module}.{attribute}``; see there for its arguments."
    return call
