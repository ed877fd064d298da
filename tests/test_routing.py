"""The routing lab's recorder on scripted servers: every rule meets the same trace, and every decision is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from fake_deployment import scripted

from pdlab.errors import BadInput
from pdlab.live import policy, routing, sweep
from pdlab.measure import plan as plans
from pdlab.measure import records, traces, workload


def quiet(_: str) -> None:
    """No progress in tests."""


@pytest.fixture
def fake():
    with scripted() as deployments:
        yield deployments


def write_plan(directory: Path) -> Path:
    """The shipped plan at 20 requests a second, on a trace of short cold and longer shared prompts."""
    plan = yaml.safe_load(routing.PLAN.read_text())
    kinds = [workload.Kind("short", 0.5, 20, 2), workload.Kind("shared", 0.5, 1400, 2, 1024, 1)]
    trace = workload.population(kinds, range(0, 12_000, 1000), seed=1, block_tokens=128)
    traces.write_trace(trace, directory / "trace.jsonl")
    plan["comparison"] |= {"offered_rates_rps": [20], "duration_seconds": 0.5, "warmup_requests": 2,
                           "workload_trace": str(directory / "trace.jsonl")}  # fmt: skip
    (directory / "plan.yaml").write_text(yaml.safe_dump(plan))
    return directory / "plan.yaml"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One recording, which the tests below only read: its plan, its directory, its deployments."""
    root = tmp_path_factory.mktemp("recorded")
    with scripted() as deployments:
        path = write_plan(root)
        out = routing.record(root / "out", path, "a note", say=quiet, apart_s=0.05)
    return path, out, deployments.made


def test_every_rule_meets_the_same_requests_and_starts_on_empty_caches(recorded):
    """Six runs, two deployments; caches emptied once a run; a decision kept for each request, with its reason."""
    _, out, made = recorded
    assert [(one.spec.design, one.resets) for one in made] == [("disaggregated", 5), ("aggregated", 1)]
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
    two = [routing.read_decisions(out / name) for name in ("llm-d-200", "dynamo-200-0.7")]
    split = {a["kind"] for a, b in zip(*two, strict=True) if a["side"] != b["side"]}
    assert split == {"short"}, "the short cold prompt is where the two rules part"
    assert max(one["cached_tokens"] for one in two[0]) == 1024


def test_the_targets_stand_on_requests_that_were_alone(recorded):
    """Before the rules: one warm-up and each end of the trace's lengths twice, cold, with prefill on either side."""
    _, out, _ = recorded
    for rule in routing.ALONE_RULES:
        run = records.read_run(out / routing.ALONE / rule)
        rows = records.rows(run.table)
        assert [row["warmup"] for row in rows] == [True] + [False] * 4 and {row["status"] for row in rows} == {"ok"}
        assert all((">" in row["route"]) == (rule == "all-remote") for row in rows)
    asked = routing.alone(sweep.read_workload(routing.PLAN, plans.load(routing.PLAN)))
    assert [request.prompt_tokens for request in asked] == [80, 80, 640, 80, 640]
    ids = [i for request in asked for i in request.hash_ids]
    assert len(ids) == len(set(ids)), "no cache can help any of them"


def test_what_is_recorded_already_is_kept(recorded, fake):
    """A second call starts no server, and leaves every record as it was."""
    path, out, _ = recorded
    before = {file: file.read_bytes() for file in out.rglob("records.parquet")}
    routing.record(out, path, "a note", say=quiet)
    assert not fake.made and len(before) == 8
    assert {file: file.read_bytes() for file in out.rglob("records.parquet")} == before


def test_the_shipped_plan_and_trace_hold_the_three_kinds():
    """The trace is long enough, its shared prefixes are whole blocks, and its kinds split the two published rules."""
    plan = plans.load(routing.PLAN)
    base = sweep.read_workload(routing.PLAN, plan)
    trace = sweep.requests(plan, routing.cases(plan)[0], base)
    assert Counter(r.kind for r in trace) == {"short": 55, "long": 29, "shared": 36}
    heads = {r.hash_ids[:3] for r in trace if r.kind == "shared"}
    assert len(heads) == 3 and base.block_tokens == 128
    assert all(80 <= r.prompt_tokens <= 120 for r in trace if r.kind == "short")
    assert all(480 <= r.prompt_tokens <= 640 for r in trace if r.kind != "short")
    with pytest.raises(BadInput):
        sweep.read_workload(tmp := Path("/nowhere/plan.yaml"), plan.model_copy(update={
            "comparison": plan.comparison.model_copy(update={"workload_trace": f"{tmp.parent}/t.jsonl"})}))  # fmt: skip
