"""Workloads: who asks, when, with how many tokens, and which prompts begin alike.

A prompt is described as Mooncake describes it: by one hash id for each block of tokens.  An id
stands for the whole prefix up to the end of its block, so equal ids mean equal prompts up to
there.  ``pdlab.measure.traces`` reads and writes the files.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdlab.errors import BadInput

MOONCAKE_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a schedule.  ``at_ms`` counts from the start of the run."""

    seq: int
    at_ms: float
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...]
    kind: str = "all"


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order in which they are sent, and the block size of their hash ids."""

    requests: tuple[Request, ...]
    block_tokens: int
    origin: str = ""
    prefixes_known: bool = True  # False where the source has lengths but no content

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of request in a population.

    ``share`` is its part of all requests.  The first ``shared_tokens`` of a prompt (rounded down
    to whole blocks) are common to the requests of one of ``groups`` groups, chosen at random.
    """

    name: str
    share: float
    prompt_tokens: int
    output_tokens: int
    shared_tokens: int = 0
    groups: int = 1


# ── arrivals ────────────────────────────────────────────────────────────────────────────────


def poisson_ms(rate_rps: float, count: int, seed: int) -> list[float]:
    """``count`` arrival times in ms of a Poisson process, from one random stream.

    The times are never stretched to end at a round number: that would take the randomness out
    of the rate, and with it the bursts that make queues.  One seed gives one pattern of gaps at
    every rate, so two rates differ in speed alone.
    """
    positive(rate_rps, "a rate in requests/s", "rate_rps")
    stream = random.Random(seed)  # random() is reproducible across Python versions by promise
    now, times = 0.0, []
    for _ in range(count):
        now -= math.log(1.0 - stream.random()) * 1000.0 / rate_rps
        times.append(now)
    return times


# ── populations ─────────────────────────────────────────────────────────────────────────────


