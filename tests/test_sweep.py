"""The sweep's own logic, on scripted servers: what runs, in what order, and what a kill leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_deployment import scripted, write_plan

from pdlab.errors import BadInput
from pdlab.live import sweep
from pdlab.measure import plan as plans
from pdlab.measure import records, slo, traces

NAMES = [f"{design}-cold-{rate}rps" for design in ("aggregated", "disaggregated") for rate in (20, 40)]
COUNTS = {20: 12, 40: 22}


@pytest.fixture
def fake():
    with scripted() as deployments:
        yield deployments


def quiet(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """One finished sweep, which the tests below only read: its plan, its directory, its deployments."""
    root = tmp_path_factory.mktemp("swept")
    with scripted() as deployments:
        path = write_plan(root)
        out = sweep.run_sweep(path, root / "out", say=quiet)
    return path, out, deployments.made


def test_a_sweep_runs_both_designs_at_every_rate_on_the_same_requests(swept):
    """Four runs from two deployments; the two designs met the same requests; nothing is missing."""
    _, out, made = swept
    found = records.read_sweep(out)
    assert [entry.name for entry in found.entries] == NAMES
    assert [one.spec.design for one in made] == ["aggregated", "disaggregated"]
    assert [one.resets for one in made] == [2, 2], "a cold run starts on empty caches"
    runs = {entry.name: entry.read() for entry in found.entries}
    for entry in found.entries:
        table = runs[entry.name].table
        assert table.num_rows == COUNTS[int(entry.offered_rate_rps)]
        assert set(table["status"].to_pylist()) == {"ok"}
        assert table["warmup"].to_pylist() == [True, True] + [False] * (table.num_rows - 2)
    a, d = runs["aggregated-cold-20rps"], runs["disaggregated-cold-20rps"]
    for column in ("seq", "scheduled_ns", "prompt_tokens", "requested_output_tokens"):
        assert column == "prompt_tokens" or a.table[column].equals(d.table[column])
    assert a.provenance["workload"] == d.provenance["workload"]


def test_rows_carry_their_route_and_the_routers_steps_on_the_runs_clock(swept):
    """A disaggregated row names both servers; its steps lie between sending and the first token."""
    _, out, _ = swept
    rows = records.rows(records.read_run(out / "disaggregated-cold-20rps").table)
    assert {row["route"] for row in rows} == {"prefill-0 > decode-1"}
    for row in rows:
        steps = row["stage_ns"]
        order = [row["sent_ns"], steps["router_received"], steps["router_prefill_sent"], steps["router_prefill_done"],
                 steps["router_decode_sent"], steps["router_first_frame"], row["frame_ns"][-1] + 10**9]  # fmt: skip
        assert order == sorted(order) and row["attempts"] == 1
    rows = records.rows(records.read_run(out / "aggregated-cold-20rps").table)
    assert {row["route"] for row in rows} == {"aggregated-0", "aggregated-1"}


def test_provenance_says_what_ran_and_the_servers_counters_are_kept(swept):
    """Label, budget, plan digest, window; one sample of each server at least, on the run's clock."""
    plan_path, out, _ = swept
    run = records.read_run(out / "disaggregated-cold-40rps")
    about = run.provenance
    assert about["label"] == "measured" and about["offered_rate_rps"] == 40 and about["cache_state"] == "cold"
    assert about["summary"]["budget"] == {"count": 2, "unit": "CPU core"}
    assert about["plan_sha256"] == plans.sha256(plan_path)
    assert about["window_ns"][1] - about["window_ns"][0] == 500_000_000
    samples = [json.loads(line) for line in (out / run.name / sweep.SERVER_METRICS).read_text().splitlines()]
    assert {one["server"] for one in samples} == {"prefill-0", "decode-1"}
    assert all(one["num_requests_running"] == 1 and "other" not in one for one in samples)
    assert all(-2 * 10**9 < one["t_ns"] < 60 * 10**9 for one in samples)
    assert slo.analyse(run).offered == 20


