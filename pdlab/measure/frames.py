"""What a stream of server-sent events says: when tokens came, how many, and how it ended.

Every rule for reading a stream stands in this module, once:

* Time: an event arrived when its last byte did, with its chunk's stamp.  Comments, blank lines,
  either line ending, events split over chunks and several events in one chunk are all as SSE has them.
* Tokens: where a frame with choices also carries usage (continuous usage), its tokens are the rise of
  ``completion_tokens``: an empty text can be a token, four tokens can share a frame.  Without usage,
  a frame with text for a choice (content, reasoning, completion text, refusal, tool call) is one token.
  A role frame, an empty frame and a usage-only frame are none.
* Total: the last usage wins.  Where it disagrees with the count, nobody knows which frame carried what:
  ``frame_tokens`` is None and ``output_tokens`` is the usage's.  Text is never tokenised again.
* Status: an error frame fails the request whatever the HTTP status was, and what came before it is kept.
  A stream is complete once a finish reason or the end marker came; one that ends before is failed.
  An answer without any token is failed.  Frames after the end marker are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "failed", "rejected", "timeout", "cancelled"]
Ended = Literal["closed", "timeout", "cancelled"]

_TEXT_KEYS = ("content", "reasoning_content", "reasoning", "refusal", "text")
_FAILED_FINISH = ("abort", "error")  # reasons with which a server ends what it did not finish
_LEFT = {
    "closed": "the stream ended",
    "timeout": "the deadline passed",
    "cancelled": "the client cancelled",
}


@dataclass(frozen=True, slots=True)
class Stream:
    """One request's stream, read.  The fields bear the names of the records' columns."""

    status: Status
    frame_ns: list[int]
    frame_tokens: list[int] | None
    output_tokens: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None


def failure_status(http_status: int | None, error: str = "") -> Status:
    """The status of a request that got no answer: 429 and 503 are rejections, 408 and 504 timeouts."""
    if http_status in (429, 503):
        return "rejected"
    if http_status in (408, 504) or "timeout" in error.lower() or "timed out" in error.lower():
        return "timeout"
    if http_status == 499 or "cancel" in error.lower():
        return "cancelled"
    return "failed"


def read_stream(
    chunks: Iterable[tuple[int, bytes | str]], *, http_status: int = 200, ended: Ended = "closed"
) -> Stream:
    """Read the body of one streamed answer.

    ``chunks`` are (arrival in ns, raw bytes of the body) in order; ``ended`` says how the client left:
    the connection closed, its deadline passed, or it cancelled.
    """
    if http_status != 200:
        text = b"".join(c if isinstance(c, bytes) else c.encode() for _, c in chunks)
        error = f"HTTP {http_status}: {text.decode('utf-8', 'replace')[:500]}"
        return Stream(failure_status(http_status), [], [], 0, error=error)
    return read_events(events(chunks), ended=ended)


def read_events(parts: Iterable[tuple[int, bytes | str]], *, ended: Ended = "closed") -> Stream:
    """Read a stream that is already cut: (arrival in ns, the data of one event), in order."""
    reader = _Reader()
    for arrival_ns, data in parts:
        data = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
        if data.strip() == "[DONE]":
            reader.done = True
            break
        reader.frame(arrival_ns, data)
    return reader.result(ended)


def events(chunks: Iterable[tuple[int, bytes | str]]) -> Iterator[tuple[int, str]]:
    """(arrival in ns, data) of each event of a body; an event without data is left out."""
    rest, data, arrival_ns, saw_cr = b"", [], 0, False
    for arrival_ns, chunk in chunks:
        chunk = chunk.encode() if isinstance(chunk, str) else chunk
        if saw_cr and chunk.startswith(b"\n"):  # a CRLF cut in two
            chunk = chunk[1:]
        saw_cr = chunk.endswith(b"\r") if chunk else saw_cr
        *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if line:
                data += _data(line)
            elif data:
                yield arrival_ns, "\n".join(data)
                data = []
    data += _data(rest)
    if data:  # the last event, closed by the connection instead of a blank line
        yield arrival_ns, "\n".join(data)


def _data(line: bytes) -> list[str]:
    name, _, value = line.partition(b":")
    if name.removeprefix(b"\xef\xbb\xbf") != b"data":
        return []
    return [value.removeprefix(b" ").decode("utf-8", "replace")]


class _Reader:
    """What has been seen of one stream so far."""

    def __init__(self) -> None:
        self.frame_ns: list[int] = []
        self.frame_tokens: list[int] = []
        self.total: int | None = None  # completion_tokens of the latest usage
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.finish_reason: str | None = None
        self.finish_ns = 0
        self.error: str | None = None  # from an error frame
        self.broken: str | None = None
        self.done = False
        self.consistent = True
        self.counted = 0

    def frame(self, arrival_ns: int, data: str) -> None:
        try:
            frame = json.loads(data)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            self.broken = self.broken or f"a frame that is no JSON object: {data[:120]!r}"
            return
        if frame.get("error") or frame.get("object") == "error":
            self.error = self.error or _error_text(frame)
            return
        choices = [c for c in frame.get("choices") or [] if isinstance(c, dict)]
        total = self._usage(frame.get("usage"))
        if choices:
            self._tokens(arrival_ns, choices, total)
        for choice in choices:
            if choice.get("finish_reason"):
                self.finish_reason, self.finish_ns = choice["finish_reason"], arrival_ns

    def _usage(self, usage: Any) -> int | None:
        if not isinstance(usage, dict) or usage.get("completion_tokens") is None:
            return None
        self.total = int(usage["completion_tokens"])
        if usage.get("prompt_tokens") is not None:
            self.prompt_tokens = int(usage["prompt_tokens"])
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict) and details.get("cached_tokens") is not None:
            self.cached_tokens = int(details["cached_tokens"])
        return self.total

    def _tokens(self, arrival_ns: int, choices: list[dict], total: int | None) -> None:
        tokens = sum(map(_has_text, choices)) if total is None else total - self.counted
        if tokens < 0:  # usage fell, or an earlier frame without usage was over-counted
            self.consistent, tokens = False, 0
        self.counted += tokens
        if tokens:
            self.frame_ns.append(arrival_ns)
            self.frame_tokens.append(tokens)

    def result(self, ended: Ended) -> Stream:
        output_tokens = self.counted if self.total is None else self.total
        if output_tokens and not self.frame_ns and self.finish_reason:
            # nothing was visible, usage counts a token: it came with the frame that finished
            self.frame_ns, self.frame_tokens = [self.finish_ns], [output_tokens]
            self.counted = output_tokens
        known = self.consistent and output_tokens == self.counted
        status, error = self._status(output_tokens, ended)
        return Stream(
            status, self.frame_ns, self.frame_tokens if known else None, output_tokens,
            self.prompt_tokens, self.cached_tokens, self.finish_reason, error,
        )  # fmt: skip

    def _status(self, output_tokens: int, ended: Ended) -> tuple[Status, str | None]:
        if self.error:
            return "failed", self.error
        if self.finish_reason in _FAILED_FINISH:
            return "failed", f"the server finished with reason {self.finish_reason!r}"
        if not self.done and self.finish_reason is None:
            status: Status = "failed" if ended == "closed" else ended
            return status, f"{_LEFT[ended]} before a finish reason or [DONE]"
        if self.broken:
            return "failed", self.broken
        if not output_tokens:
            return "failed", "a complete answer without any token"
        return "ok", None


def _has_text(choice: dict[str, Any]) -> bool:
    """Whether a choice carries generated text or part of a tool call."""
    delta = choice.get("delta") if isinstance(choice.get("delta"), dict) else choice
    if any(delta.get(key) for key in _TEXT_KEYS):
        return True
    for call in delta.get("tool_calls") or []:
        function = call.get("function") or {}
        if function.get("name") or function.get("arguments"):
            return True
    return False


def _error_text(frame: dict[str, Any]) -> str:
    error = frame.get("error") or frame
    if isinstance(error, dict):
        return " ".join(str(error[k]) for k in ("code", "type", "message") if error.get(k) is not None)
    return str(error)
