"""From the client's spool to rows of the records: HTTP by h11, tokens by ``measure.frames``.

All of this runs after the last answer has come.  A frame's time is the time of the read that
brought its last byte.  Where one read brought several frames, only the last of them is known that
well: the row then says how wide the doubt is (``stage_ns["stamp_doubt"]``).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11

from pdlab.live.client_loop import ENTRY, MAGIC, TIMESPEC
from pdlab.measure import frames

MAX_HEAD_BYTES = 1 << 20
CUT_OFF_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the spool: what was noted, and the reads as (time in run ns, bytes)."""

    meta: dict[str, Any]
    reads: list[tuple[int, bytes]]
    stamp_source: str


def read_spool(path: str | Path) -> Iterator[Entry]:
    """The whole entries of a spool, in order; a torn last one (a crash) is left out."""
    data = Path(path).read_bytes()
    for body, stop, meta_bytes, count in _spans(data):
        yield _entry(data[body:stop], meta_bytes, count)


def settled(path: str | Path) -> tuple[list[dict[str, Any]], dict[int, Entry]]:
    """The sessions of a spool, and for each seq the entry that counts: the last one.

    A session that was cut off (it has no closing entry) was often cut off together with router and
    servers.  What failed in its last second failed for that reason, and doesn't count.
    """
    sessions: list[dict[str, Any]] = []
    kept: dict[int, Entry] = {}
    current: list[Entry] = []
    for entry in read_spool(path):
        if "session" in entry.meta:
            kept |= _without_casualties(current)
            current = []
            sessions.append({key: value for key, value in entry.meta.items() if key != "session"})
        elif "closed" in entry.meta:
            kept |= {one.meta["seq"]: one for one in current}
            current = []
        else:
            current.append(entry)
    return sessions, kept | _without_casualties(current)


def _without_casualties(cut_off: list[Entry]) -> dict[int, Entry]:
    last_ns = max((entry.meta["end_ns"] for entry in cut_off), default=0)
    return {
        entry.meta["seq"]: entry
        for entry in cut_off
        if entry.meta["end_ns"] < last_ns - CUT_OFF_NS or not _unsuccessful(entry)
    }


def _unsuccessful(entry: Entry) -> bool:
    """Whether an exchange failed or was refused, on the wire or in what was said on it."""
    if entry.meta["outcome"] != "complete":
        return entry.meta["outcome"] == "failed"
    http_status, body = read_answer(entry.reads)
    return frames.read_stream(body, http_status=http_status or 200).status != "ok"


def whole_bytes(path: str | Path) -> int:
    """How much of the spool consists of whole entries."""
    return max((stop for _, stop, _, _ in _spans(Path(path).read_bytes())), default=0)


def _spans(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(start of the content, end, bytes of JSON, reads) of each whole entry."""
    at = 0
    while at + ENTRY.size <= len(data):
        magic, meta_bytes, count, raw_bytes = ENTRY.unpack_from(data, at)
        body = at + ENTRY.size
        stop = body + meta_bytes + count * (16 + TIMESPEC.size) + raw_bytes
        if magic != MAGIC or stop > len(data):
            return
        yield body, stop, meta_bytes, count
        at = stop


def _entry(body: bytes, meta_bytes: int, count: int) -> Entry:
    meta = json.loads(body[:meta_bytes])
    at = meta_bytes
    user, sizes = array("q"), array("q")
    user.frombytes(body[at : at + 8 * count])
    sizes.frombytes(body[at + 8 * count : at + 16 * count])
    at += 16 * count
    stamps = [
        TIMESPEC.unpack_from(body, at + i * TIMESPEC.size) for i in range(count if meta.get("kernel") else 0)
    ]
    at += count * TIMESPEC.size
    t0 = meta.get("t0_ns", 0)
    reads = []
    for i in range(count):
        when = user[i] - t0
        if stamps and any(stamps[i]):  # the end of a connection carries no stamp
            seconds, nanoseconds = stamps[i]
            when = seconds * 10**9 + nanoseconds + meta["offset_ns"] - t0
        reads.append((when, body[at : at + sizes[i]]))
        at += sizes[i]
    stamped = stamps and all(any(s) for s, size in zip(stamps, sizes, strict=True) if size)
    return Entry(meta, reads, "kernel" if stamped else "user")


def read_answer(reads: list[tuple[int, bytes]]) -> tuple[int | None, list[tuple[int, bytes]]]:
    """HTTP status and the body as (time in run ns, bytes), with the chunked framing taken off.

    The status is None where no whole head came.  What was cut short is returned as far as it goes.
    """
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    status: int | None = None
    body: list[tuple[int, bytes]] = []
    try:
        for when, data in reads:
            connection.receive_data(data)
            while (event := connection.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    body.append((when, bytes(event.data)))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                    return status, body
    except h11.RemoteProtocolError:
        pass  # cut short, or not HTTP: what came before it stands
    return status, body


def to_row(entry: Entry, offer: dict[str, Any]) -> dict[str, Any]:
    """The records row of one exchange; ``offer`` holds what was known when it was planned."""
    meta = entry.meta
    http_status, body = read_answer(entry.reads)
    ended: frames.Ended = "timeout" if meta["outcome"] == "timeout" else "closed"
    stream = frames.read_stream(body, http_status=http_status or 200, ended=ended)
    ok = stream.status == "ok"
    errors = [] if ok else [stream.error, meta["error"]]
    doubt_ns = stamp_doubt_ns(stream.frame_ns, [when for when, _ in entry.reads], meta["sent_ns"])
    known_prompt = offer["prompt_tokens"] if stream.prompt_tokens is None else stream.prompt_tokens
    return {
        **offer,
        "scheduled_ns": meta["due_ns"],
        "sent_ns": meta["sent_ns"],
        "end_ns": entry.reads[-1][0] if ok else meta["end_ns"],
        "frame_ns": stream.frame_ns,
        "frame_tokens": stream.frame_tokens,
        "prompt_tokens": known_prompt,
        "output_tokens": stream.output_tokens,
        "cached_tokens": stream.cached_tokens,
        "status": stream.status,
        "http_status": http_status,
        "error": "; ".join(filter(None, errors)) or None,
        "attempts": 1,
        "connect_ns": meta["connect_ns"],
        "new_connection": meta["new_connection"],
        "stamp_source": entry.stamp_source,
        "stage_ns": {"stamp_doubt": doubt_ns} if doubt_ns else None,
    }


def stamp_doubt_ns(frame_ns: list[int], read_ns: list[int], sent_ns: int) -> int:
    """How far the worst-known frame time may be off: 0 where every token frame had its own read.

    Frames that came in one read bear that read's time.  All but the last of them may have come at
    any time since the read before it, and in the first read at any time since the request was sent.
    """
    previous = dict(zip(read_ns, [sent_ns, *read_ns], strict=False))
    shared = {here for here, following in zip(frame_ns, frame_ns[1:], strict=False) if here == following}
    return max((when - previous[when] for when in shared), default=0)
