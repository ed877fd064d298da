"""The open-loop client: requests leave on schedule whatever the server does.

    offers = [Offer(seq=0, at_ms=0.0, body=completion("tiny", ids, 64)), …]
    run = run_load("http://127.0.0.1:8000/v1/completions", offers, "out", provenance)

The work is split so that measuring disturbs nothing.  ``client_loop`` sends and receives in a
process of its own and decodes nothing; its pipe ends in a plain ``cat`` that appends to
``spool.bin``; ``client_wire`` decodes the spool when the run is over.  A crash loses only what
was still in flight, and ``resume=True`` sends exactly those requests that the spool has not.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pdlab.errors import BadInput, Failed
from pdlab.live import client_wire
from pdlab.live.client_loop import LEAD_NS
from pdlab.live.post import TIMEOUT_S, post_json
from pdlab.measure import records

SPOOL, LOCK_WAIT_S = "spool.bin", 30.0
MAX_DEADLINE_S = 86_400.0
MAX_AT_MS = 1e12  # 30 years; in nanoseconds it still has to fit 64 bits
POLL_S = 0.2
_SECRET = re.compile(r"//[^/@]*@")


FinishRows = Callable[[list[dict[str, Any]], list[dict[str, Any]]], None]


class ClientFailed(Failed):
    """The client process itself ended early; what it had spooled is kept."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One request to send.  ``at_ms`` counts from the start of the run; ``body`` is JSON-ready."""

    seq: int
    at_ms: float
    body: Mapping[str, Any]
    request_id: str = ""
    warmup: bool = False
    prompt_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """How to send.  ``connections`` are opened before the clock starts; more follow as needed.

    A connection idle for ``idle_limit_s`` is not used again: servers close theirs (uvicorn after
    5 s), and a request sent into a closing connection is lost.
    """

    deadline_s: float = 120.0
    connections: int = 16
    idle_limit_s: float = 4.0
    verify_tls: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("deadline_s", "idle_limit_s"):
            if not 0 < getattr(self, name) <= MAX_DEADLINE_S:
                raise BadInput(f"{getattr(self, name)} s", f"more than 0 and at most {MAX_DEADLINE_S:,.0f}", name)


def completion(
    model: str, prompt: Sequence[int] | str, output_tokens: int, **extra: Any
) -> dict[str, Any]:
    """The body of a streamed completion of exactly ``output_tokens``, with usage in every frame."""
    return {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else [int(token) for token in prompt],
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        **extra,
    }


