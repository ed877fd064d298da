"""The recorded sweep of the reference plan: whether its records obey what any queue obeys.

No simulator runs here: these tests read data/runs/sim-reference.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pdlab.live import sim_points, simulate
from pdlab.measure import plan, records, simcheck, slo
from pdlab.theory import kv, queueing

ROOT = Path(simulate.ROOT)
SWEEP = ROOT / "data/runs/sim-reference"
PLAN = ROOT / "data/plans/reference-16gpu.yaml"
GROUPS = ("main", "single", "chunks", "chunks-4xtp4", "splits", "draws", "links", "prompts")
SATURATED = {  # a run beyond capacity, and the replicas of its prefill pool
    "main/disaggregated-cold-16rps": 1,
    "splits/disaggregated-1xtp4-to-3xtp4-cold-12rps": 1,
    "splits/disaggregated-2xtp4-to-2xtp4-cold-24rps": 2,
    "splits/disaggregated-2xtp4-to-1xtp8-cold-24rps": 2,
    "splits/disaggregated-3xtp4-to-1xtp4-cold-24rps": 3,
}


@cache
def run(path: str) -> records.Run:
    return records.read_run(SWEEP / path)


@cache
def capacities(group: str) -> dict[tuple[str, str], slo.Capacity]:
    acceptance, found = plan.load(PLAN).acceptance, {}
    for entry in records.read_sweep(SWEEP / group).entries:
        report = slo.analyse(run(f"{group}/{entry.name}"), acceptance)
        found.setdefault((entry.design, entry.cache_state), []).append((entry.offered_rate_rps, report))
    return {key: slo.capacity(points) for key, points in found.items()}


def test_every_point_of_the_plan_is_recorded_and_labelled():
    """No run is missing, none is stale: plan digest, hash, label, GPU count and request count agree."""
    wanted = sim_points.points(plan.load(PLAN))
    hashes = simulate.read_hashes(SWEEP)
    assert len(wanted) > 100 and {p.group for p in wanted} == set(GROUPS)
    assert sorted(hashes) == sorted(p.path for p in wanted)
    for point in wanted:
        kept = run(point.path)
        assert kept.provenance["label"] == "simulated"
        assert kept.provenance["plan_sha256"] == plan.sha256(PLAN)
        assert kept.provenance["seed"] == point.arrivals_seed
        assert simulate.content_hash(kept) == hashes[point.path]
        assert kept.table.num_rows == 100 + point.requests
        assert kept.provenance["summary"]["budget"]["count"] == (8 if point.group == "single" else 16)


def test_both_designs_met_the_same_requests():
    """At every rate and cache state the two sides have equal arrivals and lengths."""
    plan_rates = {p.rate_rps for p in sim_points.points(plan.load(PLAN)) if p.group == "main"}
    assert {1, 2, 4, 8} < plan_rates
    for cache_state in ("cold", "warm"):
        for rate in sorted(plan_rates):
            one = run(f"main/aggregated-{cache_state}-{rate:g}rps").table
            two = run(f"main/disaggregated-{cache_state}-{rate:g}rps").table
            same = ["seq", "scheduled_ns", "prompt_tokens", "requested_output_tokens", "warmup"]
            assert one.select(same).equals(two.select(same))


@pytest.mark.parametrize("group", GROUPS)
def test_littles_law_holds(group):
    """L = λ W within 0.5 % in every run that is long beside a request's stay."""
    gaps = [simcheck.littles_law(run(f"{group}/{e.name}")).gap
            for e in records.read_sweep(SWEEP / group).entries]  # fmt: skip
    assert len(gaps) >= 2
    assert max(abs(gap) for gap in gaps) < 0.005


def test_decode_concurrency_agrees_with_the_simulators_own_totals():
    """Tokens a second times the mean gap is the number decoding at once, within 1.5 %."""
    for entry in records.read_sweep(SWEEP / "main").entries:
        ours, theirs = simcheck.decoding_two_ways(run(f"main/{entry.name}"))
        assert theirs == pytest.approx(ours, rel=0.015)


