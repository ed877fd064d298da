"""The analyser: definitions, gates, capacity, and what holds for every run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdlab.errors import BadInput
from pdlab.measure import frames, slo
from tests.measure.runs import MS, answer, cohort, run

A = slo.REFERENCE_ACCEPTANCE
FAST = settings(max_examples=25)


def limits(**change):
    """The reference acceptance with changes."""
    return A.model_copy(update=change)


def gate(report, name):
    """One gate of a report."""
    return next(g for g in report.gates if g.name == name)


# ---------------------------------------------------------------- the cohort and the definitions


def test_the_hundred_request_cohort():
    """5 % errors, 94.7 % among successes, 90 % over all offered: fails the 95 % gate."""
    report = slo.analyse(cohort())
    a = report.joint_attainment
    assert (report.offered, report.succeeded, report.failed, a.good) == (100, 95, 5, 90)
    assert report.error_rate == 0.05
    assert round(100 * a.successful, 1) == 94.7
    assert a.all_offered == 0.9
    assert gate(report, "slo_attainment").result == "fail"
    assert report.verdict == "fail"
    assert a.interval == pytest.approx((0.8256, 0.9448), abs=5e-5)


def test_the_definitions_by_hand():
    """Two frames of several tokens: TTFT, TPOT, ITL, E2E as they are defined."""
    row = answer(0, sent_ms=5, tokens=1) | {
        "scheduled_ns": 2 * MS, "frame_ns": [55 * MS, 95 * MS, 105 * MS], "frame_tokens": [4, 4, 1], "output_tokens": 9,
        "end_ns": 500 * MS,
    }  # fmt: skip
    report = slo.analyse(run([row]))
    assert (report.ttft_ms.mean, report.ttft_from_schedule_ms.mean) == (50, 53)
    assert report.tpot_ms.mean == 50 / 8
    assert (report.itl_ms.n, report.itl_ms.mean, report.itl_ms.max) == (2, 25, 40)
    assert (report.max_itl_ms.max, report.e2e_ms.mean, report.dispatch_lag_ms.mean) == (40, 100, 3)


CASES = json.loads(Path(__file__).with_name("stream-cases.json").read_text())["cases"]


def test_streams_all_the_way():
    """The known streams, through frames and records, give the known metrics."""
    rows = []
    for seq, case in enumerate(CASES):
        got = frames.read_stream([(round(at * MS), raw) for at, raw in case["frames"]])
        rows.append({"request_id": case["name"], "seq": seq, "sent_ns": 0, "status": got.status, "frame_ns": got.frame_ns,
                     "frame_tokens": got.frame_tokens, "output_tokens": got.output_tokens, "error": got.error})  # fmt: skip
    for row, case in zip(rows, CASES, strict=True):
        report, want = slo.analyse(run([row])), case["expected"]
        ok = want["status"] == "succeeded"
        assert report.succeeded == ok
        assert report.ttft_ms.mean == (want["ttft_ms"] if ok else None)
        assert report.tpot_ms.mean == (pytest.approx(want["tpot_ms"]) if want["tpot_ms"] is not None else None)
        assert (report.max_itl_ms.max, report.e2e_ms.mean) == (want["max_itl_ms"], want["e2e_ms"])


def test_percentiles_are_numpys_linear():
    """Percentiles interpolate, whatever the order."""
    values_ms = np.random.default_rng(0).exponential(1.0, 101)
    got = slo.stats(values_ms * 1e6)
    assert (got.p50, got.p95, got.p99) == pytest.approx(np.percentile(values_ms, [50, 95, 99]), rel=1e-12)
    assert slo.stats(np.array([])) == slo.Stats(0)


def test_the_window():
    """Throughput counts what ended within the declared window, by the window's length."""
    rows = [answer(i, tokens=1) for i in range(10)]  # ends at 50, 150, … 950 ms
    assert slo.analyse(run(rows, window_ns=[0, 500 * MS])).throughput_rps == 10.0
    derived = slo.analyse(run(rows))
    assert (derived.window_s, derived.window_source.startswith("first send")) == (0.95, True)
    with pytest.raises(BadInput, match="window_ns"):
        slo.analyse(run(rows, window_ns=[5, 5]))


