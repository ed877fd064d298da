"""From a plan to the simulator's configuration, and from its results to records."""

import json
from dataclasses import replace

import pytest

from pdlab.course import cli
from pdlab.errors import BadInput
from pdlab.live import sim_points, simulate
from pdlab.measure import plan, records
from pdlab.measure.traces import read_trace

PLAN = simulate.ROOT / "data/plans/reference-16gpu.yaml"
BASE = read_trace(simulate.ROOT / "data/traces/reference-16gpu.jsonl")
LOADED = plan.load(PLAN)
POINTS = {point.path: point for point in sim_points.points(LOADED)}
SPLIT = POINTS["main/disaggregated-cold-4rps"]


def _result(trace, **changed):
    """What the simulator would say of a trace, in its own words."""
    requests = [
        {
            "session_id": f"request_{r.seq + 1}", "arrival_time_ms": r.at_ms, "first_admit_ms": r.at_ms + 1,
            "source_held_ms": r.at_ms + 85, "destination_reserved_ms": r.at_ms + 86,
            "destination_activated_ms": r.at_ms + 89, "first_token_ms": r.at_ms + 99,
            "last_token_ms": r.at_ms + 2000, "prefill_worker_idx": 0, "decode_worker_idx": 1,
            "input_length": 2000, "output_length": 200, "reused_input_tokens": 0,
            "terminal_status": "completed", **changed,
        }
        for r in trace
    ]  # fmt: skip
    return {"requests": requests}


def _trace():
    return sim_points.workload(replace(SPLIT, requests=5), LOADED, BASE)


def test_point_names_are_unique():
    """Every point has a directory of its own."""
    assert len(POINTS) == len(sim_points.points(LOADED)) > 100


def test_every_layout_spends_the_plans_budget():
    """No point wins by using more GPUs; one replica alone has half of them, and is no contestant."""
    assert {point.layout.gpus for point in POINTS.values() if point.group != "single"} == {16}
    assert {point.layout.gpus for point in POINTS.values() if point.group == "single"} == {8}


def test_the_configuration_says_what_the_plan_says():
    """Model, hardware, replicas, tensor parallelism and link come from the plan and the point."""
    made = simulate.config(SPLIT, LOADED, "t.jsonl")
    engine = made["engine"]
    assert engine["model"] == "meta-llama/Meta-Llama-3.1-70B" and engine["hardware"] == "h100_sxm"
    assert engine["workers"]["prefill"]["parallelism"] == {"replicas": 1, "tensor": 8}
    assert engine["kv_transfer"]["bandwidth_gb_per_second"] == 25
    assert made["traffic"]["source"]["paths"] == ["t.jsonl"]
    alone = simulate.config(POINTS["main/aggregated-cold-4rps"], LOADED, "t.jsonl")["engine"]
    assert alone["workers"]["aggregated"]["scheduler"]["max_batched_tokens"] == 2048
    assert "kv_transfer" not in alone


def test_a_rate_only_speeds_the_trace_up():
    """At four requests a second the gaps are a quarter, the prompts the same, the first at 0."""
    one = sim_points.workload(POINTS["main/aggregated-warm-1rps"], LOADED, BASE)
    four = sim_points.workload(POINTS["main/aggregated-warm-4rps"], LOADED, BASE)
    assert four.requests[0].at_ms == 0
    assert four.requests[500].at_ms == pytest.approx(one.requests[500].at_ms / 4)
    assert four.requests[500].hash_ids == one.requests[500].hash_ids


def test_another_draw_changes_the_gaps_and_nothing_else():
    """A point with a seed has other arrivals than the trace at the same rate, the same lengths, and names its seed."""
    drawn = POINTS["draws/aggregated-2xtp8-draw-101-cold-14rps"]
    own, other = (sim_points.workload(point, LOADED, BASE) for point in (POINTS["main/aggregated-cold-14rps"], drawn))
    assert len(own) == len(other) == 1700 and own.requests[0].at_ms == other.requests[0].at_ms == 0
    assert own.requests[1].at_ms != other.requests[1].at_ms
    assert other.requests[-1].at_ms / 1000 == pytest.approx(1699 / 14, rel=0.05)
    assert [r.prompt_tokens for r in own] == [r.prompt_tokens for r in other]
    assert len({i for r in other for i in r.hash_ids}) == sum(len(r.hash_ids) for r in other)
    assert {p.arrivals_seed for p in POINTS.values() if p.group == "draws"} == set(sim_points.DRAW_SEEDS)


def test_cold_prompts_share_nothing_and_warm_ones_do():
    """The cache state of a point is a property of its prompts."""
    cold = sim_points.workload(POINTS["main/aggregated-cold-1rps"], LOADED, BASE)
    warm = sim_points.workload(POINTS["main/aggregated-warm-1rps"], LOADED, BASE)
    ids = [i for r in cold for i in r.hash_ids]
    assert len(ids) == len(set(ids)) > 0
    assert len({r.hash_ids[0] for r in warm}) == 8