@pytest.mark.parametrize(("path", "replicas"), SATURATED.items())
def test_a_saturated_prefill_pool_serves_at_one_over_its_service_time(path, replicas):
    """Beyond capacity the pool's output is replicas / service time, within 0.1 %."""
    service_s = simcheck.prefill_service_ms(run(path)).mean() / 1000
    assert run(path).provenance["offered_rate_rps"] > replicas / service_s
    assert simcheck.served_rps(run(path)) == pytest.approx(replicas / service_s, rel=0.001)


@pytest.mark.parametrize("chunk", [256, 512])
def test_saturated_aggregation_completes_what_full_passes_can_carry(chunk):
    """Replicas x chunk / (tokens a request x pass time) is the completion rate, within 1 %."""
    kept = run(f"chunks/aggregated-chunk-{chunk}-cold-16rps")
    pass_s = kept.provenance["summary"]["itl_p50_ms"] / 1000
    ends_s = np.sort(kept.table["end_ns"].to_numpy()) / 1e9
    quarter = len(ends_s) // 4
    completed = (len(ends_s) - 2 * quarter) / (ends_s[-quarter] - ends_s[quarter])
    assert completed == pytest.approx(2 * chunk / ((2000 + 200) * pass_s), rel=0.01)


def test_no_pool_computes_longer_than_the_run_lasts():
    """Busy shares lie in (0, 1]; beyond capacity the aggregated pool is never idle."""
    for group in GROUPS:
        for entry in records.read_sweep(SWEEP / group).entries:
            shares = simcheck.busy_shares(run(f"{group}/{entry.name}"))
            assert all(0 < share <= 1 for share in shares.values())
    assert simcheck.busy_shares(run("main/aggregated-cold-24rps"))["aggregated"] > 0.99


@pytest.mark.parametrize("rate", [1, 2, 4, 8, 10])
def test_prefill_waits_are_those_of_a_single_fifo_server(rate):
    """Lindley's recursion over the same arrivals gives every wait within 1 µs."""
    kept = run(f"main/disaggregated-cold-{rate}rps")
    arrivals_ms = kept.table["scheduled_ns"].to_numpy() / 1e6
    service_ms = float(np.median(simcheck.prefill_service_ms(kept)))
    by_hand = simcheck.queue_by_hand_ms(arrivals_ms, service_ms)
    assert by_hand.max() > service_ms / 2
    assert simcheck.prefill_wait_ms(kept) == pytest.approx(by_hand, abs=0.001)


@pytest.mark.parametrize(("rate", "tolerance"), [(4, 0.05), (8, 0.10), (10, 0.20)])
def test_prefill_waits_on_average_as_md1_says(rate, tolerance):
    """The mean wait is near M/D/1's at the trace's own rate; the sample is finite, so not equal."""
    kept = run(f"main/disaggregated-cold-{rate}rps")
    arrivals_s = kept.table["scheduled_ns"].to_numpy() / 1e9
    own_rate = (len(arrivals_s) - 1) / (arrivals_s[-1] - arrivals_s[0])
    service_s = float(np.median(simcheck.prefill_service_ms(kept))) / 1000
    expected_ms = queueing.md1_mean_wait_s(own_rate, service_s) * 1000
    assert simcheck.prefill_wait_ms(kept).mean() == pytest.approx(expected_ms, rel=tolerance)


def test_the_wire_takes_what_the_link_formula_says_and_the_hand_off_more():
    """Each rank sends an eighth of the KV at its link's rate: the fastest hand-off is that floor."""
    shape = kv.uniform(layers=80, kv_heads=8, head_dim=128)
    checked = 0
    for entry in records.read_sweep(SWEEP / "links").entries:
        kept = run(f"links/{entry.name}")
        point = kept.provenance["summary"]["point"]
        rank_bytes = kv.per_rank_bytes(shape, point["prompt_tokens"], tp=8)
        floor_ms = rank_bytes / (point["link_gb_s"] * 1e9) * 1000
        hand_off_ms = simcheck.transfer_ms(kept)
        assert hand_off_ms.min() == pytest.approx(floor_ms, abs=0.001)
        assert np.median(hand_off_ms) > floor_ms + 5
        checked += 1
    assert checked == 9


