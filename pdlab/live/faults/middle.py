"""A man in the middle of the TCP connector's transfer: slows it, or changes bytes in it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Self

from pdlab.live import LOOPBACK

PIECE = 32 << 10
HEAD_BYTES = 2_000  # announcements and the first blocks' beginning are left alone
CORRUPT_BYTES = 64 << 10
FLIP = 0x03  # small changes of every float32, and never one that makes a NaN


class Middle:
    """Listens on ``port`` and passes one pull on to ``target_port``, both on loopback.

    ``bytes_per_s`` limits what prefill sends; ``corrupt`` flips bits in 64 KiB of it.  ``passed``
    and ``corrupted`` count bytes.
    """

    def __init__(self, target_port: int, bytes_per_s: float | None = None, corrupt: bool = False) -> None:
        self.target_port, self.bytes_per_s, self.corrupt = target_port, bytes_per_s, corrupt
        self.passed = self.corrupted = 0
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            near, _ = self._listener.accept()
            far = socket.create_connection((LOOPBACK, self.target_port))
            self._ends = [near, far]
            threading.Thread(target=self._copy, args=(near, far, False), daemon=True).start()
            self._copy(far, near, True)

    def _copy(self, source: socket.socket, sink: socket.socket, payload: bool) -> None:
        try:
            while data := source.recv(PIECE):
                if payload:
                    data = self._change(data)
                    if self.bytes_per_s:
                        time.sleep(len(data) / self.bytes_per_s)
                sink.sendall(data)
        except OSError:
            pass
        finally:  # one end has gone: so does the other
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR if payload else socket.SHUT_RDWR)

    def _change(self, data: bytes) -> bytes:
        start = max(0, HEAD_BYTES - self.passed)
        self.passed += len(data)
        if not self.corrupt or start >= len(data) or self.corrupted >= CORRUPT_BYTES:
            return data
        stop = min(len(data), start + CORRUPT_BYTES - self.corrupted)
        self.corrupted += stop - start
        return data[:start] + bytes(byte ^ FLIP for byte in data[start:stop]) + data[stop:]