def test_warm_up_is_left_out():
    """Warm-up requests are in no figure."""
    rows = [answer(0, status="failed", warmup=True), answer(1, ttft_ms=9000, warmup=True), answer(2)]
    report = slo.analyse(run(rows))
    assert (report.offered, report.error_rate, report.ttft_ms.max) == (1, 0, 50)


# ---------------------------------------------------------------- policies and three-valued judging


@pytest.mark.parametrize("policy, good, of", [("not_met", 90, 100), ("met_without_tpot", 100, 100), ("excluded", 90, 90)])
def test_the_policy_for_one_token_answers(policy, good, of):
    """A one-token answer has no TPOT: what that means is a declared setting."""
    rows = [answer(i) for i in range(90)] + [answer(i, tokens=1) for i in range(90, 100)]
    report = slo.analyse(run(rows), limits(one_token_policy=policy))
    a = report.joint_attainment
    assert (a.good, a.denominator, report.one_token) == (good, of, 10)
    assert report.tpot_ms.n == 90


def test_a_declared_denominator():
    """Over successes the cohort's share is 90 of 95, and the report still says 90 % over all."""
    report = slo.analyse(cohort(), limits(denominator="successful_requests_after_warmup"))
    a = report.joint_attainment
    assert (a.good, a.denominator, a.all_offered, round(a.successful, 3)) == (90, 95, 0.9, 0.947)


def bare(seq, span_ms=70, tokens=8):
    """An answer of which only the first and last token time are known."""
    row = answer(seq, tokens=tokens)
    first = row["frame_ns"][0]
    return row | {"frame_ns": None, "frame_tokens": None, "first_token_ns": first, "last_token_ns": first + span_ms * MS}


@pytest.mark.parametrize(
    "span_ms, run_max, verdict",
    [
        (70, None, "pass"),  # no gap is longer than the whole answer
        (280, None, "not_evaluable"),  # 40 ms a token; a gap of 200 ms is possible
        (280, 150.0, "pass"),  # the run-wide maximum settles it
        (280, 250.0, "not_evaluable"),  # somebody waited 250 ms: who, the source doesn't say
        (1600, 250.0, "fail"),  # 228 ms a token on average
    ],
)
def test_largest_gap_without_token_times(span_ms, run_max, verdict):
    """The per-request maximum is decided only where what is known settles it."""
    rows = [bare(i, span_ms) for i in range(100)]
    known = {"summary": {"itl_max_ms": run_max}} if run_max else {}
    report = slo.analyse(run(rows, **known), limits(tpot_max_ms=None))
    assert gate(report, "slo_attainment").result == verdict
    assert report.itl_ms.n == 0 and report.itl_ms.max == run_max
    if verdict == "not_evaluable":
        assert report.joint_attainment.all_offered is None
        assert any("can't be judged" in note for note in report.notes)


def test_unknown_that_cannot_tip_the_gate():
    """Where even all unknown requests could not save the gate, it fails; where they can't hurt, it passes."""
    rows = [bare(i, 280) for i in range(100)]
    bad = [answer(i, ttft_ms=5000) for i in range(100, 120)]
    assert gate(slo.analyse(run(rows + bad)), "slo_attainment").result == "fail"
    good = [answer(i) for i in range(200, 5200)]
    assert gate(slo.analyse(run(rows + good)), "slo_attainment").result == "pass"


def test_unverified_successes():
    """What the source calls a success and nobody can verify is neither good nor bad, nor error-free."""
    rows = [answer(i) for i in range(200)]
    report = slo.analyse(run(rows, summary={"unverified": ["r3", "r4", "r5"]}))
    a = report.joint_attainment
    assert (a.good, a.unknown, a.all_offered) == (197, 3, None)
    assert gate(report, "error_rate").result == "not_evaluable"
    assert report.verdict == "not_evaluable"


# ---------------------------------------------------------------- corners


def test_zero_requests():
    """A run of nothing has no figures, and its gates are not evaluable."""
    report = slo.analyse(run([]))
    assert (report.offered, report.error_rate, report.ttft_ms.n, report.throughput_rps) == (0, None, 0, None)
    assert report.verdict == "not_evaluable" and report.joint_attainment.interval is None


def test_all_failed():
    """A run of failures has an error rate of 1, attainment 0 and no latency."""
    report = slo.analyse(run([answer(i, status="timeout") for i in range(100)]))
    assert (report.error_rate, report.joint_attainment.all_offered, report.ttft_ms.mean) == (1.0, 0.0, None)
    assert report.verdict == "fail" and report.joint_attainment.successful is None


