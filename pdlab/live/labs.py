"""``make live``: the labs on this machine's own servers, as notebooks to open afterwards.

    PDLAB_LIVE=1 python -m pdlab.live.labs [L1 L2 …]

Runs the learner's copies as they stand, answers and all, and writes each with its outputs to
``labs/live/``.  Nothing recorded is touched.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from pdlab.course.labs import SWITCH, live
from pdlab.errors import BadInput
from pdlab.live import env

LABS = env.ROOT / "labs"
DEFAULT = ("L1", "L2")
CELL_TIMEOUT_S = 3600  # a cell may hold a whole sweep
QUIET = ["--log-level=ERROR"]  # else each kernel warns the terminal of its port on loopback, which a key protects


def notebook(number: str) -> Path:
    """The learner's notebook of a lab such as ``L1``."""
    found = sorted(LABS.glob(f"{number}-*.ipynb"))
    if not found:
        there = ", ".join(sorted(path.stem.partition("-")[0] for path in LABS.glob("L*.ipynb")))
        raise BadInput(f"lab {number!r}", there or "a built lab (pdlab build)", str(LABS))
    return found[0]


def run(path: Path) -> tuple[Path, str]:
    """Execute one lab; where the result is, and what stopped it (empty if nothing did)."""
    document = nbformat.read(path, as_version=4)
    target = LABS / "live" / path.name
    target.parent.mkdir(exist_ok=True)
    stopped = ""
    try:
        NotebookClient(
            document, timeout=CELL_TIMEOUT_S, kernel_name="python3", extra_arguments=QUIET,
            resources={"metadata": {"path": str(path.parent)}},
        ).execute()  # fmt: skip
    except CellExecutionError as error:
        stopped = " ".join(f"{error.ename}: {error.evalue}".split())
    except (CellTimeoutError, DeadKernelError) as error:
        stopped = str(error).strip().splitlines()[-1]
    nbformat.write(document, target)
    return target, stopped


def main(numbers: list[str]) -> int:
    """Run the labs named, or the first two; 1 when one of them stopped early."""
    if not live():
        raise BadInput(f"{SWITCH}={os.environ.get(SWITCH, '')!r}", f"{SWITCH}=1", do="Use `make live`.")
    env.python()
    failed = 0
    for path in [notebook(number) for number in numbers or DEFAULT]:
        print(f"{path.stem}: running on this machine …", flush=True)
        began = time.monotonic()
        target, stopped = run(path)
        failed += bool(stopped)
        says = f"stopped: {stopped}" if stopped else "done"
        print(f"{path.stem}: {says}, after {time.monotonic() - began:.0f} s; open {target}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BadInput as error:
        sys.exit(f"labs: {error}")
