"""A scripted HTTP peer for tests: it plays back bytes, one script a request, and notes what came.

It knows nothing of models.  A script is a list of steps: bytes to send, a pause in seconds, or one
of the words "reset" (abort the connection), "close" and "wait" (until the client goes away).
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = bytes | float | str
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def frame(text: str = "a", tokens: int | None = None, finish: str | None = None) -> bytes:
    """One completion frame as vLLM sends it, with continuous usage when ``tokens`` is given."""
    document: dict[str, Any] = {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}
    if tokens is not None:
        document["usage"] = {"prompt_tokens": 3, "completion_tokens": tokens}
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def tokens(count: int, gap_s: float = 0.0) -> list[Step]:
    """A whole good answer of ``count`` tokens."""
    steps: list[Step] = [HEAD]
    for i in range(count):
        steps += [gap_s, chunk(frame(f"t{i} ", i + 1, "length" if i == count - 1 else None))]
    return [*steps, chunk(DONE) + END]


def plain(status: str, body: bytes, *headers: bytes) -> list[Step]:
    """An answer with a Content-Length."""
    lines = [b"HTTP/1.1 " + status.encode(), b"Content-Type: application/json",
             b"Content-Length: %d" % len(body), *headers]  # fmt: skip
    return [b"\r\n".join(lines) + b"\r\n\r\n" + body]


@dataclass
class Seen:
    """One request that came: its head and body, and whether its client left before the end."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Peer:
    """A server in a thread.  ``script`` gives the steps for each request; use as a context manager."""

    def __init__(self, script: Callable[[Seen], Sequence[Step]], tls: ssl.SSLContext | None = None) -> None:
        self.script, self.tls = script, tls
        self.seen: list[Seen] = []
        self.connections = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    def __enter__(self) -> Peer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close every connection and the port.  Safe to repeat."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)

    @property
    def url(self) -> str:
        """The peer's base URL."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def posts(self) -> list[Seen]:
        """The POST requests so far."""
        return [one for one in self.seen if one.method == "POST"]

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while await self._one(reader, writer, number):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        start, *lines = head.split("\r\n")
        method, path, _ = start.split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        seen = Seen(method, path, headers, body, number)
        self.seen.append(seen)
        gone = asyncio.ensure_future(reader.read(1))
        try:
            for step in self.script(seen):
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                elif isinstance(step, (int, float)):
                    await asyncio.wait({gone}, timeout=step)
                elif step == "reset":
                    linger = struct.pack("ii", 1, 0)  # RST instead of FIN
                    writer.get_extra_info("socket").setsockopt(1, 13, linger)
                    writer.transport.abort()
                    return False
                elif step == "close":
                    return False
                else:
                    await gone
                if gone.done():
                    seen.left.set()
                    return False
            return True
        finally:
            if not gone.done():
                gone.cancel()
                try:
                    await gone
                except asyncio.CancelledError:
                    pass
