"""Latency, throughput and verdict of one run, by definitions that are stated here, once.

* TTFT: from send to the first frame with an output token (``from schedule``: from the time it was due).
* TPOT: (last token - first token) / (tokens - 1); undefined below ``output_tokens_minimum_for_tpot``.
* ITL: gaps between successive frames that carried tokens, of all successful requests pooled; tokens that
  share a frame came together, and nobody waited between them.  Each request's largest gap is judged.
* E2E: from send to the last token.  Usage frames and end markers are no tokens.
* Latencies are of successful requests; error rate and attainment are of all that were offered.
* Throughput and goodput: successful, or good, requests that ended within the window, per second of it.
* Percentiles: numpy's ``linear`` method.  Interval on attainment: Wilson, 95 %.
* A request is good, bad, or, where its source lacks what is needed to tell, unknown.  A gate that the
  unknown ones could tip is *not evaluable*; so is one whose sample is too small to be passed at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from pdlab.errors import BadInput
from pdlab.measure.columns import Columns, columns
from pdlab.measure.plan import NUMERATOR, SUCCESSFUL_ONLY, Acceptance
from pdlab.measure.records import Run

NS_PER_MS, NS_PER_S = 1e6, 1e9
Z_95 = 1.959963984540054  # two-sided 95 % of the normal distribution
LAG_SHARE_OF_TTFT = 0.05  # a client later than this share of the TTFT limit moves the verdict itself
QUEUE_MIN_REQUESTS = 40

REFERENCE_ACCEPTANCE = Acceptance(
    ttft_max_ms=2000, tpot_max_ms=50, max_itl_per_request_ms=200, numerator=NUMERATOR,
    slo_attainment_min=0.95, error_rate_max=0.01, require_no_sustained_queue_growth=True,
)  # fmt: skip

Result = Literal["pass", "fail", "not_evaluable"]


@dataclass(frozen=True, slots=True)
class Stats:
    """A distribution in ms; all null where nothing was observed."""

    n: int
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Attainment:
    """Share of requests that are good.  A share is null where unknown requests leave it open."""

    good: int
    unknown: int
    denominator: int
    all_offered: float | None
    successful: float | None
    at_least: float | None
    at_most: float | None
    interval: tuple[float, float] | None  # of the share over the plan's denominator


@dataclass(frozen=True, slots=True)
class QueueTrend:
    """Requests in the system: mean of each quarter of the arrivals, and whether they keep rising."""

    result: Literal["steady", "growing", "not_evaluable"]
    quarter_means: list[float] = field(default_factory=list)
    rise: float | None = None  # requests, from the second quarter to the last
    noise: float | None = None  # rise that the arrivals' own chance could make
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of the verdict."""

    name: str
    value: float | str | None
    limit: float | str
    result: Result
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is said about one run; latencies in ms, rates in requests/s."""

    name: str
    label: str | None
    source: str | None
    design: str | None
    offered_rate_rps: float | None
    offered: int
    succeeded: int
    failed: int
    by_status: dict[str, int]
    one_token: int
    error_rate: float | None
    window_s: float | None
    window_source: str
    throughput_rps: float | None
    goodput_rps: float | None
    ttft_ms: Stats
    ttft_from_schedule_ms: Stats
    tpot_ms: Stats
    itl_ms: Stats
    max_itl_ms: Stats
    e2e_ms: Stats
    joint_attainment: Attainment
    dispatch_lag_ms: Stats
    queue_trend: QueueTrend
    gates: list[Gate]
    verdict: Result
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return asdict(self)


# ---------------------------------------------------------------- small statistics


def stats(values_ns: np.ndarray) -> Stats:
    """Mean, percentiles (numpy linear) and maximum in ms of times in ns; order does not matter."""
    if not len(values_ns):
        return Stats(0)
    if values_ns.dtype.kind == "f":
        values_ns = np.sort(values_ns)  # one order of summing: permuting the requests changes no digit
    p50, p95, p99 = np.percentile(values_ns, [50, 95, 99], method="linear")
    # whole nanoseconds add up exactly, as long as 64 bits hold their sum
    exact = values_ns.dtype.kind == "f" or float(np.abs(values_ns).max()) * len(values_ns) < 2**63
    mean = (values_ns if exact else values_ns.astype(float)).sum() / len(values_ns)
    return Stats(len(values_ns), *(float(x) / NS_PER_MS for x in (mean, p50, p95, p99, values_ns.max())))


def wilson(good: int, n: int) -> tuple[float, float] | None:
    """Wilson's score interval for a share of ``good`` in ``n``; None for n = 0."""
    if n == 0:
        return None
    p, z2 = good / n, Z_95 * Z_95
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # rounding may not leave the ends a hair inside
    return 0.0 if good == 0 else centre - half, 1.0 if good == n else centre + half


