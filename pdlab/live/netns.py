"""A loopback interface of one's own, so that its counters count nothing but our own traffic.

Linux gives a process a fresh network namespace with ``unshare``; what runs inside sees only the
loopback interface, and what it sends there is counted in that namespace's ``/proc/net/dev``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
IFREQ = struct.Struct("16sh14x")
TCP_IP_HEADER_BYTES = 52  # IPv4 20, TCP 20, its time-stamp option 12; loopback counts no link header


@dataclass(frozen=True)
class Counters:
    """What the loopback interface has carried since it came up, headers included.

    ``retransmitted`` counts the TCP segments that were sent again.
    """

    bytes: int
    packets: int
    retransmitted: int

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(
            self.bytes - earlier.bytes,
            self.packets - earlier.packets,
            self.retransmitted - earlier.retransmitted,
        )


def prefix() -> list[str]:
    """The words to put before a command so that it gets its own namespace; [] where it can't.

    As root that is allowed; elsewhere it takes a user namespace, which some systems forbid.
    """
    if not shutil.which("unshare"):
        return []
    words = ["unshare", "--net"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    works = subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return words if works else []


def run_module(module: str, *arguments: str) -> int:
    """``python -m module arguments`` in a namespace of its own where there can be one; its exit status.

    The module calls ``begin`` first.  Its standard input stays open as long as we live.
    """
    child = subprocess.Popen([*prefix(), sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE)
    try:
        return child.wait()
    finally:
        child.terminate()
        child.wait()


def begin() -> bool:
    """In a module that ``run_module`` started: whether the interface counts nothing but our own traffic.

    From now on this process ends when the one that started it is gone; keepers then end its servers.
    """
    def end_with_parent() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    fresh = counters().packets == 0  # a new namespace's interface has carried nothing
    if fresh:
        raise_loopback()
    return fresh


def raise_loopback() -> None:
    """Bring ``lo`` up; in a fresh namespace it is down.  Needs the rights that ``prefix`` gave."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        _, flags = IFREQ.unpack(fcntl.ioctl(handle, SIOCGIFFLAGS, IFREQ.pack(b"lo", 0)))
        fcntl.ioctl(handle, SIOCSIFFLAGS, IFREQ.pack(b"lo", flags | IFF_UP))


def counters(devices: str | None = None, protocols: str | None = None) -> Counters:
    """The loopback's received bytes and packets, and TCP's retransmissions, of our own namespace.

    The texts are those of ``/proc/net/dev`` and ``/proc/net/snmp``; read now unless given.
    """
    devices = Path("/proc/self/net/dev").read_text() if devices is None else devices
    protocols = Path("/proc/self/net/snmp").read_text() if protocols is None else protocols
    names, numbers = (line.split() for line in protocols.splitlines() if line.startswith("Tcp:"))
    retransmitted = int(numbers[names.index("RetransSegs")])
    for line in devices.splitlines():
        name, _, columns = line.partition(":")
        if name.strip() == "lo":
            received_bytes, received_packets = columns.split()[:2]
            return Counters(int(received_bytes), int(received_packets), retransmitted)
    raise OSError("this network namespace has no loopback interface")
