"""What the benchmarks share: the token server, our client, the machine and its clock ticks."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdlab.live import client, provenance
from pdlab.measure import records
from pdlab.measure.workload import poisson_ms

HERE = Path(__file__).resolve().parent
SERVER_CORE, CLIENT_CORE = 0, 1
TOKENS, PROMPT_TOKENS = 64, 64
FIRST_MS, GAP_MS = 50, 10


@dataclass(frozen=True)
class TokenServer:
    """A running token server; ``journal`` is whole only after it has ended."""

    url: str
    journal: Path
    process: subprocess.Popen

    def stop(self) -> dict[int, dict[str, Any]]:
        """End it; what it wrote of each request, by its own sequence number."""
        self.process.terminate()
        self.process.wait()
        with self.journal.open() as lines:
            return {entry["seq"]: entry for entry in map(json.loads, lines)}


REAL_TIME = bool(shutil.which("chrt")) and hasattr(os, "geteuid") and os.geteuid() == 0


def on_core(core: int, priority: int = 10) -> list[str]:
    """The prefix that keeps a command on one core, ahead of other programs where that is allowed."""
    return [*(["chrt", "-r", str(priority)] if REAL_TIME else []), "taskset", "-c", str(core)]


def take_client_core() -> None:
    """Put this process, and so all it starts, where the measured programs run."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    if REAL_TIME:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))


@contextmanager
def token_server(directory: Path) -> Iterator[TokenServer]:
    """Compile and start the server on its core, above everything else there where allowed."""
    binary, journal = directory / "token_server", directory / f"journal-{time.monotonic_ns()}.jsonl"
    if not binary.exists():
        subprocess.run(["cc", "-O2", "-o", binary, HERE / "token_server.c"], check=True)
    process = subprocess.Popen(
        [*on_core(SERVER_CORE, 50), binary, "0", journal, str(FIRST_MS), str(GAP_MS)],
        stdout=subprocess.PIPE,
        text=True,
    )
    port = int(process.stdout.readline())
    try:
        with awake(SERVER_CORE):
            yield TokenServer(f"http://127.0.0.1:{port}", journal, process)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def awake(core: int) -> Iterator[None]:
    """Keep a core busy with what gives way to everything else.

    The hypervisor takes an idle virtual core away; giving it back would add to each client's error.
    """
    if not shutil.which("chrt"):
        yield
        return
    spin = subprocess.Popen(["chrt", "-i", "0", "taskset", "-c", str(core), sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spin.kill()
        spin.wait()


def connections_for(rate_rps: float) -> int:
    """Enough for the requests that are open at once, and then some."""
    return int(rate_rps * (FIRST_MS + TOKENS * GAP_MS) / 1000 * 1.6) + 8


def offers(rate_rps: float, count: int) -> list[client.Offer]:
    """The load of all benchmarks."""
    prompt = [(7 * i) % 1000 + 100 for i in range(PROMPT_TOKENS)]
    return [
        client.Offer(seq, at_ms, client.completion("m", prompt, TOKENS))
        for seq, at_ms in enumerate(poisson_ms(rate_rps, count, seed=1))
    ]


def run_pdlab(url: str, rate_rps: float, count: int, out: Path) -> list[dict[str, Any]]:
    """Our client's rows for the load."""
    options = client.Options(connections=connections_for(rate_rps), idle_limit_s=60)
    about = {"label": "measured", "source": "pdlab bench", "offered_rate_rps": rate_rps}
    run = client.run_load(f"{url}/v1/completions", offers(rate_rps, count), out, about, options)
    return records.rows(run.table)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its living descendants, with what dead children left."""
    total, waiting = 0.0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            stat = Path(f"/proc/{one}/stat").read_text()
            waiting += [
                int(child)
                for task in os.listdir(f"/proc/{one}/task")
                for child in Path(f"/proc/{one}/task/{task}/children").read_text().split()
            ]
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def machine() -> dict[str, Any]:
    """What a reader must know to weigh the figures."""
    return {
        "cpu": provenance.machine()["cpu"],
        "cores": os.cpu_count(),
        "real_time_priority": REAL_TIME,
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