def test_one_request():
    """One good request proves nothing: the gate is not evaluable, and says how many it takes."""
    report = slo.analyse(run([answer(0)]))
    assert report.joint_attainment.all_offered == 1.0
    found = gate(report, "slo_attainment")
    assert found.result == "not_evaluable" and "73" in found.reason


@pytest.mark.parametrize(
    "row, words",
    [
        (answer(0) | {"frame_ns": [10 * MS, 9 * MS], "frame_tokens": [1, 1]}, "clock that runs forward"),
        (answer(0, sent_ms=500) | {"frame_ns": [MS], "frame_tokens": [1]}, "before the request was sent"),
        (answer(0, sent_ms=500) | {"end_ns": 3}, "an end before the request"),
        (bare(0) | {"last_token_ns": 1}, "last token before the first"),
        (answer(0) | {"frame_tokens": [1]}, "different lengths"),
        (answer(0, tokens=0) | {"output_tokens": -3}, "negative token count"),
        (answer(0, tokens=0) | {"output_tokens": 2**62}, "beyond all sense"),
        (answer(0, tokens=2) | {"frame_tokens": [-1, 3]}, "a frame of fewer than 0 tokens"),
        (answer(0) | {"scheduled_ns": -(2**63)}, "scheduled_ns more than a century from 0"),
        (answer(0) | {"end_ns": 2**63 - 1}, "an end_ns more than a century from 0"),
        (answer(0, tokens=3) | {"frame_ns": [0, 2**63 - 1, -(2**63)]}, "a token more than a century from 0"),
    ],
)
def test_impossible_times(row, words):
    """Times that run backwards are refused, with the request's name."""
    with pytest.raises(BadInput, match=words) as error:
        slo.analyse(run([answer(5), row | {"request_id": "bad"}]))
    assert "'bad'" in str(error.value)


def test_rejections_and_timeouts_count():
    """Everything offered is in the denominator, whatever became of it."""
    rows = [answer(i) for i in range(96)]
    rows += [answer(96 + i, status=s) for i, s in enumerate(("failed", "rejected", "timeout", "cancelled"))]
    report = slo.analyse(run(rows))
    assert (report.failed, report.joint_attainment.all_offered) == (4, 0.96)
    assert report.by_status == {"cancelled": 1, "failed": 1, "ok": 96, "rejected": 1, "timeout": 1}


# ---------------------------------------------------------------- interval and sample size


@pytest.mark.parametrize("good, n, low, high", [(90, 100, 0.8256, 0.9448), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)])
def test_wilson(good, n, low, high):
    """Wilson's interval by known values; its ends never leave 0 and 1."""
    assert slo.wilson(good, n) == pytest.approx((low, high), abs=5e-5)
    assert slo.wilson(0, 0) is None


@given(st.floats(0, 0.999), st.integers(1, 5000))
def test_needed_is_the_least_sample(p, n):
    """With fewer requests than needed, a flawless run can't reach the gate; with that many it does."""
    needed = slo.requests_needed(p)
    assert slo.wilson(needed, needed)[0] >= p - 1e-9
    if needed > 1:
        assert slo.wilson(needed - 1, needed - 1)[0] < p
    assert 0 <= slo.wilson(min(n, 3), n)[0] <= slo.wilson(min(n, 3), n)[1] <= 1


def test_the_sample_sizes_of_the_course():
    """73 for 95 %, 35 for 90 %."""
    assert (slo.requests_needed(0.95), slo.requests_needed(0.90), slo.requests_needed(0.99)) == (73, 35, 381)


# ---------------------------------------------------------------- queue and lag


def queueing(service_ms, n=400, gap_ms=100):
    """One server, first come first served, arrivals every ``gap_ms`` in pairs of unequal spacing."""
    free, rows = 0.0, []
    for i in range(n):
        sent = i * gap_ms + (30 if i % 2 else 0)
        free = max(free, sent) + service_ms
        rows.append(answer(i, sent_ms=sent, ttft_ms=free - sent - 5, gap_ms=5, tokens=2))
    return rows


