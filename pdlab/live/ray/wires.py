"""Bytes on this machine's TCP connections, by the two processes that hold each of them.

The kernel counts what it has sent and had acknowledged on every socket; ``ss`` prints the counts.
Two looks, before and after, give what one process sent to another in between, whatever protocol
they speak.  A connection that was closed in between is not seen.  Memory shared between processes
is no TCP: NIXL's transfers within one host do not show up here unless UCX is told to use TCP.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter

Socket = tuple[int, str, str]  # process id, its end, the other end: address:port
HELD = re.compile(r"^\S+\s+\d+\s+\d+\s+(\S+)\s+(\S+)\s+users:\(\(\"[^\"]*\",pid=(\d+)")
SENT = re.compile(r"\bbytes_acked:(\d+)")


def look() -> dict[Socket, int] | None:
    """Bytes sent so far on each connection whose process may be seen; None without ``ss``."""
    if not shutil.which("ss"):
        return None
    done = subprocess.run(["ss", "-H", "-t", "-n", "-p", "-i", "-O"], capture_output=True, text=True)
    return parse(done.stdout) if done.returncode == 0 else None


def parse(page: str) -> dict[Socket, int]:
    """What ``ss -HtnpiO`` printed."""
    found = {}
    for line in page.splitlines():
        if held := HELD.search(line):
            sent = SENT.search(line)
            found[int(held[3]), held[1], held[2]] = int(sent[1]) if sent else 0
    return found


def between(before: dict[Socket, int], after: dict[Socket, int], names: dict[int, str]) -> dict[tuple[str, str], int]:
    """(sender, receiver) → bytes, over the connections of which both ends have a name in ``names``."""
    owner = {(local, remote): pid for pid, local, remote in after}
    moved: Counter[tuple[str, str]] = Counter()
    for key, sent in after.items():
        pid, local, remote = key
        other = owner.get((remote, local))
        if other in names and pid in names and (gone := sent - before.get(key, 0)) > 0:
            moved[names[pid], names[other]] += gone
    return dict(moved)
