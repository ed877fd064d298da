"""Do two cores of this machine slow each other down?  What the kernel says, and what two loops show.

A virtual machine's kernel can be told that its two processors are cores of their own when they are
two threads of one.  So the question is put to the machine: a loop runs on one core, first alone,
then beside a loop on another core.  The loops are the two kinds of work of this course: arithmetic
on numbers that stay in the core's own caches, as a prefill, and reading more memory than those hold,
as a decode step that reads all weights.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.errors import BadInput
from pdlab.live import budget

KINDS = ("arithmetic", "memory")
TURN_S, ROUNDS = 0.5, 5
SIDE = 160  # three float32 matrices of 100 KB: in the second cache of any server's core
MEMORY_BYTES = 1 << 28  # as many bytes as the weights of SmolLM2-135M, to the nearest power of two
CORES = "cores.json"
APART, SHARED = 0.9, 0.75  # arithmetic keeps at least, at most, this share of its speed beside arithmetic
KERNEL = Path("/sys/devices/system/cpu")


# ── what the kernel says ────────────────────────────────────────────────────────────────────


def physical(cores: list[int] | None = None, root: Path = KERNEL) -> int | None:
    """How many physical cores the given ones (default: all we may use) are threads of; None if unsaid."""
    found = set()
    for core in budget.cores() if cores is None else cores:
        try:
            found.add((root / f"cpu{core}" / "topology" / "thread_siblings_list").read_text().strip())
        except OSError:
            return None
    return len(found)


def stolen_ticks(core: int) -> int:
    """For how many clock ticks this core's work waited for the host (``steal``), since the start."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            return int(ticks[7])
    raise OSError(f"/proc/stat has no line for cpu{core}")


# ── what two loops show ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Turn:
    """One loop's turn: its kind, the kind beside it ("" when alone), and its speed in loops a second.

    ``stolen_ms`` is how long the host kept the loop's core from it meanwhile, by the kernel's count.
    """

    round: int
    work: str
    beside: str
    per_s: float
    stolen_ms: float


def kept(turns: list[Turn], work: str, beside: str) -> float:
    """The share of its speed alone that ``work`` keeps beside ``beside``; 1 is all of it.

    The median over the rounds: a virtual machine's speed drifts with its neighbours on the host, so
    only turns of one round are held against each other.
    """
    speed = {(turn.round, turn.beside): turn.per_s for turn in turns if turn.work == work}
    return statistics.median(per_s / speed[number, ""] for (number, other), per_s in speed.items() if other == beside)


def verdict(turns: list[Turn]) -> str:
    """What arithmetic beside arithmetic shows, in a sentence: it uses nothing that two real cores share."""
    share = kept(turns, "arithmetic", "arithmetic")
    if share >= APART:
        return "The two cores compute without slowing each other down."
    if share > SHARED:
        return "The two cores slow each other down somewhat even where they share no data: their clock or their host is shared."
    return (
        "The two cores slow each other down even where they share no data, as two threads of one physical core do, "
        "or two processors whose host has less time for them than two cores' worth: a worker on the one disturbs a "
        "worker on the other."
    )


@contextmanager
def _loop(kind: str, core: int) -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``kind`` on ``core`` for as long as it is told to, again and again."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "pdlab.live.cores", kind, str(core), str(MEMORY_BYTES)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | one_thread,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()


def _answer(process: subprocess.Popen[str]) -> float:
    if not (line := process.stdout.readline()):  # type: ignore[union-attr]
        raise OSError(f"a loop ended with status {process.wait()}")
    return float(line)


def measure(rounds: int = ROUNDS, turn_s: float = TURN_S) -> list[Turn]:
    """Every pairing in turn, ``rounds`` times over: the loops on the last core, their neighbours on the first."""
    cores = budget.cores()
    if len(cores) < 2:
        raise BadInput("one core", "two or more", "this machine", "With one core there is nothing to compare.")
    first, last = cores[0], cores[-1]
    turns = []
    tick_ms = 1000 / os.sysconf("SC_CLK_TCK")
    with _loop("arithmetic", last) as a, _loop("memory", last) as b, \
         _loop("arithmetic", first) as c, _loop("memory", first) as d:  # fmt: skip
        for process in (a, b, c, d):
            _answer(process)  # it is warm
        works, neighbours = {"arithmetic": a, "memory": b}, {"arithmetic": c, "memory": d}
        for number in range(rounds):
            for work, loop in works.items():
                for beside in ("", *KINDS):
                    before = stolen_ticks(last)
                    both = [loop, *([neighbours[beside]] if beside else [])]
                    for process in both:
                        process.stdin.write(f"{turn_s}\n")  # type: ignore[union-attr]
                        process.stdin.flush()  # type: ignore[union-attr]
                    speeds = [_answer(process) for process in both]
                    turns.append(Turn(number, work, beside, speeds[0], (stolen_ticks(last) - before) * tick_ms))
    return turns


def _work(kind: str, core: int, memory_bytes: int) -> None:
    """One loop, in a process of its own: a line of seconds in, loops a second out."""
    import numpy as np

    os.sched_setaffinity(0, {core})
    if kind == "arithmetic":
        left, right, out = (np.ones((SIDE, SIDE), np.float32) for _ in range(3))

        def once() -> None:
            np.matmul(left, right, out=out)
    else:
        weights = np.ones(memory_bytes // 4, np.float32)

        def once() -> None:
            np.dot(weights, weights)

    for _ in range(3):
        once()
    print(0, flush=True)
    for line in sys.stdin:
        loops, began, long_ns = 0, time.perf_counter_ns(), float(line) * 1e9
        while (gone := time.perf_counter_ns() - began) < long_ns:
            once()
            loops += 1
        print(loops / gone * 1e9, flush=True)


# ── kept ────────────────────────────────────────────────────────────────────────────────────


def document(turns: list[Turn]) -> dict[str, Any]:
    """The turns and what they come to, JSON-ready."""
    return {
        "label": "measured",
        "physical_cores_by_kernel": physical(),
        "kept": {work: {beside: round(kept(turns, work, beside), 3) for beside in KINDS} for work in KINDS},
        "stolen_ms": {beside or "nothing": round(sum(t.stolen_ms for t in turns if t.beside == beside)) for beside in ("", *KINDS)},
        "verdict": verdict(turns),
        "turns": [[turn.round, turn.work, turn.beside, round(turn.per_s, 2), turn.stolen_ms] for turn in turns],
    }


def read(directory: Path) -> list[Turn]:
    """The turns of a recorded measurement."""
    return [Turn(*turn) for turn in json.loads((directory / CORES).read_text())["turns"]]


def write(out: Path, found: dict[str, Any]) -> None:
    """``cores.json`` and its ``provenance.json``."""
    import numpy

    from pdlab.live import provenance
    from pdlab.measure import records

    about = records.provenance(
        label="measured", source="pdlab doctor --cores", machine=provenance.machine(), date=provenance.now(),
        commit=provenance.commit(), versions={"python": sys.version.split()[0], "numpy": numpy.__version__},
        workload=f"products of {SIDE} x {SIDE} float32 matrices; dot products that read {MEMORY_BYTES:,} bytes; one thread each",
        notes="one loop on the last core, its neighbour on the first; medians",
    )  # fmt: skip
    records.write_provenance(out, about)
    write_whole(out / CORES, json.dumps(found) + "\n")


if __name__ == "__main__":
    _work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