def test_a_growing_queue():
    """An overloaded server's queue keeps rising and fails the gate; a busy one's does not."""
    over, busy = slo.analyse(run(queueing(130))), slo.analyse(run(queueing(90)))
    assert over.queue_trend.result == "growing" and gate(over, "queue_growth").result == "fail"
    assert busy.queue_trend.result == "steady" and gate(busy, "queue_growth").result == "pass"
    q = over.queue_trend.quarter_means
    assert q == sorted(q) and over.queue_trend.rise > over.queue_trend.noise


def test_a_stable_random_queue_is_not_called_growing():
    """Poisson arrivals at 80 % load: fewer than 5 % of runs are called growing."""
    called = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sent, free, rows = 0.0, 0.0, []
        for i in range(200):
            sent += rng.exponential(100)
            free = max(free, sent) + 80
            rows.append(answer(i, sent_ms=sent, ttft_ms=free - sent, tokens=1))
        called += slo.analyse(run(rows)).queue_trend.result == "growing"
    assert called <= 3


def test_the_queue_counts_answers_that_failed():
    """Failed requests that hung in the system are part of its queue."""
    rows = [answer(i, sent_ms=100 * i, status="timeout", end_ns=100 * i * MS + 30_000 * MS) for i in range(400)]
    assert slo.analyse(run(rows)).queue_trend.quarter_means[3] > 100


def test_dispatch_lag_fails_a_run():
    """A client that sends late hides overload: the run does not pass."""
    rows = [answer(i) for i in range(200)]
    assert slo.analyse(run(rows)).verdict == "pass"
    late = [row | {"scheduled_ns": row["sent_ns"] - 300 * MS} for row in rows]
    report = slo.analyse(run(late))
    assert gate(report, "dispatch_lag_p99_ms").result == "fail" and report.dispatch_lag_ms.p99 == 300
    unknown = [row | {"scheduled_ns": None} for row in rows]
    assert slo.analyse(run(unknown)).verdict == "not_evaluable"


# ---------------------------------------------------------------- what holds for every run


@st.composite
def any_answer(draw, seq):
    """A request of any status, with frames of several tokens at random times."""
    status = draw(st.sampled_from(("ok", "ok", "ok", "failed", "timeout", "rejected")))
    row = answer(seq, status=status, sent_ms=draw(st.integers(0, 5000)))
    if status == "ok":
        counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
        steps = draw(st.lists(st.integers(0, 400 * MS), min_size=len(counts), max_size=len(counts)))
        at = row["sent_ns"] + np.cumsum(steps)
        row |= {"frame_ns": at.tolist(), "frame_tokens": counts, "output_tokens": sum(counts), "end_ns": int(at[-1])}
    return row


MANY = st.integers(1, 16).flatmap(lambda n: st.tuples(*(any_answer(i) for i in range(n))))


@FAST
@given(MANY, st.randoms(use_true_random=False))
def test_permuting_the_requests_changes_nothing(rows, rng):
    """The order of the rows is no part of a run."""
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert slo.analyse(run(rows)).to_dict() == slo.analyse(run(shuffled)).to_dict()


@FAST
@given(MANY, st.sampled_from(("failed", "timeout", "rejected", "cancelled")), st.sampled_from(("not_met", "met_without_tpot", "excluded")))
def test_a_further_failure_never_helps(rows, status, policy):
    """One more failed request never raises attainment over all offered, nor lowers the error rate."""
    chosen = limits(one_token_policy=policy)
    before = slo.analyse(run(rows), chosen)
    after = slo.analyse(run([*rows, answer(99, status=status)]), chosen)
    assert (after.joint_attainment.all_offered or 0) <= (before.joint_attainment.all_offered or 0)
    assert after.error_rate >= before.error_rate


@FAST
@given(MANY, st.data())
def test_splitting_a_frame_never_changes_tpot(rows, data):
    """Tokens of one frame sent as two frames at the same moment: TPOT, TTFT, E2E and the largest gap stay."""
    answered = [row for row in rows if row["status"] == "ok" and max(row["frame_tokens"]) > 1]
    if not answered:
        return
    row = data.draw(st.sampled_from(answered))
    k = data.draw(st.sampled_from([i for i, n in enumerate(row["frame_tokens"]) if n > 1]))
    ns, counts = row["frame_ns"], row["frame_tokens"]
    split = row | {"frame_ns": [*ns[: k + 1], ns[k], *ns[k + 1 :]], "frame_tokens": [*counts[:k], 1, counts[k] - 1, *counts[k + 1 :]]}
    before, after = slo.analyse(run(rows)), slo.analyse(run([split if r is row else r for r in rows]))
    for name in ("tpot_ms", "ttft_ms", "e2e_ms", "joint_attainment"):
        assert getattr(after, name) == getattr(before, name)
    assert (after.itl_ms.max or 0) == (before.itl_ms.max or 0)


