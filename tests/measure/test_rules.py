"""Other tools' rules on the small run and on a clean one."""

from __future__ import annotations

import pytest

from pdlab.measure import rules, slo, smallrun
from tests.measure.runs import answer, run

SMALL = smallrun.small_run()


def by_tool(a_run, ttft=300, tpot=30, duration_s=10.0):
    """{tool: (good, denominator)} of every rule that has a share."""
    found = [rule(a_run, ttft, tpot, duration_s) for rule in rules.RULES]
    return {v.tool: (v.good, v.denominator) for v in found}


def test_the_small_run_is_what_it_says():
    """100 offered, 94 complete, 6 failed, of which one was rejected; 87 good by the course's rule."""
    report = slo.analyse(SMALL, smallrun.LIMITS)
    assert (report.offered, report.succeeded, report.one_token) == (100, 94, 4)
    assert report.by_status == {"failed": 5, "ok": 94, "rejected": 1}
    assert report.joint_attainment.good == 87
    assert {g.name: g.result for g in report.gates} == {
        "slo_attainment": "fail", "error_rate": "fail", "queue_growth": "pass", "dispatch_lag_p99_ms": "fail",
    }  # fmt: skip


def test_the_small_run_is_the_same_each_time():
    """One seed, one run; another seed, another."""
    assert smallrun.small_run().table.equals(SMALL.table)
    assert not smallrun.small_run(7).table.equals(SMALL.table)


def test_five_tools_on_the_small_run():
    """One run, five shares: two of them call a promise of 95 % kept."""
    found = by_tool(SMALL)
    assert found == {
        "vLLM bench": (96, 97), "guidellm": (89, 96), "aiperf": (89, 100), "inference-perf": (89, 94),
        "DistServe scripts": (93, 94),
    }  # fmt: skip
    assert [tool for tool, (good, of) in found.items() if good / of >= 0.95] == ["vLLM bench", "DistServe scripts"]


def test_mlperf_counts_from_due():
    """Seven requests sent late break MLPerf's TTFT gate; sent in time, they do not."""
    found = rules.mlperf(SMALL, 300, 30)
    assert found.ttft_p99_ms > 300 and found.tpot_p99_ms < 30 and not found.passes
    rows = [r | {"scheduled_ns": r["sent_ns"]} for r in SMALL.table.to_pylist(maps_as_pydicts="strict")]
    assert rules.mlperf(run(rows), 300, 30).passes


@pytest.mark.parametrize("slow", [0, 3])
def test_on_a_clean_run_all_agree(slow):
    """Without failures, one-token answers, stalls and lag, everybody calls the same requests good."""
    rows = [answer(i, ttft_ms=400 if i < slow else 50) for i in range(100)]
    clean = run(rows)
    assert set(by_tool(clean).values()) == {(100 - slow, 100)}
    assert slo.analyse(clean, smallrun.LIMITS).joint_attainment.good == 100 - slow


def test_an_empty_run_has_no_means():
    """Nothing answered: no mean is made up, and MLPerf's gates are not passed."""
    nothing = run([answer(0, status="failed")])
    assert all(rule(nothing, 300, 30, 1.0).tpot_mean_ms is None for rule in rules.RULES)
    assert not rules.mlperf(nothing, 300, 30).passes
