"""Say where a measured run comes from: machine, versions, model, budget, commit, date."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from pdlab.live import env
from pdlab.live.serve import Deployment
from pdlab.measure import records


def machine() -> dict[str, Any]:
    """This machine in a few words: processor, cores, memory (GB, 10^9 bytes), kernel."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return {
        "cpu": name,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.release()}",
    }


def commit() -> str | None:
    """The commit of this checkout, with ``-dirty`` where pdlab.live was changed since; or None."""
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=env.ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "pdlab/live") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def measured(deployment: Deployment | None, source: str, **known: Any) -> dict[str, Any]:
    """The provenance document of a measured run; ``known`` are further keys of the schema."""
    about: dict[str, Any] = deployment.provenance() if deployment else {"versions": env.versions()}
    summary = known.pop("summary", {}) | {
        key: value for key, value in about.items() if key != "versions"
    }
    return records.provenance(
        label="measured", source=source, machine=machine(), versions=about["versions"],
        date=now(), commit=commit(), summary=summary, **known,
    )  # fmt: skip
