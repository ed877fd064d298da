"""A small hypothetical run in which everything happens that load tools disagree about.

One hundred requests at 10 a second, 64 tokens each, from a seeded generator: no server was involved.
Where the special cases stand is written down, so that anyone can count what a rule makes of them.
"""

from __future__ import annotations

import random

from pdlab.measure import records
from pdlab.measure.plan import Acceptance

REQUESTS, RATE_RPS, TOKENS = 100, 10.0, 64
HTTP_500 = (13, 58)
HTTP_429 = (77,)
ERROR_FRAME = (22, 49, 84)  # HTTP 200, ten tokens, then an error frame
ONE_TOKEN = (5, 31, 66, 90)
SLOW_FIRST = (40,)  # 900 ms to the first token
STALLED = (27, 71)  # one gap of 400 ms, the other gaps as usual
SENT_LATE = tuple(range(50, 57))  # the client sent these 250 ms after they were due
US, MS, S = 1_000, 1_000_000, 1_000_000_000

LIMITS = Acceptance(
    ttft_max_ms=300, tpot_max_ms=30, max_itl_per_request_ms=200, slo_attainment_min=0.95, error_rate_max=0.01,
    require_no_sustained_queue_growth=True,
)  # fmt: skip


def small_run(seed: int = 6) -> records.Run:
    """The run: Poisson arrivals, first token after 80–120 ms, a token every 18–22 ms.

    Every fifth plain answer puts two tokens into a frame.
    """
    rng = random.Random(seed)
    rows, due_ns = [], 0
    for seq in range(REQUESTS):
        due_ns += round(rng.expovariate(RATE_RPS) * S)
        rows.append(_request(seq, due_ns, rng))
    document = records.provenance(
        label="hypothetical", source=f"pdlab.measure.smallrun, seed {seed}", offered_rate_rps=RATE_RPS, seed=seed,
        window_ns=[0, max(row["end_ns"] for row in rows)], workload="smallrun",
    )  # fmt: skip
    return records.Run(records.table_from_rows(rows), document, "small run")


def _request(seq: int, due_ns: int, rng: random.Random) -> dict:
    sent_ns = due_ns + (250 * MS if seq in SENT_LATE else 5 * US)
    ttft_ns = 900 * MS if seq in SLOW_FIRST else rng.randrange(80_000, 120_000) * US
    gaps_ns = [rng.randrange(18_000, 22_000) * US for _ in range(TOKENS - 1)]
    row = {
        "request_id": f"s{seq:03}", "seq": seq, "scheduled_ns": due_ns, "sent_ns": sent_ns, "prompt_tokens": 200,
        "requested_output_tokens": TOKENS, "stamp_source": "simulated", "status": "ok", "http_status": 200,
    }  # fmt: skip
    if seq in HTTP_500 or seq in HTTP_429:
        refused = seq in HTTP_429
        return row | {
            "status": "rejected" if refused else "failed", "http_status": 429 if refused else 500,
            "error": "too many requests" if refused else "internal server error", "end_ns": sent_ns + 2 * MS,
        }  # fmt: skip
    if seq in STALLED:
        gaps_ns[30] = 400 * MS
    tokens = 10 if seq in ERROR_FRAME else 1 if seq in ONE_TOKEN else TOKENS
    arrivals = [sent_ns + ttft_ns]
    for gap in gaps_ns[: tokens - 1]:
        arrivals.append(arrivals[-1] + gap)
    counts = [1] * tokens
    if seq % 5 == 4 and tokens == TOKENS and seq not in STALLED:
        arrivals, counts = arrivals[1::2], [2] * (TOKENS // 2)  # a frame waits for its second token
    row |= {"frame_ns": arrivals, "frame_tokens": counts, "output_tokens": tokens, "end_ns": arrivals[-1]}
    if seq in ERROR_FRAME:
        row |= {"status": "failed", "error": "an error frame inside HTTP 200", "end_ns": arrivals[-1] + 1 * MS}
    return row
