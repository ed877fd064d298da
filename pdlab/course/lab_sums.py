"""What labs compute beside a learner's answer, kept out of their cells so that no cell shows it first."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from pdlab.measure import slo
from pdlab.theory import link

Span = tuple[str, float, float]  # a call: name, start, end


def capacities(reports: Mapping[str, Iterable[tuple[float, slo.Report]]]) -> dict[str, float]:
    """Design → the highest tested rate (requests/s) that passes all gates, 0 where none can be stated."""
    return {design: slo.capacity(points).rate_rps or 0 for design, points in reports.items()}


def claim(reached: Mapping[str, float]) -> str:
    """What capacities say of "disaggregated answers more": equal ones leave it open, at any rate and at none.

    Between two tested rates nobody has looked, nor below the lowest.
    """
    more = reached["disaggregated"] - reached["aggregated"]
    return "supported" if more > 0 else "refuted" if more < 0 else "open"


def one_bandwidth(*rates_gb_s: Sequence[float]) -> str:
    """What curves (medians in GB/s by size, one curve a transport) say of "a link has a bandwidth"."""
    return "contradicted" if any(max(curve) >= 2 * min(curve) for curve in rates_gb_s) else "not shown"


def by_division(entries: Iterable[Mapping[str, Any]], rates_gb_s: Mapping[str, float]) -> list[tuple[float, float]]:
    """Of each transfer in a byte ledger: NIXL's own ms, and the ms of its bytes at its transport's rate."""
    return [(one["transfer_ms"], link.bandwidth_floor_ms(one["counter_bytes"], rates_gb_s[one["transport"]])) for one in entries]


def near(tried: Iterable[tuple[float, float]]) -> int:
    """How many of these (clock, division) lie within a quarter of the division."""
    return sum(abs(clock / division - 1) <= 0.25 for clock, division in tried)


def verdict_behind_ray(reached: Mapping[str, float]) -> dict[str, Any]:
    """Lab L5's verdict on a run with these capacities."""
    return {**reached, "claim": claim(reached), "kv_path": "nixl", "evidence": "measured"}


def mean_in_system(sent_ns: Sequence[int], end_ns: Sequence[int]) -> float:
    """Requests in the system on average, from the first sending to the last end, by Little's law."""
    stays = [end - sent for sent, end in zip(sent_ns, end_ns, strict=True)]
    return float(sum(map(int, stays)) / (int(max(end_ns)) - int(min(sent_ns))))


def waits_after_prefill(rows: Iterable[Mapping[str, Any]], up_to_tokens: int) -> tuple[float | None, float | None]:
    """Median ms from prefill's end (the router's note) to the first token: of prompts up to that length, and of longer ones.

    Only what was answered, counts and went through prefill; None for a side without such a request.
    """
    sides: tuple[list[float], list[float]] = [], []
    for row in rows:
        done_ns = (row["stage_ns"] or {}).get("router_prefill_done")
        if row["status"] == "ok" and not row["warmup"] and done_ns is not None:
            sides[row["prompt_tokens"] > up_to_tokens].append((row["frame_ns"][0] - done_ns) / 1e6)
    short, long = (float(median(waits)) if waits else None for waits in sides)
    return short, long


def own_times(spans: Sequence[Span]) -> dict[str, float]:
    """Name → time of its own, of calls nested one in the other, outermost first."""
    lengths = [end - start for _, start, end in spans]
    return {name: length - inside for (name, _, _), length, inside in zip(spans, lengths, [*lengths[1:], 0], strict=False)}


def own_medians(requests: Iterable[Sequence[Span]]) -> dict[str, float]:
    """Name → median over requests of its own time."""
    found: dict[str, list[float]] = {}
    for spans in requests:
        for name, own in own_times(spans).items():
            found.setdefault(name, []).append(own)
    return {name: float(median(values)) for name, values in found.items()}


def sum_by_middles(sizes: Iterable[float], bounds: Sequence[float]) -> float:
    """The sum of ``sizes`` once each has become the middle of its bucket; ``bounds`` ascend, the lowest bucket begins at 0."""
    edges = [0, *bounds]
    uppers = (bisect.bisect_left(edges, size) for size in sizes)
    return sum((edges[upper - 1] + edges[upper]) / 2 for upper in uppers)
