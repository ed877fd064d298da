"""A lab's run: recorded by default, measured here and now with PDLAB_LIVE=1.  The cells are the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from pdlab.course.evidence import recorded

SWITCH, PLACE = "PDLAB_LIVE", "PDLAB_LAB_RUNS"


def live() -> bool:
    """Whether labs measure on this machine instead of showing the recorded runs."""
    return os.environ.get(SWITCH, "") not in ("", "0")


def lab_run(name: str, measure: Callable[[Path], object], own: Path | None = None) -> Path:
    """The directory of the run ``name``: the recorded one, or live what ``measure(directory)`` makes.

    ``own``, the learner's finished run (:func:`pdlab.course.own.own_sweep`), takes the place of both.
    Prints which of them it is.  ``measure`` must go on with what it finds in the directory, so
    that a cell that was interrupted, or is run again, loses nothing.
    """
    if own:
        print(f"your own: {made(own)}, in {own}")
        return own
    if not live():
        directory = recorded(name)
        print(f"recorded: {made(directory)}.\n{SWITCH}=1 measures on this machine instead.")
        return directory
    directory = Path(os.environ.get(PLACE, Path.home() / ".cache" / "pdlab" / "labs")) / name
    directory.mkdir(parents=True, exist_ok=True)
    measure(directory)
    print(f"live: {made(directory)}, in {directory}")
    return directory


def made(directory: Path) -> str:
    """When and on what machine the runs below ``directory`` were made, from the first provenance."""
    about = json.loads(next(iter(sorted(directory.rglob("provenance.json")))).read_text())
    machine = about["machine"]
    if isinstance(machine, dict):
        machine = f"{machine['cores']} cores of {machine['cpu']}"
    return f"measured on {str(about['date'])[:10]} on {machine}"
