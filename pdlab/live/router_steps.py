"""What the router does with a request, without doing it: bodies, headers, failures, records.

Everything here is pure, so that each rule of the protocol can be read and tested by itself.  The
protocol is that of vLLM's NIXL connector (0.33): a request is first sent to a prefill server with
``max_tokens`` 1 and ``do_remote_decode``; its answer carries ``kv_transfer_params`` that say where
the blocks lie; the original request goes to a decode server together with these.  Decode pulls the
blocks and streams every token, the first one included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


# RFC 9110, 7.6.1: these speak of one connection and are not passed on.
HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
     "te", "trailer", "transfer-encoding", "upgrade")
)  # fmt: skip
# Made anew for the next hop.  Without accept-encoding, frames come uncompressed and can be read.
REMADE = frozenset(("host", "content-length", "accept-encoding", "expect"))
# The body has been decoded by then.  An encoding that is not one of these cannot be.
DECODED = frozenset(("gzip", "deflate"))
REQUEST_ID = "X-Request-Id"
ERROR_CHARS = 500

ASK_REMOTE_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


def passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that go on to the next hop, in order."""
    headers = list(headers)
    named = {
        name.strip().lower()
        for key, value in headers
        if key.lower() == "connection"
        for name in value.split(",")
    }
    dropped = HOP_BY_HOP | REMADE | named
    return [(key, value) for key, value in headers if key.lower() not in dropped]


def request_headers(headers: Iterable[tuple[str, str]], request_id: str) -> list[tuple[str, str]]:
    """The headers of the request to a server, whose body is passed on decoded and whose answer is to be read."""
    kept = [pair for pair in passed_on(headers) if pair[0].lower() not in ("x-request-id", "content-encoding")]
    return [*kept, (REQUEST_ID, request_id), ("Accept-Encoding", "identity")]