def requests_needed(attainment_min: float) -> int:
    """The fewest requests with which a flawless run shows ``attainment_min``: its Wilson bound reaches it.

    With n of n good the lower bound is n / (n + z²), so n >= z² p / (1 - p): 73 for 95 %.
    A gate of exactly 1 can't be shown by any sample; one request may at least refute it.
    """
    if attainment_min >= 1:
        return 1
    return max(1, math.ceil(Z_95 * Z_95 * attainment_min / (1 - attainment_min) - 1e-9))


# ---------------------------------------------------------------- judging requests


def _three_valued(limit_ms: float | None, value_ns: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(certainly met, certainly missed) of one condition; neither where the value is not known."""
    if limit_ms is None:
        return np.ones(len(known), bool), np.zeros(len(known), bool)
    within = value_ns <= limit_ms * NS_PER_MS
    return known & within, known & ~within


def _judge(
    c: Columns, acceptance: Acceptance, min_tokens: int, run_max_itl_ms: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(good, unknown, counted) by request."""
    short = c.ok & c.verified & c.has_tokens & (c.tokens < min_tokens)
    span = (c.last - c.first).astype(float)
    tpot = span / np.maximum(c.tokens - 1, 1)
    timed = c.has_times & c.has_sent
    met, missed = _three_valued(acceptance.ttft_max_ms, c.first - c.sent, timed)

    tpot_known = c.has_times & c.has_tokens & c.verified & (c.tokens >= min_tokens)
    tpot_met, tpot_missed = _three_valued(acceptance.tpot_max_ms, tpot, tpot_known)
    if acceptance.tpot_max_ms is not None:
        if acceptance.one_token_policy == "not_met":
            tpot_missed |= short
        elif acceptance.one_token_policy == "met_without_tpot":
            tpot_met |= short
    itl_met, itl_missed = _three_valued(acceptance.max_itl_per_request_ms, c.max_gap, c.has_frames)
    if acceptance.max_itl_per_request_ms is not None:
        limit_ns = acceptance.max_itl_per_request_ms * NS_PER_MS
        bounded = c.has_times & ~c.has_frames
        # without per-frame times: no gap exceeds the whole span, and the largest is at least the mean
        itl_met |= bounded & (span <= limit_ns)
        itl_missed |= bounded & tpot_known & (tpot > limit_ns)
        if run_max_itl_ms is not None and run_max_itl_ms <= acceptance.max_itl_per_request_ms:
            itl_met |= c.has_times & ~itl_missed
    good = c.ok & c.verified & met & tpot_met & itl_met
    bad = ~c.ok | missed | tpot_missed | itl_missed
    counted = np.ones(c.n, bool)
    if acceptance.one_token_policy == "excluded":
        counted &= ~short
    if acceptance.denominator == SUCCESSFUL_ONLY:
        counted &= c.ok
    return good & counted, ~good & ~bad & counted, counted


def _queue_trend(c: Columns, starts_unknown: bool) -> QueueTrend:
    """Whether requests in the system keep rising over the arrivals.

    Means over the four quarters of the arrival span; the first holds the start-up and is not judged.
    *Growing* needs each later quarter above the one before it, and a rise of more than two standard
    deviations of the number of arrivals in that span (Poisson: its square root).
    """
    arrived = np.where(c.has_scheduled, c.scheduled, c.sent)
    known = (c.has_scheduled | c.has_sent) & (c.has_end | c.has_times)
    left = np.where(c.has_end, c.end, c.last)
    if starts_unknown:
        return QueueTrend("not_evaluable", reason="the source has no start times")
    if known.sum() < QUEUE_MIN_REQUESTS:
        return QueueTrend("not_evaluable", reason=f"{int(known.sum())} requests with times, {QUEUE_MIN_REQUESTS} needed")
    if known.sum() < 0.95 * c.n:
        return QueueTrend("not_evaluable", reason="more than 5 % of the requests have no start or end time")
    arrived, left = arrived[known], left[known]
    low, high = arrived.min(), arrived.max()
    if high == low:
        return QueueTrend("not_evaluable", reason="all requests arrived at once")
    edges = np.linspace(low, high, 5)
    means = [
        float((np.minimum(left, b) - np.clip(arrived, a, b)).clip(min=0).sum() / (b - a))
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    rise = means[3] - means[1]
    noise = 2 * math.sqrt(((arrived > edges[1]) & (arrived <= edges[3])).sum())
    growing = means[1] < means[2] < means[3] and rise > noise
    return QueueTrend("growing" if growing else "steady", means, rise, noise)


# ---------------------------------------------------------------- gates


def _attainment_gate(a: Attainment, limit: float) -> Gate:
    name, needed = "slo_attainment", requests_needed(limit)
    value = a.at_least if a.at_least == a.at_most else None
    if a.denominator == 0 or a.at_least is None or a.at_most is None:
        return Gate(name, None, limit, "not_evaluable", "no request counts")
    if a.at_most < limit and (a.denominator >= needed or (_upper(a) < limit)):
        return Gate(name, value, limit, "fail")
    if a.denominator < needed:
        reason = f"{a.denominator} requests can't show {limit:g}: even all of them good, {needed} are needed"
        return Gate(name, value, limit, "not_evaluable", reason)
    if a.at_least >= limit:
        return Gate(name, value, limit, "pass")
    reason = f"{a.unknown} requests can't be judged from this source: between {a.at_least:.4f} and {a.at_most:.4f}"
    return Gate(name, None, limit, "not_evaluable", reason)


def _upper(a: Attainment) -> float:
    interval = wilson(a.good + a.unknown, a.denominator)
    return interval[1] if interval else 1.0


def _error_gate(failed: int, doubtful: int, offered: int, limit: float) -> Gate:
    if not offered:
        return Gate("error_rate", None, limit, "not_evaluable", "nothing was offered")
    low, high = failed / offered, (failed + doubtful) / offered
    if low > limit:
        return Gate("error_rate", low, limit, "fail")
    if high > limit:
        reason = f"{doubtful} successes are unverified: between {low:.4f} and {high:.4f}"
        return Gate("error_rate", None, limit, "not_evaluable", reason)
    return Gate("error_rate", low, limit, "pass")


def _lag_gate(lag: Stats, ttft_max_ms: float | None) -> Gate | None:
    if ttft_max_ms is None:
        return None
    limit = LAG_SHARE_OF_TTFT * ttft_max_ms
    if lag.p99 is None:
        return Gate("dispatch_lag_p99_ms", None, limit, "not_evaluable", "the source has no schedule")
    return Gate("dispatch_lag_p99_ms", lag.p99, limit, "pass" if lag.p99 <= limit else "fail")


def _queue_gate(trend: QueueTrend) -> Gate:
    result: Result = {"steady": "pass", "growing": "fail"}.get(trend.result, "not_evaluable")
    return Gate("queue_growth", trend.result, "steady", result, trend.reason)


def verdict(gates: Iterable[Gate]) -> Result:
    """Fail when a gate fails; else not evaluable when one could not be judged; else pass."""
    results = {gate.result for gate in gates}
    return "fail" if "fail" in results else "not_evaluable" if "not_evaluable" in results else "pass"


# ---------------------------------------------------------------- the whole


def analyse(
    run: Run, acceptance: Acceptance = REFERENCE_ACCEPTANCE, *, output_tokens_minimum_for_tpot: int = 2
) -> Report:
    """Judge one run by ``acceptance``.  Warm-up requests are left out; zero requests are not an error."""
    table = run.table
    if pc.any(table["warmup"]).as_py():
        table = table.filter(pc.invert(table["warmup"]))
    summary = run.provenance.get("summary") or {}
    try:
        c = columns(table, summary.get("unverified") or ())
    except BadInput as error:
        raise BadInput(error.found, error.expected, f"{run.place}, {error.where}" if run.place else error.where, error.do) from error
    good, unknown, counted = _judge(c, acceptance, output_tokens_minimum_for_tpot, summary.get("itl_max_ms"))
    succeeded, doubtful = int(c.ok.sum()), int((c.ok & ~c.verified).sum())
    failed = c.n - succeeded
    attainment = _attainment(c, good, unknown, counted, acceptance)
    window_ns, window_source = _window(run, c, bool(summary.get("starts_unknown")))
    done = np.where(c.has_end, c.end, c.last)
    inside = np.zeros(c.n, bool)
    if window_ns:
        inside = (c.has_end | c.has_times) & (done >= window_ns[0]) & (done <= window_ns[1])
        if summary.get("starts_unknown"):
            inside = np.ones(c.n, bool)
    window_s = (window_ns[1] - window_ns[0]) / NS_PER_S if window_ns else None

    timed = c.ok & c.has_times & c.has_sent
    due = c.ok & c.has_times & c.has_scheduled
    tpot_known = c.ok & c.verified & c.has_times & c.has_tokens & (c.tokens >= output_tokens_minimum_for_tpot)
    tpot = (c.last - c.first)[tpot_known] / np.maximum(c.tokens[tpot_known] - 1, 1)
    lagging = c.has_sent & c.has_scheduled
    lag = stats((c.sent - c.scheduled)[lagging])
    trend = _queue_trend(c, bool(summary.get("starts_unknown")))
    gates = [
        _attainment_gate(attainment, acceptance.slo_attainment_min),
        _error_gate(failed, doubtful, c.n, acceptance.error_rate_max),
    ]
    if acceptance.require_no_sustained_queue_growth:
        gates.append(_queue_gate(trend))
    if lag_gate := _lag_gate(lag, acceptance.ttft_max_ms):
        gates.append(lag_gate)
    short = c.ok & c.has_tokens & c.verified & (c.tokens < output_tokens_minimum_for_tpot)
    return Report(
        name=run.name, label=run.provenance.get("label"), source=run.provenance.get("source"),
        design=run.provenance.get("design"), offered_rate_rps=run.provenance.get("offered_rate_rps"),
        offered=c.n, succeeded=succeeded, failed=failed,
        by_status=dict(sorted(Counter(table["status"].to_pylist()).items())), one_token=int(short.sum()),
        error_rate=failed / c.n if c.n else None, window_s=window_s, window_source=window_source,
        throughput_rps=float((c.ok & inside).sum() / window_s) if window_s else None,
        goodput_rps=float((good & inside).sum() / window_s) if window_s and not unknown.any() else None,
        ttft_ms=stats((c.first - c.sent)[timed]),
        ttft_from_schedule_ms=stats((c.first - c.scheduled)[due]),
        tpot_ms=stats(tpot), itl_ms=_itl(c, summary),
        max_itl_ms=stats(c.max_gap[c.ok & c.has_frames & (c.tokens > 1)]),
        e2e_ms=stats((c.last - c.sent)[timed]), joint_attainment=attainment,
        dispatch_lag_ms=lag, queue_trend=trend, gates=gates, verdict=verdict(gates),
        notes=_notes(run, c, unknown, doubtful),
    )  # fmt: skip


def _itl(c: Columns, summary: dict[str, Any]) -> Stats:
    """Pooled gaps; from a source without them, what it states run-wide and nothing more."""
    if len(c.pooled_gaps):
        return stats(c.pooled_gaps)
    known = {key: summary.get(f"itl_{key}_ms") for key in ("mean", "p50", "p95", "p99", "max")}
    return Stats(0, **known)


def _attainment(
    c: Columns, good: np.ndarray, unknown: np.ndarray, counted: np.ndarray, acceptance: Acceptance
) -> Attainment:
    goods, unknowns, n = int(good.sum()), int(unknown.sum()), int(counted.sum())
    offered = n if acceptance.denominator != SUCCESSFUL_ONLY else c.n
    answered = int((counted & c.ok).sum())

    def share(of: int) -> float | None:
        return goods / of if of and not unknowns else None

    return Attainment(
        goods, unknowns, n, share(offered), share(answered), goods / n if n else None,
        (goods + unknowns) / n if n else None, wilson(goods, n) if not unknowns else None,
    )  # fmt: skip


def _window(run: Run, c: Columns, starts_unknown: bool) -> tuple[tuple[int, int] | None, str]:
    declared = run.provenance.get("window_ns")
    if declared:
        if len(declared) != 2 or declared[1] <= declared[0]:
            raise BadInput(f"window_ns {declared}", "[start, end] with end after start", run.place)
        return (int(declared[0]), int(declared[1])), "declared"
    starts, ends = c.sent[c.has_sent], np.where(c.has_end, c.end, c.last)[c.has_end | c.has_times]
    if starts_unknown or not len(starts) or not len(ends) or ends.max() <= starts.min():
        return None, "unknown"
    return (int(starts.min()), int(ends.max())), "first send to last end (not declared)"


def _notes(run: Run, c: Columns, unknown: np.ndarray, doubtful: int) -> list[str]:
    notes = []
    if doubtful:
        notes.append(
            f"{doubtful} requests that the source calls successful can't be verified; they are neither good nor bad."
        )
    if more := int((unknown & c.verified).sum()):
        notes.append(f"{more} requests can't be judged: the source lacks a time that a condition needs.")
    if twice := run.table.num_rows - pc.count_distinct(run.table["request_id"]).as_py():
        notes.append(f"{twice} rows repeat the id of another row: each is counted as a request of its own.")
    if run.provenance.get("notes"):
        notes.append(run.provenance["notes"])
    return notes


# ---------------------------------------------------------------- capacity


@dataclass(frozen=True, slots=True)
class Capacity:
    """The highest tested offered rate that meets every gate, or why there is none to state.

    ``passes_up_to`` is the highest passing rate below the first failure: of a refused capacity it is
    what can still be said.
    """

    rate_rps: float | None
    result: Literal["found", "at_least", "none", "refused", "non_monotonic"]
    passes_up_to: float | None
    reason: str


def capacity(points: Iterable[tuple[float, Report]]) -> Capacity:
    """SLO-compliant capacity from (offered rate in requests/s, report) of one design and cache state."""
    ordered = sorted(points, key=lambda point: point[0])
    rates = [rate for rate, _ in ordered]
    if len(set(rates)) != len(rates):
        raise BadInput("a rate twice", "one run a rate (of one design and cache state)", "sweep")
    if not ordered:
        return Capacity(None, "refused", None, "no run")
    results = [report.verdict for _, report in ordered]
    passing = [r for r, v in zip(rates, results, strict=True) if v == "pass"]
    failing = [r for r, v in zip(rates, results, strict=True) if v == "fail"]
    below = [r for r in passing if not failing or r < failing[0]]
    up_to = max(below, default=None)
    ceiling = failing[0] if failing else math.inf
    open_points = [
        (rate, gate)
        for rate, report in ordered if report.verdict == "not_evaluable" and rate < max([ceiling, *passing])
        for gate in report.gates if gate.result == "not_evaluable"
    ]  # fmt: skip
    if failing and any(rate > failing[0] for rate in passing):
        above = min(rate for rate in passing if rate > failing[0])
        reason = f"not monotonic: fails at {failing[0]:g} and passes at {above:g} requests/s; repeat both"
        return Capacity(None, "non_monotonic", up_to, reason)
    if open_points:
        rate, gate = open_points[0]
        return Capacity(None, "refused", up_to, f"at {rate:g} requests/s {gate.name} is not evaluable: {gate.reason}")
    if up_to is None:
        return Capacity(None, "none", None, f"even {failing[0]:g} requests/s fails")
    if not failing:
        reason = f"no tested rate failed: capacity is {up_to:g} requests/s or more"
        return Capacity(up_to, "at_least", up_to, reason)
    return Capacity(up_to, "found", up_to, f"{up_to:g} requests/s passes, {failing[0]:g} fails")
