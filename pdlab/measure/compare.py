"""Two runs side by side: first whether they may be compared at all, only then ratios.

A ratio is printed when every validity gate passes.  Otherwise both columns are shown, and what
stands in the way.  The budget of a run is ``summary["budget"]`` ({count, unit}) of its provenance, or
follows from both runs having been made by the same plan (which is checked for equal budgets).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pdlab.errors import BadInput
from pdlab.measure import caches, slo
from pdlab.measure.plan import Acceptance
from pdlab.measure.records import Run
from pdlab.theory._check import shown

SCHEDULE_TOLERANCE_NS = 1_000_000  # the same schedule, written down by two programs
OUTPUT_TOLERANCE = 0.01  # share by which the total of generated tokens may differ


@dataclass(frozen=True, slots=True)
class Check:
    """One validity gate.  ``not_carried`` does not block; it is said."""

    name: str
    result: Literal["pass", "fail", "not_carried"]
    detail: str


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of both runs; the ratio is B / A, null where refused or undefined."""

    metric: str
    a: float | None
    b: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What may be said about two runs."""

    a: slo.Report
    b: slo.Report
    checks: list[Check]
    rows: list[Row]
    valid: bool
    question: str

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON takes it."""
        return asdict(self)


def compare(
    run_a: Run,
    run_b: Run,
    acceptance: Acceptance = slo.REFERENCE_ACCEPTANCE,
    *,
    single: Run | None = None,
    normalise: bool = False,
    output_tokens_minimum_for_tpot: int = 2,
) -> Comparison:
    """Compare run B with run A.

    ``single`` is a run of one replica of A's kind on the same trace: two must beat it.
    ``normalise`` divides rates by the budget, for unequal budgets: that answers another question.
    """
    options = {"output_tokens_minimum_for_tpot": output_tokens_minimum_for_tpot}
    a = slo.analyse(run_a, acceptance, **options)
    b = slo.analyse(run_b, acceptance, **options)
    alone = slo.analyse(single, acceptance, **options) if single else None
    budgets = _budget(run_a), _budget(run_b)
    if normalise and (budgets[0] is None or budgets[1] is None or budgets[0][1] != budgets[1][1]):
        raise BadInput(
            "no budget that both runs state in one unit", 'summary.budget {"count", "unit"} in both', "provenance",
            "Without it there is nothing to divide by.",
        )  # fmt: skip
    needed = slo.requests_needed(acceptance.slo_attainment_min)
    checks = [
        _equal_budget(run_a, run_b, budgets, normalise),
        _same_evidence(a, b),
        _same_trace(run_a, run_b),
        _same_cache(run_a, run_b),
        _enough(a, b, needed),
        _same_answers(run_a, run_b),
        _lag(a, b),
        _replicas(run_a, a, alone),
    ]
    valid = all(check.result != "fail" for check in checks)
    share = (budgets[0][0], budgets[1][0]) if normalise else (1, 1)
    question = "Which design serves more, or sooner, with the same budget?"
    if normalise:
        question = (
            f"Which design serves more for each {budgets[0][1]}? This is another question than the plan's: "
            "a design need not keep its rate per unit when it is built larger or smaller."
        )
    return Comparison(a, b, checks, list(_rows(a, b, valid, share)), valid, question)


def _rows(a: slo.Report, b: slo.Report, valid: bool, share: tuple[float, float]) -> Iterator[Row]:
    for metric in ("goodput_rps", "throughput_rps"):
        yield _row(metric, getattr(a, metric), getattr(b, metric), valid, share)
    for latency in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        for stat in ("p50", "p95", "p99"):
            values = (getattr(getattr(r, latency), stat) for r in (a, b))
            yield _row(f"{latency.removesuffix('_ms')}_{stat}_ms", *values, valid, (1, 1))
    yield _row("attainment", a.joint_attainment.all_offered, b.joint_attainment.all_offered, False, (1, 1))
    yield _row("error_rate", a.error_rate, b.error_rate, False, (1, 1))