def population(
    kinds: Sequence[Kind], arrivals_ms: Sequence[float], seed: int, block_tokens: int
) -> Trace:
    """One request for each arrival, its kind drawn by share; same seed, same trace.

    Kinds are drawn from a stream of their own, so another rate meets the same prompts.
    """
    if not kinds:
        raise BadInput("no kinds of request", "at least one Kind", "population")
    positive(block_tokens, "whole tokens a block", "block_tokens")
    stream = random.Random(f"population-{seed}")
    ids = Ids()
    heads = {
        (kind.name, group): tuple(ids.take(kind.shared_tokens // block_tokens))
        for kind in kinds
        for group in range(kind.groups)
    }
    requests = []
    for seq, at_ms in enumerate(arrivals_ms):
        kind = stream.choices(kinds, weights=[k.share for k in kinds])[0]
        head = heads[kind.name, stream.randrange(kind.groups)]
        own = blocks(kind.prompt_tokens, block_tokens) - len(head)
        if own < 0 or kind.shared_tokens > kind.prompt_tokens:
            raise BadInput(
                f"{kind.shared_tokens} shared tokens in a prompt of {kind.prompt_tokens}",
                "shared_tokens no larger than prompt_tokens",
                f"kind {kind.name!r}",
            )
        requests.append(
            Request(
                seq,
                at_ms,
                kind.prompt_tokens,
                kind.output_tokens,
                head + tuple(ids.take(own)),
                kind.name,
            )
        )
    return Trace(tuple(requests), block_tokens, f"population, seed {seed}")


def uniform(
    prompt_tokens: int,
    output_tokens: int,
    arrivals_ms: Sequence[float],
    block_tokens: int = MOONCAKE_BLOCK_TOKENS,
    shared_tokens: int = 0,
    groups: int = 1,
    seed: int = 0,
) -> Trace:
    """Requests all of one shape; ``shared_tokens`` > 0 makes prompts begin alike (a warm cache)."""
    kind = Kind("all", 1.0, prompt_tokens, output_tokens, shared_tokens, groups)
    return population([kind], arrivals_ms, seed, block_tokens)


def cold(trace: Trace) -> Trace:
    """The same requests with no block in common: no cache can help."""
    ids = Ids()
    fresh = tuple(replace(r, hash_ids=tuple(ids.take(len(r.hash_ids)))) for r in trace)
    return replace(trace, requests=fresh, origin=f"{trace.origin}, made cold".lstrip(", "))


# ── cutting and stretching ──────────────────────────────────────────────────────────────────


def head(trace: Trace, count: int) -> Trace:
    """The first ``count`` requests."""
    return replace(trace, requests=trace.requests[:count])


def window(trace: Trace, start_ms: float, end_ms: float) -> Trace:
    """The requests with start ≤ at < end, renumbered, and the clock set to 0 at ``start_ms``."""
    inside = [r for r in trace if start_ms <= r.at_ms < end_ms]
    moved = tuple(replace(r, seq=i, at_ms=r.at_ms - start_ms) for i, r in enumerate(inside))
    return replace(trace, requests=moved)


def scale_time(trace: Trace, factor: float) -> Trace:
    """Every arrival at ``factor`` times its time: 0.5 doubles the rate and keeps its pattern."""
    positive(factor, "a factor above 0", "scale_time")
    return replace(trace, requests=tuple(replace(r, at_ms=r.at_ms * factor) for r in trace))


# ── prompts ─────────────────────────────────────────────────────────────────────────────────


def token_ids(
    request: Request, vocab_size: int, block_tokens: int, first_id: int = 100
) -> np.ndarray:
    """The prompt as token ids (int64, ``prompt_tokens`` of them), the same on every machine.

    A block's tokens depend on its hash id alone, so two prompts share exactly the prefix that
    their ids say.  A block opens with its id written in base ``vocab_size - first_id``, lowest
    digit first: two ids therefore differ within the first tokens, however small the blocks of
    the engine's own cache are.  Ids below ``first_id`` are left out, since tokenisers commonly
    keep their control tokens there; where a model keeps them at the end, pass a smaller
    ``vocab_size``.
    """
    span = vocab_size - first_id
    if span < 2:
        raise BadInput(
            f"vocab_size {vocab_size}", f"more than {first_id + 1}", "token_ids",
            "Pass a smaller first_id for a tiny vocabulary.",
        )  # fmt: skip
    if len(request.hash_ids) != blocks(request.prompt_tokens, block_tokens):
        raise BadInput(
            f"{len(request.hash_ids)} hash ids",
            f"{blocks(request.prompt_tokens, block_tokens)} "
            f"(= {request.prompt_tokens} tokens in blocks of {block_tokens}, rounded up)",
            f"request {request.seq}",
            "Pass the block size that the trace declares.",
        )
    parts = [_block(hash_id, block_tokens, span) for hash_id in request.hash_ids]
    tokens = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return first_id + tokens[: request.prompt_tokens]


def _block(hash_id: int, tokens: int, span: int) -> np.ndarray:
    """The tokens of one block, in [0, span)."""
    place = np.arange(tokens, dtype=np.uint64)
    out = (_mix(place + np.uint64((hash_id * 0x9E3779B97F4A7C15) % 2**64)) % np.uint64(span)).astype(
        np.int64
    )
    rest, at = hash_id, 0
    while at < tokens and (rest or at == 0):
        rest, out[at] = divmod(rest, span)
        at += 1
    return out


def _mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser: a fixed scramble, so that prompts outlive numpy's generators."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


# ── what a trace holds ──────────────────────────────────────────────────────────────────────


def hit_ratio(trace: Trace) -> float:
    """The part of all prompt blocks that an endless prefix cache, empty at first, would hold."""
    seen: set[int] = set()
    hits = total = 0
    for request in trace:
        hits += sum(1 for i in request.hash_ids if i in seen)
        total += len(request.hash_ids)
        seen.update(request.hash_ids)
    return hits / total if total else 0.0


def summary(trace: Trace) -> dict[str, Any]:
    """Counts, rate, lengths in tokens, prefix reuse and kinds, ready for JSON."""
    if not trace.requests:
        raise BadInput("no request", "at least one", trace.origin or "trace")
    span_s = (trace.requests[-1].at_ms - trace.requests[0].at_ms) / 1000
    kinds: dict[str, int] = {}
    for request in trace:
        kinds[request.kind] = kinds.get(request.kind, 0) + 1
    return {
        "origin": trace.origin,
        "requests": len(trace),
        "duration_s": span_s,
        "rate_rps": (len(trace) - 1) / span_s if span_s > 0 else None,
        "prompt_tokens": _spread([r.prompt_tokens for r in trace]),
        "output_tokens": _spread([r.output_tokens for r in trace]),
        "block_tokens": trace.block_tokens,
        "block_hit_ratio": hit_ratio(trace) if trace.prefixes_known else None,
        "kinds": dict(sorted(kinds.items())),
    }


def _spread(values: Sequence[int]) -> dict[str, float]:
    p50, p95, p99 = (float(v) for v in np.percentile(values, [50, 95, 99]))
    return {
        "mean": float(np.mean(values)), "p50": p50, "p95": p95, "p99": p99, "max": int(max(values)),
    }  # fmt: skip


# ── small things ────────────────────────────────────────────────────────────────────────────


class Ids:
    """Hash ids that have not been used yet."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        first, self._next = self._next, self._next + count
        return range(first, self._next)


def blocks(tokens: int, block_tokens: int) -> int:
    """How many blocks hold ``tokens``, the last one perhaps in part."""
    return -(-tokens // block_tokens)


def positive(value: float, expected: str, where: str) -> None:
    """Refuse what is not a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise BadInput(str(value), expected + " (above 0)", where)