def test_the_tuned_chunk_is_the_best_of_the_recorded_ones():
    """Highest capacity of all chunk sizes that can be judged, and of those the smallest gap."""
    found = {int(d.rsplit(" ", 1)[1]): c for (d, _), c in capacities("chunks").items()}
    assert set(found) == set(sim_points.CHUNKS)
    assert found[8192].result == "refused"
    best = max(c.rate_rps for c in found.values() if c.rate_rps)
    assert min(n for n, c in found.items() if c.rate_rps == best) == sim_points.TUNED_CHUNK


def test_the_tuned_chunk_is_the_best_for_the_smaller_replicas_too():
    """No other size carries what four TP4 replicas carry with it: each fails there, or cannot be judged and fails above."""
    tuned = capacities("splits")["aggregated 4xtp4", "cold"].rate_rps
    assert tuned == sim_points.SMALL_CHUNK_RPS[0]
    others = capacities("chunks-4xtp4")
    assert {int(d.rsplit(" ", 1)[1]) for d, _ in others} == set(sim_points.CHUNKS) - {sim_points.TUNED_CHUNK}
    assert not any(c.rate_rps for c in others.values())
    for chunk in (256, 512, 1024):
        assert slo.analyse(run(f"chunks-4xtp4/aggregated-4xtp4-chunk-{chunk}-cold-16rps")).verdict == "fail"
    for chunk in (4096, 8192):
        words = [slo.analyse(run(f"chunks-4xtp4/aggregated-4xtp4-chunk-{chunk}-cold-{rate}rps")).verdict for rate in (16, 18)]
        assert words == ["not_evaluable", "fail"]


def test_other_draws_move_the_figures_by_a_step_and_never_their_order():
    """Three further draws: each layout's capacity is the trace's or the next tested rate, in the same order."""
    layouts = ("disaggregated 1xtp8 to 1xtp8", "aggregated 2xtp8", "aggregated 4xtp4", "disaggregated 3xtp4 to 1xtp4")
    found = capacities("draws")
    rows = [[found[f"{layout} draw {seed}", "cold"].rate_rps for layout in layouts] for seed in sim_points.DRAW_SEEDS]
    assert rows == [[12, 14, 18, 24], [10, 14, 16, 22], [10, 14, 16, 22]]


def test_what_the_sweep_says_about_the_two_designs():
    """Cold, the 1:1 split carries 10 and tuned aggregation 14 requests/s; both ends are found."""
    main = capacities("main")
    assert main["aggregated", "cold"].rate_rps == 14
    assert main["disaggregated", "cold"].rate_rps == 10
    assert {c.result for c in main.values()} == {"found"}


def test_the_best_of_the_splits():
    """Three prefill workers of 4 GPUs for one decode worker carry more than any other layout."""
    split = {design: c.rate_rps or 0 for (design, _), c in capacities("splits").items()}
    assert max(split, key=split.get) == "disaggregated 3xtp4 to 1xtp4"
    assert split["disaggregated 3xtp4 to 1xtp4"] == 22
    assert split["aggregated 4xtp4"] == 16


@pytest.mark.parametrize(
    ("path", "what", "value"),
    [
        ("main/aggregated-cold-4rps", "itl_p99_ms", 94.3),
        ("main/disaggregated-cold-4rps", "itl_p99_ms", 11.1),
        ("chunks/aggregated-chunk-512-cold-4rps", "itl_p99_ms", 36.8),
    ],
)
def test_the_courses_argument_in_three_tail_gaps(path, what, value):
    """At 4 requests/s: aggregated, disaggregated, and aggregated with a small chunk."""
    assert run(path).provenance["summary"][what] == pytest.approx(value, abs=0.05)


def test_two_replicas_beat_one():
    """The aggregated baseline is sound: at 12 requests/s it serves what one replica cannot."""
    alone = slo.analyse(run("single/aggregated-one-replica-cold-12rps"))
    both = slo.analyse(run("main/aggregated-cold-12rps"))
    assert both.goodput_rps > 1.4 * alone.throughput_rps > 0


def test_laws_are_refused_where_they_do_not_apply():
    """An aggregated run has no prefill pool to ask about."""
    from pdlab.errors import BadInput

    with pytest.raises(BadInput, match="prefill_end"):
        simcheck.prefill_service_ms(run("main/aggregated-cold-1rps"))