def test_tuning_tries_each_chunk_size_and_one_replica_first(tmp_path, fake):
    """With tune, the plan's chunk sizes run first, then one replica alone; the choice is used and kept."""
    out = sweep.run_sweep(write_plan(tmp_path), tmp_path / "out", tune=True, say=quiet)
    used = [(one.spec.design, one.spec.max_num_batched_tokens, one.spec.replicas) for one in fake.made]
    choice = json.loads((out / "tuning" / "choice.json").read_text())
    best = choice["chunk_tokens"]
    assert used == [("aggregated", 128, 2), ("aggregated", 512, 2), ("aggregated", best, 1),
                    ("aggregated", best, 2), ("disaggregated", 512, 1)]  # fmt: skip
    assert [one["chunk_tokens"] for one in choice["tried"]] == [128, 512]
    assert {entry.design for entry in records.read_sweep(out / "tuning").entries} == {
        "aggregated chunk 128", "aggregated chunk 512", "aggregated 1 replica"}  # fmt: skip
    summary = records.read_run(out / "aggregated-cold-40rps").provenance["summary"]
    assert summary["single_replica_goodput_rps"] is not None and summary["chunk_tokens"] == best


def test_a_cold_trace_repeats_no_prompt_and_a_warm_one_does(tmp_path):
    """Cold gives every block an id of its own; warm leaves the trace's shared beginnings."""
    plan = plans.load(write_plan(tmp_path))
    from pdlab.measure import workload

    base = workload.uniform(64, 2, workload.poisson_ms(1, 60, 0), block_tokens=16, shared_tokens=32)
    cold = sweep.requests(plan, sweep.Case("aggregated", "cold", 20), base)
    warm = sweep.requests(plan, sweep.Case("aggregated", "warm", 20), base)
    assert workload.hit_ratio(cold) == 0 and workload.hit_ratio(warm) > 0.4
    assert cold.requests[0].at_ms == 0 and [r.at_ms for r in cold] == [r.at_ms for r in warm]


def test_a_trace_that_is_too_short_is_refused(tmp_path, fake):
    """More requests than the trace has: bad input, with both numbers."""
    with pytest.raises(BadInput, match="60 requests.*at least 402"):
        sweep.run_sweep(write_plan(tmp_path, offered_rates_rps=[400], duration_seconds=1), tmp_path / "out", say=quiet)


def test_another_plan_in_the_same_directory_is_refused(swept, fake):
    """A directory belongs to one plan, and is gone on with only when asked."""
    path, out, _ = swept
    with pytest.raises(BadInput, match="--resume"):
        sweep.run_sweep(path, out, say=quiet)
    other = path.with_name("other.yaml")
    other.write_text(path.read_text().replace("warmup_requests: 2", "warmup_requests: 3"))
    with pytest.raises(BadInput, match="another plan"):
        sweep.run_sweep(other, out, resume=True, say=quiet)
    assert not fake.made


def test_resuming_a_finished_sweep_starts_no_server(swept, fake):
    """Nothing left to do is nothing done."""
    path, out, made = swept
    sweep.run_sweep(path, out, resume=True, say=quiet)
    assert len(made) == 2 and not fake.made


def test_the_miniature_plan_can_be_carried_out():
    """The shipped plan's trace is long enough, and its servers' options are as the plan says."""
    root = Path(__file__).resolve().parents[1]
    plan = plans.load(root / "data/plans/miniature-2core.yaml")
    base = traces.read_trace(root / plan.comparison.workload_trace)
    for case in sweep.main_cases(plan, 128):
        trace = sweep.requests(plan, case, base)
        assert len(trace) == plan.comparison.warmup_requests + round(30 * case.rate_rps)
        made = sweep.spec(plan, case)
        assert made.units == 2 and made.max_num_batched_tokens == (
            128 if case.design == "aggregated" else max(plan.live.max_num_batched_tokens)
        )
        assert max(r.prompt_tokens + r.output_tokens for r in trace) <= made.max_model_len
    alone = sweep.spec(plan, sweep.single_case(plan, 128))
    assert (alone.replicas, alone.units) == (1, 1)
