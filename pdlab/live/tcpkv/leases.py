"""Blocks that a finished request leaves behind for a pull, each under a lease.

Prefill cannot free a request's blocks when it has finished: decode has not read them yet.  It
cannot keep them for ever either: decode may never come.  A lease is the way out, and it has one
sharp edge.  A pull that has begun must not lose its blocks in the middle, so a lease does not end
while its blocks are being read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _Lease:
    block_ids: tuple[int, ...]
    ends_s: float
    readers: int = 0


class Leases:
    """Thread-safe: the engine's thread grants and collects, the server's threads read."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s, self._lock = clock_s, threading.Lock()
        self._held: dict[str, _Lease] = {}
        self._over: set[str] = set()

    def __len__(self) -> int:
        return len(self._held)

    def grant(self, request_id: str, block_ids: Sequence[int], seconds: float) -> None:
        """Keep the blocks of ``request_id`` for ``seconds``."""
        with self._lock:
            self._held[request_id] = _Lease(tuple(block_ids), self._clock_s() + seconds)

    def read(self, request_id: str) -> tuple[int, ...] | None:
        """The blocks to send, or None when there is no lease (any more).  Pair with ``done``."""
        with self._lock:
            lease = self._held.get(request_id)
            if lease is None or (lease.ends_s <= self._clock_s() and not lease.readers):
                return None
            lease.readers += 1
            return lease.block_ids

    def done(self, request_id: str, delivered: bool) -> None:
        """A reader is through.  A delivered request's lease is over; after a broken pull it runs on."""
        with self._lock:
            if lease := self._held.get(request_id):
                lease.readers -= 1
                if delivered:
                    del self._held[request_id]
                    self._over.add(request_id)

    def collect(self) -> tuple[set[str], set[str]]:
        """Requests whose blocks may be freed: all of them, and those among them that expired."""
        with self._lock:
            now = self._clock_s()
            expired = {
                name for name, lease in self._held.items() if lease.ends_s <= now and not lease.readers
            }
            for name in expired:
                del self._held[name]
            freed, self._over = self._over | expired, set()
            return freed, expired