@FAST
@given(MANY)
def test_counts_add_up(rows):
    """Offered is succeeded plus failed, good is within succeeded, and the shares are shares."""
    report = slo.analyse(run(rows))
    a = report.joint_attainment
    assert report.offered == report.succeeded + report.failed == sum(report.by_status.values()) == len(rows)
    assert 0 <= a.good <= report.succeeded and a.unknown == 0
    assert a.interval[0] <= a.all_offered <= a.interval[1]
    json.dumps(report.to_dict(), allow_nan=False)


@FAST
@given(MANY)
def test_a_plain_loop_agrees(rows):
    """The vectorised judging equals a loop over the requests that anyone can read."""
    good, gaps, tpots = 0, [], []
    for row in rows:
        if row["status"] != "ok":
            continue
        at, n = row["frame_ns"], sum(row["frame_tokens"])
        own = [b - a for a, b in zip(at, at[1:], strict=False)]
        gaps += own
        if n >= 2:
            tpots.append((at[-1] - at[0]) / (n - 1) / MS)
            good += at[0] - row["sent_ns"] <= 2000 * MS and tpots[-1] <= 50 and max(own, default=0) <= 200 * MS
    report = slo.analyse(run(rows))
    assert report.joint_attainment.good == good
    assert report.itl_ms.n == len(gaps)
    assert report.itl_ms.mean == (pytest.approx(np.mean(gaps) / MS) if gaps else None)
    assert report.tpot_ms.mean == (pytest.approx(np.mean(tpots)) if tpots else None)


# ---------------------------------------------------------------- capacity


def point(rate, share, n=400):
    """A run at one rate in which ``share`` of the requests is good."""
    bad = round(n * (1 - share))
    rows = [answer(i, sent_ms=1000 * i / rate, ttft_ms=9000 if i % n < bad else 50) for i in range(n)]
    return rate, slo.analyse(run(rows))


def test_capacity():
    """The highest passing rate below the first that fails."""
    found = slo.capacity([point(4, 0.5), point(1, 1.0), point(2, 0.99)])
    assert (found.rate_rps, found.result) == (2, "found")


def test_capacity_beyond_what_was_tested():
    """When nothing failed, capacity is at least the highest tested rate, and is called so."""
    assert slo.capacity([point(1, 1.0), point(2, 1.0)]).result == "at_least"
    assert slo.capacity([point(1, 0.1)]).result == "none"
    assert slo.capacity([]).result == "refused"


def test_capacity_is_refused_for_a_small_sample():
    """A rate whose sample can't show the gate leaves no capacity to state."""
    found = slo.capacity([point(1, 1.0), point(2, 1.0, n=50), point(4, 0.5)])
    assert found.rate_rps is None and found.result == "refused"
    assert "73" in found.reason and found.passes_up_to == 1
    # a small sample that fails so clearly that no more requests could mend it is a failure
    assert slo.capacity([point(1, 1.0), point(2, 0.2, n=50)]).rate_rps == 1


def test_a_sweep_that_is_not_monotonic():
    """A pass above a failure is reported as such, and no capacity is stated."""
    found = slo.capacity([point(1, 1.0), point(2, 0.5), point(4, 1.0)])
    assert (found.rate_rps, found.result, found.passes_up_to) == (None, "non_monotonic", 1)
    assert "2" in found.reason and "4" in found.reason


def test_one_rate_twice():
    """Two runs at one rate are not a sweep's point."""
    with pytest.raises(BadInput):
        slo.capacity([point(1, 1.0), point(1, 1.0)])


def test_numbers_are_finite():
    """No figure of a report is NaN or infinite."""
    report = slo.analyse(run([answer(0, tokens=0) | {"frame_ns": [], "frame_tokens": [], "output_tokens": 0}]))
    assert report.ttft_ms.n == 0
    assert all(math.isfinite(v) for v in report.queue_trend.quarter_means)
    json.dumps(report.to_dict(), allow_nan=False)