def _row(metric: str, a: float | None, b: float | None, valid: bool, share: tuple[float, float]) -> Row:
    if share != (1, 1):
        metric += "_per_unit"
        a, b = (None if x is None else x / of for x, of in zip((a, b), share, strict=True))
    ratio = b / a if valid and a and b is not None else None
    return Row(metric, a, b, ratio)


# ---------------------------------------------------------------- validity gates


def _budget(run: Run) -> tuple[float, str] | None:
    budget = (run.provenance.get("summary") or {}).get("budget")
    if not budget:
        return None
    try:
        count, unit = float(budget["count"]), str(budget["unit"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(shown(budget), '{"count": 16, "unit": "GPU"}', f"{run.name}, summary.budget") from error
    if not 0 < count < 1e12:
        raise BadInput(f"{count}", "a budget above 0", f"{run.name}, summary.budget")
    return count, unit


def _equal_budget(run_a: Run, run_b: Run, budgets: tuple, normalise: bool) -> Check:
    name, (a, b) = "equal_budget", budgets
    if a and b:
        said = f"A {a[0]:g} {a[1]}s, B {b[0]:g} {b[1]}s"
        if a == b:
            return Check(name, "pass", said)
        return Check(name, "pass" if normalise else "fail", said + (" (normalised)" if normalise else ""))
    plans = run_a.provenance.get("plan_sha256"), run_b.provenance.get("plan_sha256")
    if plans[0] and plans[0] == plans[1]:
        return Check(name, "pass", "both runs are of one plan, whose sides have equal budgets")
    return Check(name, "fail", "the runs state no budget, nor one plan")


def _same_evidence(a: slo.Report, b: slo.Report) -> Check:
    if a.label == b.label and a.label is not None:
        return Check("same_evidence", "pass", f"both {a.label}")
    return Check("same_evidence", "fail", f"A is {a.label}, B is {b.label}")


def _judged(run: Run) -> pa.Table:
    return run.table.filter(pc.invert(run.table["warmup"])).sort_by("seq")


def _same_trace(run_a: Run, run_b: Run) -> Check:
    name, a, b = "same_trace", _judged(run_a), _judged(run_b)
    names = run_a.provenance.get("workload"), run_b.provenance.get("workload")
    if names[0] != names[1]:
        return Check(name, "fail", f"A ran {names[0]}, B ran {names[1]}")
    # Every request of a resumed run was sent once, but what was queued at the cut was lost with it.
    cut = [which for which, run in (("A", run_a), ("B", run_b)) if (run.provenance.get("summary") or {}).get("resumed")]
    if cut:
        return Check(name, "fail", f"{' and '.join(cut)} stopped half-way and went on with empty queues: run again in one go")
    if a.num_rows != b.num_rows or not a["seq"].combine_chunks().equals(b["seq"].combine_chunks()):
        return Check(name, "fail", f"A offered {a.num_rows} requests, B {b.num_rows}, or not the same ones")
    for column in ("prompt_tokens", "requested_output_tokens"):
        if a[column].null_count or b[column].null_count:
            continue
        differ = int(pc.sum(pc.not_equal(a[column].combine_chunks(), b[column].combine_chunks())).as_py() or 0)
        if differ:
            return Check(name, "fail", f"{column} differs in {differ} of {a.num_rows} requests")
    if not (a["scheduled_ns"].null_count or b["scheduled_ns"].null_count) and a.num_rows:
        due = [t["scheduled_ns"].to_numpy() for t in (a, b)]
        due = [d - d[0] for d in due]
        late = int((np.abs(due[0] - due[1]) > SCHEDULE_TOLERANCE_NS).sum())
        if late:
            return Check(name, "fail", f"{late} of {a.num_rows} requests were due at another time")
    elif names[0] is None:
        return Check(name, "fail", "neither a workload nor a schedule is stated")
    trace = names[0].get("trace", names[0]) if isinstance(names[0], dict) else names[0]
    return Check(name, "pass", f"{a.num_rows} requests" + (f" of {trace}" if trace else ""))


def _same_cache(run_a: Run, run_b: Run) -> Check:
    name = "same_cache_state"
    states = run_a.provenance.get("cache_state"), run_b.provenance.get("cache_state")
    if states[0] != states[1]:
        return Check(name, "fail", f"A {states[0]}, B {states[1]}")
    if states[0] is None:
        return Check(name, "not_carried", "neither run states it")
    seen = [caches.evidence(run, _judged(run)) for run in (run_a, run_b)]
    said = [f"{which}: {one.said if one else 'nothing kept to see it by'}" for which, one in zip("AB", seen, strict=True)]
    if any(one and one.contradicts for one in seen):
        return Check(name, "fail", f"both labelled {states[0]}, but {'; '.join(said)}")
    return Check(name, "not_carried" if None in seen else "pass", f"both labelled {states[0]}; {'; '.join(said)}")


def _enough(a: slo.Report, b: slo.Report, needed: int) -> Check:
    short = [f"{which} has {r.offered}" for which, r in (("A", a), ("B", b)) if r.offered < needed]
    if short:
        return Check("enough_requests", "fail", f"{', '.join(short)}; the attainment gate needs {needed}")
    return Check("enough_requests", "pass", f"{a.offered} and {b.offered}; the attainment gate needs {needed}")


def _same_answers(run_a: Run, run_b: Run) -> Check:
    name, answered, tokens = "same_requests_answered", [], []
    for run in (run_a, run_b):
        doubted = set((run.provenance.get("summary") or {}).get("unverified") or ())
        table = _judged(run)
        table = table.filter(pc.equal(table["status"], "ok"))
        idents = zip(table["seq"].to_pylist(), table["request_id"].to_pylist(), strict=True)
        answered.append({seq for seq, ident in idents if ident not in doubted})
        tokens.append(None if table["output_tokens"].null_count else pc.sum(table["output_tokens"]).as_py() or 0)
    only_a, only_b = len(answered[0] - answered[1]), len(answered[1] - answered[0])
    if only_a or only_b:
        return Check(name, "fail", f"{only_a} requests were answered by A only, {only_b} by B only")
    if None not in tokens and abs(tokens[0] - tokens[1]) > OUTPUT_TOLERANCE * max(tokens):
        return Check(name, "fail", f"A generated {tokens[0]} tokens, B {tokens[1]}")
    if not answered[0]:
        return Check(name, "fail", "neither answered any request")
    return Check(name, "pass", f"the same {len(answered[0])}")


def _lag(a: slo.Report, b: slo.Report) -> Check:
    name, said, worst = "small_dispatch_lag", [], "pass"
    for which, report in (("A", a), ("B", b)):
        gate = next((g for g in report.gates if g.name == "dispatch_lag_p99_ms"), None)
        if gate is None:
            return Check(name, "not_carried", "no TTFT limit to measure it by")
        value = "unknown" if gate.value is None else f"{gate.value:.3f} ms"
        said.append(f"{which} p99 {value}")
        if gate.result != "pass":
            worst = "fail"
        limit = gate.limit
    return Check(name, worst, f"{', '.join(said)}; limit {limit:g} ms")


def _replicas(run_a: Run, a: slo.Report, alone: slo.Report | None) -> Check:
    name = "replicas_beat_one"
    stated = (run_a.provenance.get("summary") or {}).get("single_replica_goodput_rps")
    one = alone.goodput_rps if alone else stated
    if one is None:
        return Check(name, "not_carried", "no run of a single replica to hold the baseline against")
    if a.goodput_rps is None:
        return Check(name, "fail", "the baseline's goodput is not known")
    said = f"baseline {a.goodput_rps:.4g} against {one:.4g} good requests/s of one replica"
    return Check(name, "pass" if a.goodput_rps > one else "fail", said)
