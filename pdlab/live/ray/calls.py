"""Who called whom, and when: the access lines of Serve's proxy and replicas, joined by the request's id.

Each of them writes a line when a call to it has ended: the id that came in ``X-Request-Id``, what
was called, how it ended and how long it took.  Times are of the wall clock, to the millisecond.
The lines are taken from the processes' standard error: once vLLM has set up its own logging in a
replica, Serve's log file there gets no more of them.  The proxy's are in its log.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOPS = {"OpenAiIngress": "ingress", "LLMServer": "aggregated", "Decode": "decode", "Prefill": "prefill"}
ORDER = ("proxy", "ingress", "aggregated", "decode", "prefill")  # each is called by the one before it
WANTED = {"/v1/completions", "/v1/chat/completions", "completions", "chat"}
LINE = re.compile(
    r"^INFO (?P<when>[\d-]+ [\d:]+,\d{3}) (?:(?P<proxy>proxy)|[^_ ]+_(?P<deployment>[^: ]+)\S*) (?P<replica>\S+) "
    r"(?P<id>\S+) -- (?P<what>\S+ ?\S*) (?P<status>\S+) (?P<ms>[\d.]+)ms$"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that has ended.  Times in ns of the wall clock."""

    request_id: str
    hop: str
    replica: str
    what: str
    status: str
    start_ns: int
    end_ns: int


def hop(deployment: str) -> str:
    """The short name of a deployment such as ``Prefill:tiny``, or of a process title that ends in a method's name."""
    kind = deployment.partition(":")[0].partition(".")[0]
    return HOPS.get(kind, kind)


def read(folder: Path) -> list[Call]:
    """All calls of one cluster, by start; ``folder`` is Ray's temporary folder."""
    logs = folder.glob("session_2*/logs")
    pages = [page for one in logs for page in (*one.glob("worker-*.err"), *one.glob("serve/proxy_*.log"))]
    found = {call for page in pages for call in parse(page.read_text(errors="replace"))}
    return sorted(found, key=lambda call: call.start_ns)


def parse(text: str) -> Iterator[Call]:
    """The calls of one process's standard error; Serve's own health checks are left out."""
    for line in text.splitlines():
        if not (one := LINE.match(line)) or one["what"].split()[-1] not in WANTED:
            continue
        ended = datetime.datetime.strptime(one["when"], "%Y-%m-%d %H:%M:%S,%f").astimezone()
        end_ns = round(ended.timestamp() * 1000) * 1_000_000
        whose = one["proxy"] or hop(one["deployment"])
        replica = whose if one["proxy"] else one["replica"]
        yield Call(one["id"], whose, replica, one["what"], one["status"], end_ns - round(float(one["ms"]) * 1e6), end_ns)