def prefill_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request for the prefill server: one token, not streamed, blocks to be kept for a pull."""
    out = {k: v for k, v in body.items() if k not in ("stream_options", "min_tokens")}
    out |= {"stream": False, "max_tokens": 1, "kv_transfer_params": dict(ASK_REMOTE_DECODE)}
    if "max_completion_tokens" in body or "messages" in body:
        out["max_completion_tokens"] = 1
    return out


def decode_body(body: Mapping[str, Any], transfer: Mapping[str, Any] | None) -> dict[str, Any]:
    """The original request, with where its blocks lie; without, decode computes them itself.

    Whatever transfer parameters the client sent are dropped: blocks named by a stranger could be
    anybody's.
    """
    out = {k: v for k, v in body.items() if k != "kv_transfer_params"}
    if transfer is not None:
        out["kv_transfer_params"] = dict(transfer)
    return out


def transfer_params(answer: bytes) -> dict[str, Any] | None:
    """Prefill's transfer parameters, or None when its first token already ended the answer.

    None is no failure: decode is then asked without parameters.  Its own first token may differ
    from that end, since prefill was asked without ``min_tokens``.
    """
    try:
        params = json.loads(answer).get("kv_transfer_params")
    except (ValueError, AttributeError, RecursionError) as error:
        raise StepFailed("prefill", "broken", f"the answer is no JSON object: {error}") from error
    return dict(params) if isinstance(params, Mapping) and params.get("do_remote_prefill") else None


def token_ids(body: Mapping[str, Any]) -> list[int] | None:
    """The prompt where it was sent as token ids, else None."""
    prompt = body.get("prompt")
    ids = isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt)
    return prompt if ids else None


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Tokens of the prompt: exact for token ids, else the usual four bytes a token."""
    if (ids := token_ids(body)) is not None:
        return len(ids)
    prompt = body.get("prompt")
    text = prompt if isinstance(prompt, str) else json.dumps(prompt or body.get("messages", ""))
    return max(1, len(text.encode()) // 4)


DONE = b"data: [DONE]"  # the last frame of a stream


def frame_error(frame: bytes) -> str | None:
    """The message of an error frame, or None.  HTTP 200 was said before the failure was known."""
    text = frame.lstrip()
    if not text.startswith(b"data:"):
        return None
    head = text[5:40].lstrip()
    if not head.startswith((b'{"error"', b'{"object":"error"', b'{"object": "error"')):
        return None
    return error_message(text[5:].split(b"\n", 1)[0])


def error_message(body: bytes) -> str:
    """The message of an OpenAI error body, or the beginning of whatever came instead."""
    try:
        document = json.loads(body)
        error = document.get("error", document)
        return str(error["message"] if isinstance(error, dict) else error)[:ERROR_CHARS]
    except (ValueError, AttributeError, KeyError, RecursionError):
        return body.decode(errors="replace").strip()[:ERROR_CHARS]


def error_body(message: str, http_status: int) -> dict[str, Any]:
    """An error as OpenAI's API words it."""
    kind = "timeout" if http_status in (408, 504) else "invalid_request_error" if http_status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": http_status}}


def error_frame(message: str, http_status: int) -> bytes:
    """The same inside a stream that has begun."""
    return b"data: " + json.dumps(error_body(message, http_status)).encode() + b"\n\n"


# ── failures ────────────────────────────────────────────────────────────────────────────────


class StepFailed(Exception):
    """One step of a request failed.

    ``step``: prefill or decode.  ``kind``: refused (an HTTP error), unreachable, broken (the
    connection ended early), deadline, error_frame.  ``http_status``: what to tell the client.
    """

    def __init__(self, step: str, kind: str, message: str, http_status: int = 502) -> None:
        super().__init__(message)
        self.step, self.kind, self.message, self.http_status = step, kind, message, http_status

    def __str__(self) -> str:
        return f"{self.step}: {self.message}"


@dataclass(frozen=True, slots=True)
class Route:
    """The servers of one attempt.  ``prefill`` is None where decode (or a replica) does it all.

    ``cached_tokens`` is how much of the prompt decode was believed to hold, None where nobody
    looked; ``choice`` is what the servers were chosen by.
    """

    decode: str
    prefill: str | None = None
    reason: str = ""
    cached_tokens: int | None = None
    choice: str = ""


# Asked after a failed attempt whose client has seen no token yet: another route, or None to give up.
Recovery = Callable[[StepFailed, Route, int], Route | None]


def fail_at_once(failure: StepFailed, route: Route, attempts: int) -> Route | None:
    """No second attempt: the client hears of the failure and decides."""
    return None


# ── what is kept of a request ───────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Journey:
    """Where one request went and when each step was done; one JSON line in the router's log.

    ``received_ns`` is CLOCK_MONOTONIC; ``steps_ns`` count from it.
    """

    request_id: str
    received_ns: int
    routes: list[Route] = field(default_factory=list)
    prompt_tokens: int | None = None
    steps_ns: dict[str, int] = field(default_factory=dict)
    status: str = "ok"
    http_status: int | None = None
    error: str | None = None
    frames: int = 0
    sent_bytes: int = 0
    remote_tokens: int | None = None

    def step(self, name: str, now_ns: int) -> None:
        """Note that ``name`` is done; in a second attempt the later time stands."""
        self.steps_ns[name] = now_ns - self.received_ns

    def line(self) -> str:
        """The record as JSON, with its newline."""
        last = self.routes[-1] if self.routes else Route("")
        document = {
            "request_id": self.request_id,
            "received_ns": self.received_ns,
            "attempts": len(self.routes),
            "prefill": last.prefill,
            "decode": last.decode,
            "reason": last.reason,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": last.cached_tokens,
            "choice": last.choice,
            "routes": [[r.prefill, r.decode, r.reason] for r in self.routes],
            "status": self.status,
            "http_status": self.http_status,
            "error": self.error,
            "steps_ns": self.steps_ns,
            "frames": self.frames,
            "sent_bytes": self.sent_bytes,
            "remote_tokens": self.remote_tokens,
        }
        return json.dumps(document, separators=(",", ":")) + "\n"
