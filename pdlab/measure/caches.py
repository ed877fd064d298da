"""What a run says of its caches besides its label: prompt tokens by where they came from.

A sweep looks at its servers' counters before, during and after each run and keeps every look in
``server_metrics.jsonl``.  A counter's growth between the first and the last look of a session is
what the run did.  Where a run's rows know each request's cached tokens, those are counted as well.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pdlab.documents import parse_json
from pdlab.errors import BadInput
from pdlab.measure.foreign import Found
from pdlab.measure.records import Run
from pdlab.theory._check import shown

SERVER_METRICS = "server_metrics.jsonl"
COUNTER = "prompt_tokens_by_source_total[{}]"
COMPUTED, HIT = "local_compute", "local_cache_hit"
_AWAY = "Without this file less is known of the run's caches, and the rest is read: move it away."


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Prompt tokens that the servers of a run computed, and those they found in their prefix caches.

    Tokens that came from another server are in neither.  Warm-up requests are in both.
    """

    computed: int
    hit: int


def counted(directory: Path | None) -> PromptTokens | None:
    """By the servers' counters, all servers together; None where they were not looked at twice."""
    path = directory / SERVER_METRICS if directory else None
    if path is None or not path.exists():
        return None
    last: dict[str, tuple[float, dict[str, float]]] = {}
    grown: dict[str, float] = defaultdict(float)
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        where = f"{path}, line {number}"
        look = Found(parse_json(line, where, "a look at one server", _AWAY), where)
        server, at_ns = look.key("server").text(), look.key("t_ns").number()
        if server is None or at_ns is None:
            raise BadInput(shown(look.value), "a look at one server, with server and t_ns", where, _AWAY)
        counts = {source: look.key(COUNTER.format(source)).number() for source in (COMPUTED, HIT)}
        if counts[HIT] is None:  # a look that failed, or an engine without this counter
            continue
        counts = {source: count or 0.0 for source, count in counts.items()}
        # After an interruption the clock starts again, with new servers whose counters do, too.
        before = last.get(server)
        if before and before[0] < at_ns:
            for source in (COMPUTED, HIT):
                grown[source] += counts[source] - before[1][source]
        last[server] = at_ns, counts
    return PromptTokens(round(grown[COMPUTED]), round(grown[HIT])) if grown else None


def requests_with_hits(table: pa.Table) -> int | None:
    """How many requests found part of their prompt in a cache, by their own rows; None where no row says."""
    column = table["cached_tokens"]
    if column.null_count == len(column):
        return None
    return int(pc.sum(pc.greater(column, 0)).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of a run's caches, in words, and whether it speaks against the run's label."""

    said: str
    contradicts: bool


def evidence(run: Run, judged: pa.Table) -> Evidence | None:
    """What shows whether ``run`` was as its ``cache_state`` says; None where it kept nothing of the kind.

    A cold run finds nothing in a cache, a warm one something.
    """
    state, tokens, requests = run.provenance.get("cache_state"), counted(run.directory), requests_with_hits(judged)
    if requests is not None and (requests or tokens is None):
        said, hit = f"{requests} of {judged.num_rows} requests found cached tokens", requests > 0
    elif tokens:
        said, hit = f"{tokens.hit:,} of {tokens.computed + tokens.hit:,} prompt tokens from a prefix cache", tokens.hit > 0
    else:
        return None
    return Evidence(said, hit if state == "cold" else state == "warm" and not hit)