def test_results_become_records_in_nanoseconds():
    """Times from ms to ns, stages by name, warm-up by count, and sent as scheduled."""
    row = records.rows(simulate.to_table(_result(_trace()), _trace(), 100, 120))[100]
    at = row["scheduled_ns"]
    assert row["sent_ns"] == at > 0 and not row["warmup"]
    assert row["first_token_ns"] - at == 99_000_000
    assert row["stage_ns"]["transfer_end"] - row["stage_ns"]["transfer_start"] == 3_000_000
    assert row["route"] == "prefill 0, decode 1" and row["stamp_source"] == "simulated"


@pytest.mark.parametrize(
    ("changed", "status"),
    [({"terminal_status": "dropped"}, "failed"), ({"last_token_ms": 10**6}, "timeout")],
)
def test_what_the_client_would_not_call_a_success_is_none(changed, status):
    """A request that the simulator dropped, or that took longer than the deadline."""
    table = simulate.to_table(_result(_trace(), **changed), _trace(), 100, 120)
    assert set(table["status"].to_pylist()) == {status}


def test_a_missing_or_misplaced_result_is_no_result():
    """Every request of the trace must be found again, at its own arrival time."""
    short = _result(_trace())
    del short["requests"][3]
    with pytest.raises(simulate.SimulatorFailed, match="request 3"):
        simulate.to_table(short, _trace(), 100, 120)
    with pytest.raises(simulate.SimulatorFailed, match="request 0"):
        simulate.to_table(_result(_trace(), arrival_time_ms=7.0), _trace(), 100, 120)


def test_the_hash_sees_every_digit_but_not_the_date():
    """One nanosecond changes it; recording the same run tomorrow does not."""
    table = simulate.to_table(_result(_trace()), _trace(), 100, 120)
    other = simulate.to_table(_result(_trace(), last_token_ms=5000.0), _trace(), 100, 120)
    today = records.provenance(label="simulated", source="aisimulate", date="2026-11-30")
    later = records.provenance(label="simulated", source="aisimulate", date="2026-12-01")
    assert simulate.content_hash(records.Run(table, today)) == simulate.content_hash(records.Run(table, later))
    assert simulate.content_hash(records.Run(table, today)) != simulate.content_hash(records.Run(other, today))


def test_a_trace_that_is_too_short_is_refused():
    """A rate needs as many requests as its duration holds."""
    with pytest.raises(BadInput, match="at least 4900"):
        short = replace(BASE, requests=BASE.requests[:1000])
        sim_points.workload(POINTS["main/aggregated-cold-8rps"], LOADED, short)


def test_other_precisions_and_pipelines_are_refused():
    """What the sweep does not model is not passed over."""
    fp8 = LOADED.model_copy(update={"comparison": LOADED.comparison.model_copy(update={"precision": "fp8"})})
    with pytest.raises(BadInput, match="bf16"):
        simulate.config(SPLIT, fp8, "t.jsonl")


def test_a_simulator_that_dies_is_tried_again_and_then_reported(tmp_path, monkeypatch):
    """Two deaths end it, with the simulator's last words."""
    words = tmp_path / "bin" / "python"
    words.parent.mkdir()
    words.write_text("#!/bin/sh\necho $$ >> " + str(tmp_path / "starts") + "\necho it broke >&2\nexit 3\n")
    words.chmod(0o755)
    (tmp_path / "pdlab-sim.json").touch()
    monkeypatch.setenv("PDLAB_SIM_ENV", str(tmp_path))
    with pytest.raises(simulate.SimulatorFailed, match="2 times .it broke."):
        list(simulate._predict([{"name": "0", "config": {}}], tmp_path))
    assert len((tmp_path / "starts").read_text().split()) == 2


def test_without_the_simulator_the_command_says_what_to_do(tmp_path, monkeypatch, capsys):
    """Exit 2 and `make sim`, no traceback."""
    monkeypatch.setenv("PDLAB_SIM_ENV", str(tmp_path / "nothing"))
    assert cli.main(["simulate", str(PLAN), "--out", str(tmp_path)]) == 2
    assert "make sim" in capsys.readouterr().err


@pytest.mark.skipif(not simulate.installed(), reason="the simulator is not installed (make sim)")
def test_the_recording_can_be_made_again_bit_for_bit(capsys):
    """A recorded run is simulated again and every digit of its records agrees."""
    out = simulate.ROOT / "data/runs/sim-reference"
    only = "main/disaggregated-cold-10"
    wanted = ["simulate", str(PLAN), "--out", str(out), "--only", only, "--check", "--json"]
    assert cli.main(wanted) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["runs"] == 1 and said["differ"] == []