def ask(url: str, body: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> int:
    """Send one request, outside any measurement; gives its HTTP status once the answer has ended."""
    try:
        post_json(url, body, timeout_s)
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def run_load(
    url: str,
    offers: Sequence[Offer],
    out_dir: str | Path,
    provenance: Mapping[str, Any],
    options: Options = Options(),
    resume: bool = False,
    progress: Callable[[float, float], None] | None = None,
    finish_rows: FinishRows | None = None,
) -> records.Run:
    """Send ``offers`` to ``url``, wait for the last answer, write and return the run.

    ``provenance`` is completed with what the client alone knows (see ``_finish``).  ``progress``
    is called with (seconds gone, seconds planned) a few times a second.  ``finish_rows`` may add
    to the rows, given also the client's sessions, before they are written.  With ``resume``, a
    finished run is returned as it is and an interrupted one is completed.
    """
    endpoint(url)
    out = Path(out_dir)
    offers = _checked(offers)
    if is_finished(out):
        if resume:
            return records.read_run(out)
        raise BadInput(f"a finished run in {out}", "an empty directory", do="Resume, or choose another.")
    out.mkdir(parents=True, exist_ok=True)
    spool_path = out / SPOOL
    if spool_path.exists() and not resume:
        raise BadInput(f"an interrupted run in {out}", "an empty directory", do="Resume, or choose another.")
    with spool_path.open("ab") as spool:
        _lock(spool, spool_path)
        spool.truncate(client_wire.whole_bytes(spool_path))
        _, done = client_wire.settled(spool_path)
        strangers = sorted(done.keys() - {offer.seq for offer in offers})
        if strangers:
            raise BadInput(f"{len(strangers)} answered requests that are not asked for (seq {strangers[0]} first)",
                           "the requests of the interrupted run, all of them", str(out),
                           "Resume with what was asked for then, or choose another directory.")  # fmt: skip
        left = [offer for offer in offers if offer.seq not in done]
        if left:
            _drive(url, left, spool, options, progress)
    return _finish(out, offers, provenance, finish_rows)


def is_finished(out: Path) -> bool:
    """Whether a run there is complete: decoded, written, nothing left to send."""
    return not (out / SPOOL).exists() and (out / records.PROVENANCE).exists()


def _checked(offers: Sequence[Offer]) -> list[Offer]:
    """In order of time, each with an id; refused when a seq comes twice or a time is none."""
    for offer in offers:
        if not 0 <= offer.at_ms <= MAX_AT_MS:
            raise BadInput(f"a request at {offer.at_ms} ms", f"0 to {MAX_AT_MS:.0e} ms", "offers")
    if len({offer.seq for offer in offers}) < len(offers):
        raise BadInput("a seq that comes twice", "one seq a request", "offers")
    return sorted(offers, key=lambda offer: (offer.at_ms, offer.seq))


def request_id(offer: Offer) -> str:
    """The id sent as X-Request-Id, kept through router, servers and records."""
    return offer.request_id or f"r{offer.seq:06d}"


def _lock(spool: Any, path: Path) -> None:
    """One client a directory; the lock is also held by the ``cat`` of a client that was killed."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(spool, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise BadInput(f"another client at work on {path}", "one at a time") from None
            time.sleep(0.05)


def endpoint(url: str) -> SplitResult:
    """The parts of a server's URL; BadInput for one that no request can be sent to."""
    expected = "http://HOST[:PORT][/PATH] or https://…"
    shown = f"url {_SECRET.sub('//…@', url)!r:.80}"
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").encode("idna")
    except ValueError as error:  # brackets, port or a name that no host can have
        raise BadInput(f"{shown} ({error})", expected) from error
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise BadInput(shown, expected)
    if any(not "!" <= letter <= "~" for letter in url):
        raise BadInput(shown, f"{expected}, in ASCII and without spaces")
    if parts.username is not None or parts.password is not None or set(url) & set("?#"):
        # nothing of it would be sent, or it would swallow the path put behind it
        raise BadInput(shown, f"{expected}, and neither name, password, ? nor #")
    return parts


def _schedule(url: str, offers: Sequence[Offer], options: Options) -> bytes:
    """What ``client_loop.read_schedule`` takes."""
    parts = endpoint(url)
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"Host": parts.netloc.rpartition("@")[2], "Content-Type": "application/json",
              "Accept": "text/event-stream", **options.headers}  # fmt: skip
    head = f"POST {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
    config = {
        "host": parts.hostname,
        "port": port,
        "tls": tls,
        "verify": options.verify_tls,
        "head": head,
        "connections": options.connections,
        "deadline_ns": round(options.deadline_s * 1e9),
        "idle_limit_ns": round(options.idle_limit_s * 1e9),
        "parent": os.getpid(),
    }
    lines = [config]
    for offer in offers:
        body = json.dumps(offer.body, separators=(",", ":"))
        lines.append(
            {"seq": offer.seq, "request_id": request_id(offer),
             "due_ns": round(offer.at_ms * 1e6), "body": body}
        )  # fmt: skip
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _drive(
    url: str,
    offers: Sequence[Offer],
    spool: Any,
    options: Options,
    progress: Callable[[float, float], None] | None,
) -> None:
    """Run the timed process until it has ended."""
    schedule = _schedule(url, offers, options)
    planned_s = (offers[-1].at_ms - offers[0].at_ms) / 1000 + LEAD_NS / 1e9
    # In a session of its own: Ctrl-C must not stop it from writing down what it was handed.
    sink = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=spool, stderr=subprocess.PIPE, start_new_session=True)
    loop = subprocess.Popen(
        [sys.executable, "-m", "pdlab.live.client_loop"], stdin=subprocess.PIPE, stdout=sink.stdin
    )
    try:
        sink.stdin.close()  # type: ignore[union-attr]  # the loop holds the only writing end now
        try:
            loop.stdin.write(schedule)  # type: ignore[union-attr]
            loop.stdin.close()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # it has ended: its status says so below
        started = time.monotonic()
        while loop.poll() is None:
            if progress:
                progress(time.monotonic() - started, planned_s)
            try:
                loop.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if loop.poll() is None:
            loop.terminate()
            loop.wait()
        with sink.stderr:  # type: ignore[union-attr]
            said = sink.stderr.read().decode(errors="replace").strip()  # type: ignore[union-attr]
        sink.wait()
    if sink.returncode:  # a full disk, most likely
        raise ClientFailed(f"{spool.name} could not be written ({said.rpartition(': ')[2] or f'status {sink.returncode}'}); "
                           "what was answered before is kept: make room, and resume")  # fmt: skip
    if loop.returncode:
        raise ClientFailed(f"the client process ended with status {loop.returncode}")


def _finish(
    out: Path, offers: Sequence[Offer], provenance: Mapping[str, Any], finish_rows: FinishRows | None
) -> records.Run:
    """Decode the spool, write the run, and only then remove the spool.

    The summary gets the client's sessions: one, unless the run was interrupted and resumed.
    """
    spool_path = out / SPOOL
    by_seq = {offer.seq: offer for offer in offers}
    sessions, entries = client_wire.settled(spool_path)
    rows = {
        seq: client_wire.to_row(
            entry,
            {
                "request_id": request_id(by_seq[seq]),
                "seq": seq,
                "warmup": by_seq[seq].warmup,
                "prompt_tokens": by_seq[seq].prompt_tokens,
                "requested_output_tokens": by_seq[seq].output_tokens,
            },
        )
        for seq, entry in entries.items()
    }
    missing = sorted(by_seq.keys() - rows.keys())
    if missing:
        raise ClientFailed(f"{len(missing)} requests have no record, seq {missing[0]} first; resume")
    summary = dict(provenance.get("summary") or {})
    summary |= {"client_sessions": sessions, "resumed": len(sessions) > 1}
    document = records.provenance(**{**provenance, "summary": summary})
    ordered = [rows[seq] for seq in sorted(rows)]
    if finish_rows:
        finish_rows(ordered, sessions)
    table = records.table_from_rows(ordered)
    records.write_run(out, table, document)
    spool_path.unlink()
    return records.read_run(out)
