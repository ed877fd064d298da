r"""What goes over the socket: lines of JSON that announce, raw bytes that follow.

    decode  ->  {"request_id": "cmpl-7", "last_blocks": 3}\n
    prefill ->  {"layers": 30, "blocks": 3}\n                    or {"error": "..."}\n
    prefill ->  {"layer": "model.layers.0...", "bytes": 147456, "crc32": 305419896}\n <bytes>
                ... once for each layer
    decode  ->  {"received": true}\n

The last line is the hand-over: only then may prefill free the blocks.  ``last_blocks`` counts
from the end, since decode may already hold the first blocks of a shared prefix.
"""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

MOST_LINE_BYTES = 1 << 16
MOST_LAYER_BYTES = 1 << 34


class TransferFailed(Exception):
    """A pull that did not deliver every layer whole; the message says at which step and why."""


def send_line(stream: BinaryIO, document: dict[str, Any]) -> None:
    """Write one announcement and flush it."""
    stream.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
    stream.flush()


def read_line(stream: BinaryIO) -> dict[str, Any]:
    """Read one announcement.  Raises TransferFailed when the peer is gone or talks nonsense."""
    line = stream.readline(MOST_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise TransferFailed("the peer closed the connection before an announcement was whole")
    try:
        document = json.loads(line)
    except ValueError as error:
        raise TransferFailed(f"not an announcement: {line[:40]!r}") from error
    if not isinstance(document, dict):
        raise TransferFailed(f"not an announcement: {line[:40]!r}")
    return document


def send_layers(stream: BinaryIO, blocks: int, layers: Iterable[tuple[str, bytes]], count: int) -> None:
    """Send each layer's blocks behind an announcement with its length and checksum."""
    send_line(stream, {"layers": count, "blocks": blocks})
    for name, data in layers:
        send_line(stream, {"layer": name, "bytes": len(data), "crc32": zlib.crc32(data)})
        stream.write(data)
    stream.flush()


def pull(
    address: tuple[str, int], request_id: str, last_blocks: int, timeout_s: float, verify: bool = True
) -> Iterator[tuple[str, bytes]]:
    """Fetch a request's last blocks, layer by layer; the hand-over is said once all are consumed.

    Without ``verify`` a changed byte goes unnoticed; that is there to be seen, not to be used.
    Raises TransferFailed or OSError.
    """
    with socket.create_connection(address, timeout=timeout_s) as connection:
        with connection.makefile("rwb") as stream:
            send_line(stream, {"request_id": request_id, "last_blocks": last_blocks})
            head = read_line(stream)
            if "error" in head:
                raise TransferFailed(f"prefill says: {head['error']}")
            if head.get("blocks") != last_blocks:
                raise TransferFailed(f"{head.get('blocks')} blocks announced, {last_blocks} asked for")
            for _ in range(int(head["layers"])):
                yield _layer(stream, verify)
            send_line(stream, {"received": True})


def _layer(stream: BinaryIO, verify: bool) -> tuple[str, bytes]:
    head = read_line(stream)
    name, size = str(head.get("layer")), int(head.get("bytes", -1))
    if not 0 <= size <= MOST_LAYER_BYTES:
        raise TransferFailed(f"{name}: {size} bytes announced")
    data = stream.read(size)
    if len(data) < size:
        raise TransferFailed(f"{name}: the peer closed the connection after {len(data)} of {size} bytes")
    if verify and zlib.crc32(data) != head.get("crc32"):
        raise TransferFailed(f"{name}: the checksum of {size} bytes does not match")
    return name, data


def answer(
    connection: socket.socket,
    read: Callable[[str], tuple[int, ...] | None],
    done: Callable[[str, bool], None],
    layers: Callable[[tuple[int, ...]], Iterable[tuple[str, bytes]]],
    count: int,
) -> None:
    """Serve one pull: look the lease up, send the layers, wait for the hand-over."""
    with connection.makefile("rwb") as stream:
        asked = read_line(stream)
        request_id, last = str(asked.get("request_id")), int(asked.get("last_blocks", 0))
        block_ids = read(request_id)
        if block_ids is None:
            send_line(stream, {"error": f"no blocks are kept for {request_id}: unknown, or its lease has ended"})
            return
        delivered = False
        try:
            if not 0 < last <= len(block_ids):
                send_line(stream, {"error": f"{last} blocks asked for, {len(block_ids)} are kept"})
                return
            send_layers(stream, last, layers(block_ids[-last:]), count)
            delivered = bool(read_line(stream).get("received"))
        finally:
            done(request_id, delivered)
