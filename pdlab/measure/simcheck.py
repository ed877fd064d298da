"""Laws that any serving run has to obey, used to check a simulation before it is taught.

They need no trust in the simulator: Little's law holds for every queue that empties, a server
that is never idle serves at one over its service time, and a single server with Poisson arrivals
and equal services waits as the M/D/1 formula (``pdlab.theory.queueing``) says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pdlab.errors import BadInput
from pdlab.measure.records import Run

NS_PER_MS = 1e6
MOMENTS = 20_000  # enough that L is known to a part in a thousand


@dataclass(frozen=True, slots=True)
class Little:
    """Both sides of L = λ W, and what they were made from."""

    in_system: float  # L: requests in the system, counted at evenly spaced moments
    rate_rps: float  # λ: departures a second over the same span
    time_s: float  # W: mean time in the system
    expected: float  # λ W

    @property
    def gap(self) -> float:
        """How far L is from λ W, as a share of λ W."""
        return self.in_system / self.expected - 1


def littles_law(run: Run) -> Little:
    """Little's law over a whole run, warm-up included: it starts and ends empty.

    L comes from counting at ``MOMENTS`` points in time, W from each request's own stay, so a slip
    in either (a unit, a missing request, a wrong clock) shows.
    """
    start, end = _times(run.table, "sent_ns"), _times(run.table, "end_ns")
    span_ns = end.max() - start.min()
    at = start.min() + (np.arange(MOMENTS) + 0.5) * (span_ns / MOMENTS)
    inside = np.searchsorted(np.sort(start), at, "right") - np.searchsorted(np.sort(end), at, "right")
    rate = len(start) / (span_ns / 1e9)
    stay = float((end - start).mean() / 1e9)
    return Little(float(inside.mean()), rate, stay, rate * stay)


def decoding_two_ways(run: Run) -> tuple[float, float]:
    """Requests decoding at once: from the records, and from the simulator's own totals.

    The second is output tokens a second times the mean gap between tokens, neither of which is
    read from the records.
    """
    table, summary = run.table, run.provenance["summary"]
    first, last = _times(table, "first_token_ns"), _times(table, "last_token_ns")
    span_ns = _times(table, "end_ns").max() - _times(table, "sent_ns").min()
    return (
        float((last - first).sum() / span_ns),
        summary["output_tokens_per_s"] * summary["itl_mean_ms"] / 1000,
    )


def prefill_service_ms(run: Run) -> np.ndarray:
    """Service time of each prompt in a prefill pool: from admission to the end of its prefill."""
    return (_stage(run, "prefill_end") - _stage(run, "admit")) / NS_PER_MS


def prefill_wait_ms(run: Run) -> np.ndarray:
    """Wait of each prompt before a prefill worker takes it."""
    return (_stage(run, "admit") - _times(run.table, "sent_ns")) / NS_PER_MS


def transfer_ms(run: Run) -> np.ndarray:
    """Time from the end of prefill until decode may use the KV: waiting for a buffer, and the wire."""
    return (_stage(run, "transfer_end") - _stage(run, "prefill_end")) / NS_PER_MS


def served_rps(run: Run) -> float:
    """Requests a second that ended their prefill, over the middle eight tenths of them."""
    passed = np.sort(_stage(run, "prefill_end"))
    low, high = len(passed) // 10, len(passed) - 1 - len(passed) // 10
    return float((high - low) / ((passed[high] - passed[low]) / 1e9))


def queue_by_hand_ms(arrivals_ms: np.ndarray, service_ms: float) -> np.ndarray:
    """Waits before one first-come server with equal services, by Lindley's recursion.

    It needs no Poisson arrivals, so it must agree
    with a simulated FIFO server to the digit, where M/D/1 agrees on average.
    """
    free_ms, waits = 0.0, []
    for at in np.asarray(arrivals_ms, float):
        begin = max(at, free_ms)
        waits.append(begin - at)
        free_ms = begin + service_ms
    return np.array(waits)


def busy_shares(run: Run) -> dict[str, float]:
    """Share of the run in which a pool's workers computed, by pool; the rest they were idle.

    For aggregated serving there is one pool, and its two phases add up.
    """
    summary = run.provenance["summary"]
    layout, busy, duration = summary["point"]["layout"], summary["busy_ms"], summary["duration_ms"]
    if layout["aggregated"]:
        return {"aggregated": sum(busy.values()) / (layout["aggregated"]["replicas"] * duration)}
    return {role: busy[role] / (layout[role]["replicas"] * duration) for role in ("prefill", "decode")}


def _times(table: pa.Table, name: str) -> np.ndarray:
    column = table[name]
    if column.null_count:
        raise BadInput(f"{column.null_count} requests without {name}", "a time in every row", name)
    return column.to_numpy().astype(float)


def _stage(run: Run, stage: str) -> np.ndarray:
    found = pc.map_lookup(run.table["stage_ns"].combine_chunks(), pa.scalar(stage), "first")
    if found.null_count:
        raise BadInput(f"requests without the stage {stage!r}", "a run that records it", run.name,
                       "Aggregated runs have no prefill pool and no transfer.")  # fmt: skip
    return found.to_numpy(zero_copy_only=False).astype(float)
