"""What this machine can run, and one sentence on what to do about each thing it cannot."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import webbrowser
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from pdlab.course.source import ROOT, sources
from pdlab.errors import BadInput
from pdlab.live import budget

PYTHON_LEAST = (3, 11)
MEMORY_LEAST_BYTES, DISK_LEAST_BYTES = 2 * 10**9, 10**9
Need = Literal["course", "browser", "simulator", "servers", "gpu"]
USES: dict[Need, str] = {
    "course": "notebooks 00 to 10 and the labs on recorded runs",
    "browser": "JupyterLab on this machine's own screen",
    "simulator": "making the simulated runs again",
    "servers": "the labs on real servers, on this processor",
    "gpu": "the labs on a GPU",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what it is needed for, what was found, what to do where it is missing."""

    need: Need
    thing: str
    ok: bool
    found: str
    do: str = ""


def findings() -> list[Finding]:
    """Everything looked at, the course's own needs first."""
    return [*course(ROOT), *browser(), *simulator(), *servers(), *gpu()]


def report(found: list[Finding]) -> dict[str, Any]:
    """The findings as one JSON document: ``can_run`` says yes or no for each use."""
    return {
        "can_run": {need: all(f.ok for f in found if f.need == need) for need in USES},
        "findings": [asdict(f) for f in found],
    }


def course(root: Path) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("course", "Python", sys.version_info >= PYTHON_LEAST, f"{version} ({sys.executable})",
                  "Install Python 3.11 or newer and run make lab PYTHON=python3.12 (or its name).")
    system = platform.system()
    yield Finding("course", "system", system in ("Linux", "Darwin"), f"{system} {platform.machine()}",
                  "Use Linux, macOS, or WSL on Windows: the course's tools need a Unix.")
    own = Path(sys.prefix).resolve() == (root / ".venv").resolve()
    ready = own and (root / ".venv" / "pdlab-ready").exists()
    yield Finding("course", "environment", ready, sys.prefix if own else f"{sys.prefix}, not the course's .venv",
                  "Run make env, then .venv/bin/pdlab doctor.")
    missing = [p for one in sources(root) for p in (one.learner, one.answers) if not p.exists()]
    yield Finding("course", "notebooks", bool(sources(root)) and not missing,
                  f"{len(sources(root))} sources, {len(missing)} notebooks missing", "Run .venv/bin/pdlab build.")
    yield Finding("course", "cores", True, _cores())
    memory = psutil.virtual_memory()
    yield Finding("course", "memory", memory.available >= MEMORY_LEAST_BYTES,
                  f"{memory.available / 1e9:.1f} GB available of {memory.total / 1e9:.1f}",
                  f"Close programs until {MEMORY_LEAST_BYTES / 1e9:.0f} GB are available.")
    free = shutil.disk_usage(root).free
    yield Finding("course", "disk", free >= DISK_LEAST_BYTES, f"{free / 1e9:.1f} GB free",
                  f"Free {DISK_LEAST_BYTES / 1e9:.0f} GB where the course lies.")


def _cores() -> str:
    """Their number, and the kernel's word on how many of them are cores of their own."""
    from pdlab.live import cores

    here, real = len(budget.cores()), cores.physical()
    if real is None or real == here:
        return f"{here}"
    return (f"{here}, the threads of {real} physical core{'s' if real > 1 else ''}: work on one slows the other down "
            "(pdlab doctor --cores measures it)")  # fmt: skip


def browser() -> Iterator[Finding]:
    screen = sys.platform == "darwin" or any(os.environ.get(k) for k in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    try:
        name = webbrowser.get().__class__.__name__ if screen else ""
    except webbrowser.Error:
        name = ""
    yield Finding("browser", "browser", bool(name), name or "none that this session can open",
                  "Run make lab ARGS=--no-browser and open the address it prints, over an SSH tunnel if need be.")


def simulator() -> Iterator[Finding]:
    from pdlab.live import simulate

    there = simulate.installed()
    yield Finding("simulator", "AISimulate", there, simulate.version() if there else "not installed",
                  "Run make sim; the course shows its stored results without it.")


def servers() -> Iterator[Finding]:
    from pdlab.live import env

    for problem in env.problems():
        yield Finding("servers", "machine", False, problem.found, problem.do)
    try:
        env.python()
        versions = env.versions()
    except BadInput as error:
        yield Finding("servers", "live environment", False, "none that is complete", error.do)
        return
    for package, pattern in (("vLLM", "vllm"), ("NIXL", "nixl")):
        found = [f"{name} {version}" for name, version in versions.items() if name.startswith(pattern)]
        yield Finding("servers", package, bool(found), ", ".join(found) or "not installed", "Run make live-env again.")


def gpu() -> Iterator[Finding]:
    count = len(budget.gpus())
    yield Finding("gpu", "NVIDIA GPU", count > 0, f"{count} found",
                  "The labs run on this processor with a small model; for a GPU use a machine where nvidia-smi lists one.")
