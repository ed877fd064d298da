"""Comparison: validity first, ratios only when every gate holds."""

from __future__ import annotations

import pytest

from pdlab.errors import BadInput
from pdlab.measure.compare import compare
from tests.measure.runs import MS, answer, run

GPUS = {"budget": {"count": 16, "unit": "GPU"}}


def side(n=100, summary=GPUS, cache_state="cold", workload="trace.jsonl", rows=None, **answers):
    """One side of a comparison."""
    rows = rows or [answer(i, **answers) for i in range(n)]
    return run(rows, summary=summary, cache_state=cache_state, workload=workload)


def failed(found):
    """The names of the failed checks."""
    return [check.name for check in found.checks if check.result == "fail"]


def ratio(found, metric):
    """The ratio of one metric."""
    return next(row.ratio for row in found.rows if row.metric == metric)


def test_a_valid_comparison():
    """Two runs that may be compared give ratios B / A with both numbers."""
    found = compare(side(ttft_ms=50), side(ttft_ms=100))
    assert (found.valid, failed(found)) == (True, [])
    assert ratio(found, "ttft_p50_ms") == 2.0
    row = next(r for r in found.rows if r.metric == "ttft_p50_ms")
    assert (row.a, row.b) == (50, 100)


ROWS = [answer(i) for i in range(100)]


@pytest.mark.parametrize(
    "a, b, name",
    [
        (side(), side(summary={"budget": {"count": 8, "unit": "GPU"}}), "equal_budget"),
        (side(), side(summary={}), "equal_budget"),
        (side(), side(workload="other.jsonl"), "same_trace"),
        (side(), side(99), "same_trace"),
        (side(), side(prompt_tokens=200), "same_trace"),
        (side(), side(rows=[r | {"scheduled_ns": r["scheduled_ns"] * 2} for r in ROWS]), "same_trace"),
        (side(), side(cache_state="warm"), "same_cache_state"),
        (side(), side(cached_tokens=64), "same_cache_state"),
        (side(72), side(72), "enough_requests"),
        (side(), side(rows=[*ROWS[:-1], answer(99, status="failed")]), "same_requests_answered"),
        (side(), side(tokens=9), "same_requests_answered"),
        (side(), side(rows=[r | {"scheduled_ns": r["sent_ns"] - 400 * MS} for r in ROWS]), "small_dispatch_lag"),
    ],
)
def test_what_forbids_a_ratio(a, b, name):
    """One failed gate is named, and no ratio is drawn."""
    found = compare(a, b)
    assert name in failed(found) and not found.valid
    assert all(row.ratio is None for row in found.rows)
    assert all(row.a is not None for row in found.rows if row.metric == "ttft_p50_ms")


def test_labels_are_not_mixed():
    """A simulated run is not compared with a measured one."""
    b = side()
    b.provenance["label"] = "measured"
    assert failed(compare(side(), b)) == ["same_evidence"]


def test_one_plan_is_one_budget():
    """Two runs of one plan need not state their budgets."""
    a, b = side(summary={}), side(summary={})
    a.provenance["plan_sha256"] = b.provenance["plan_sha256"] = "abc"
    assert compare(a, b).valid


def test_two_replicas_must_beat_one():
    """A baseline of two replicas that does no better than one is no baseline."""
    slow = side(rows=[answer(i, ttft_ms=3000 if i < 60 else 50) for i in range(100)])
    found = compare(slow, side(), single=side())
    assert failed(found) == ["replicas_beat_one"]
    assert failed(compare(side(), side(), single=slow)) == []
    assert next(c for c in compare(side(), side()).checks if c.name == "replicas_beat_one").result == "not_carried"


def test_unequal_budgets_when_told():
    """Normalised, the rates are divided by the budget, and the question is said to be another one."""
    a, b = side(), side(summary={"budget": {"count": 8, "unit": "GPU"}})
    found = compare(a, b, normalise=True)
    assert found.valid and "another question" in found.question
    assert ratio(found, "throughput_rps_per_unit") == pytest.approx(2.0)
    with pytest.raises(BadInput, match="budget"):
        compare(side(summary={}), b, normalise=True)


def test_a_budget_that_is_none():
    """A budget without a count, or of nothing, is bad input."""
    for budget in ({"unit": "GPU"}, {"count": 0, "unit": "GPU"}):
        with pytest.raises(BadInput, match="budget"):
            compare(side(summary={"budget": budget}), side())


def test_nothing_answered():
    """Two runs of failures have no ratio to draw."""
    rows = [answer(i, status="failed") for i in range(100)]
    assert "same_requests_answered" in failed(compare(side(rows=rows), side(rows=rows)))
