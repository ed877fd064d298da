"""The routing lab's recorder on scripted servers: every rule meets the same trace, and every decision is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from fake_deployment import FakeDeployment

from pdlab.errors import BadInput
from pdlab.live import policy, routing, serve, sweep
from pdlab.measure import plan as plans
from pdlab.measure import records, traces, workload


def quiet(_: str) -> None:
    """No progress in tests."""


@pytest.fixture
def fake(monkeypatch):
    FakeDeployment.made = []
    monkeypatch.setattr(serve, "Deployment", FakeDeployment)
    return FakeDeployment


def write_plan(directory: Path) -> Path:
    """The shipped plan at 20 requests a second, on a trace of short cold and longer shared prompts."""
    plan = yaml.safe_load(routing.PLAN.read_text())
    kinds = [workload.Kind("short", 0.5, 20, 2), workload.Kind("shared", 0.5, 1400, 2, 1024, 1)]
    trace = workload.population(kinds, workload.fixed_ms(1.0, 12), seed=1, block_tokens=128)
    traces.write_trace(trace, directory / "trace.jsonl")
    plan["comparison"] |= {"offered_rates_rps": [20], "duration_seconds": 0.5, "warmup_requests": 2,
                           "workload_trace": str(directory / "trace.jsonl")}  # fmt: skip
    (directory / "plan.yaml").write_text(yaml.safe_dump(plan))
    return directory / "plan.yaml"


def test_every_rule_meets_the_same_requests_and_starts_on_empty_caches(fake, tmp_path):
    """Six runs, two deployments; caches emptied once a run; a decision kept for each request, with its reason."""
    out = routing.record(tmp_path / "out", write_plan(tmp_path), "a note", say=quiet)
    assert [(one.spec.design, one.resets) for one in fake.made] == [("disaggregated", 5), ("aggregated", 1)]
    found = {entry.design: entry.read() for entry in records.read_sweep(out).entries}
    assert list(found) == [*routing.RULES, routing.REPLICAS]
    for design, run in found.items():
        assert run.provenance["notes"] == "a note" and run.provenance["label"] == "measured"
        assert Counter(run.table["status"].to_pylist()) == {"ok": 12}
        kept = routing.read_decisions(out / design.replace(":", "-").replace(" ", "-"))
        assert [one["seq"] for one in kept] == list(range(12))
        assert all(one["reason"] for one in kept)
        if design in routing.RULES:
            rule = policy.rule_from_name(design)
            for one in kept:
                decision = rule(policy.Ask(one["prompt_tokens"], one["cached_tokens"] or 0))
                assert (decision.side, decision.reason) == (one["side"], one["reason"])
    two = [routing.read_decisions(out / name) for name in ("llm-d-512", "dynamo-512-0.7")]
    split = {a["kind"] for a, b in zip(*two, strict=True) if a["side"] != b["side"]}
    assert split == {"short"}, "the short cold prompt is where the two rules part"
    assert max(one["cached_tokens"] for one in two[0]) == 1024


def test_what_is_recorded_already_is_kept(fake, tmp_path):
    """A second call starts no server."""
    path = write_plan(tmp_path)
    routing.record(tmp_path / "out", path, say=quiet)
    fake.made.clear()
    routing.record(tmp_path / "out", path, say=quiet)
    assert not fake.made


def test_the_shipped_plan_and_trace_hold_the_three_kinds():
    """The trace is long enough, its shared prefixes are whole blocks, and its kinds split the two published rules."""
    plan = plans.load(routing.PLAN)
    base = sweep.read_workload(routing.PLAN, plan)
    trace = sweep.requests(plan, routing.cases(plan)[0], base)
    assert Counter(r.kind for r in trace) == {"short": 24, "long": 14, "shared": 16}
    heads = {r.hash_ids[:8] for r in trace if r.kind == "shared"}
    assert len(heads) == 3 and base.block_tokens == 128
    assert all(200 <= r.prompt_tokens <= 300 for r in trace if r.kind == "short")
    assert all(1200 <= r.prompt_tokens <= 1600 for r in trace if r.kind != "short")
    with pytest.raises(BadInput):
        sweep.read_workload(tmp := Path("/nowhere/plan.yaml"), plan.model_copy(update={
            "comparison": plan.comparison.model_copy(update={"workload_trace": f"{tmp.parent}/t.jsonl"})}))  # fmt: skip
