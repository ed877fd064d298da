"""What the router tries after a failed attempt: at most one other route, and never after a token.

The router asks only while its client has seen nothing; once a token has gone out, a second
attempt would send it again.  A retry is a new route from the start: a fresh prefill, or none.
Transfer parameters of the failed attempt are never used again, since by now their blocks may
hold another request's prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdlab.errors import BadInput
from pdlab.live.router_steps import Recovery, Route, StepFailed, fail_at_once

MODES = ("fail", "retry")


def retry_once(prefill: Sequence[str], decode: Sequence[str]) -> Recovery:
    """One retry: on another prefill server where there is one, else decode computes the prompt itself.

    A request that a server refused as bad (4xx) is the client's to mend.  A decode server that cannot
    be reached, or that broke off, is replaced where the pool has another.
    """

    def recover(failure: StepFailed, route: Route, attempts: int) -> Route | None:
        if attempts > 1 or (failure.kind == "refused" and 400 <= failure.http_status < 500):
            return None
        chosen = route.decode
        if failure.step == "decode" and failure.kind in ("unreachable", "broken"):
            others = [server for server in decode if server != chosen]
            if not others:
                return None
            chosen = others[0]
        if route.prefill is None:
            return Route(chosen, None, f"retry after {failure.kind}") if chosen != route.decode else None
        spare = [server for server in prefill if server != route.prefill]
        where = "another prefill" if spare else "local recompute"
        return Route(chosen, spare[0] if spare else None, f"retry after {failure.step} {failure.kind}: {where}")

    return recover


def from_name(mode: str, prefill: Sequence[str], decode: Sequence[str]) -> Recovery:
    """``fail`` tells the client at once; ``retry`` is :func:`retry_once`."""
    if mode not in MODES:
        raise BadInput(f"on-failure {mode!r}", f"one of {', '.join(MODES)}", "router")
    return retry_once(prefill, decode) if mode == "retry" else fail_at_once
