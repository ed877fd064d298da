"""Read what Dynamo's router decided out of the frontend's own log.

With ``DYN_LOGGING_JSONL=1`` the log has one JSON object a line, and at level debug the router
writes one line for each conditional decision: the request's id, the prompt's tokens, how many it
takes for cached on the decode worker, and whether it passes remote prefill by.  A decision that
failed is another line; such a request goes remote without having been decided, so it is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

DECIDED = "Conditional disagg decision"
FAILED = "Conditional disagg decision failed; falling back to remote prefill"


@dataclass(frozen=True, slots=True)
class Logged:
    """One decision as the router wrote it; token counts are its own."""

    request_id: str
    prompt_tokens: int
    cached_on_decode_tokens: int
    uncached_tokens: int
    remote: bool

    @property
    def side(self) -> str:
        """``"remote"`` or ``"local"``."""
        return "remote" if self.remote else "local"


def read(lines: Iterable[str]) -> tuple[dict[str, Logged], dict[str, str]]:
    """The decisions and the failures of a log, each by request id.  Other lines are passed over."""
    decisions: dict[str, Logged] = {}
    failures: dict[str, str] = {}
    for line in lines:
        found = _fields(line)
        if found.get("message") == FAILED:
            failures[str(found["request_id"])] = str(found.get("error", ""))
        elif found.get("message") == DECIDED:
            logged = Logged(
                str(found["request_id"]), int(found["prompt_tokens"]), int(found["cached_tokens"]),
                int(found["net_new_tokens"]), not _true(found["bypass"]),
            )  # fmt: skip
            decisions[logged.request_id] = logged
    return decisions, failures


def _fields(line: str) -> dict[str, Any]:
    """The keys of one log line, or none: start-up messages of Python are not JSON."""
    try:
        whole = json.loads(line)
    except ValueError:
        return {}
    return whole if isinstance(whole, dict) else {}


def _true(value: Any) -> bool:
    return value is True or value == "true"
