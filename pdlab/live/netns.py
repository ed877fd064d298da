"""A loopback interface of one's own, so that its counters count nothing but our own traffic.

Linux gives a process a fresh network namespace with ``unshare``; what runs inside sees only the
loopback interface, and what it sends there is counted in that namespace's ``/proc/net/dev``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
IFREQ = struct.Struct("16sh14x")
TCP_IP_HEADER_BYTES = 52  # IPv4 20, TCP 20, its time-stamp option 12; loopback counts no link header


@dataclass(frozen=True)
class Counters:
    """What the loopback interface has carried since it came up, headers included."""

    bytes: int
    packets: int

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(self.bytes - earlier.bytes, self.packets - earlier.packets)


def prefix() -> list[str]:
    """The words to put before a command so that it gets its own namespace; [] where it can't.

    As root that is allowed; elsewhere it takes a user namespace, which some systems forbid.
    """
    if not shutil.which("unshare"):
        return []
    words = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    works = subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return words if works else []


def raise_loopback() -> None:
    """Bring ``lo`` up; in a fresh namespace it is down.  Needs the rights that ``prefix`` gave."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        _, flags = IFREQ.unpack(fcntl.ioctl(handle, SIOCGIFFLAGS, IFREQ.pack(b"lo", 0)))
        fcntl.ioctl(handle, SIOCSIFFLAGS, IFREQ.pack(b"lo", flags | IFF_UP))


def counters(table: str | None = None) -> Counters:
    """The loopback's received bytes and packets, from ``/proc/net/dev`` of our own namespace."""
    text = Path("/proc/self/net/dev").read_text() if table is None else table
    for line in text.splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            received_bytes, received_packets = numbers.split()[:2]
            return Counters(int(received_bytes), int(received_packets))
    raise OSError("this network namespace has no loopback interface")
