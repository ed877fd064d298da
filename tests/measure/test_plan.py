"""Plans: the shipped ones are sound, and faults are refused with their path."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from pdlab.errors import BadInput
from pdlab.live import env, sweep
from pdlab.measure import link_need, plan, records, slo
from pdlab.theory import kv, roofline

PLANS = Path(__file__).parents[2] / "data" / "plans"
REFERENCE = yaml.safe_load((PLANS / "reference-16gpu.yaml").read_text())


def changed(path, value):
    """The reference plan with one value changed (or, with ..., removed)."""
    document = copy.deepcopy(REFERENCE)
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node[name]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return document


def test_the_reference_plan():
    """16 GPUs on each side, the rates and gates of the course."""
    p = plan.load(PLANS / "reference-16gpu.yaml")
    assert (p.budget, p.budget_unit) == (16, "GPU")
    assert p.used("aggregated") == p.used("disaggregated") == 16
    assert p.comparison.offered_rates_rps[:4] == [1, 2, 4, 8]
    a = p.acceptance
    assert (a.ttft_max_ms, a.tpot_max_ms, a.max_itl_per_request_ms) == (2000, 50, 200)
    assert (a.slo_attainment_min, a.error_rate_max) == (0.95, 0.01)
    assert (p.comparison.model, p.comparison.revision) == ("meta-llama/Meta-Llama-3.1-70B", "config-only")


def test_the_miniature_plan():
    """Two cores on each side, and a section for the launcher."""
    p = plan.load(PLANS / "miniature-2core.yaml")
    assert (p.budget, p.budget_unit) == (2, "CPU core")
    assert p.used("aggregated") == p.used("disaggregated") == 2
    assert p.live.model == "smollm2"
    assert len(p.live.max_num_batched_tokens) >= 2


def test_the_keys_of_the_specification():
    """The reference plan carries every key that the course promises, and no section besides."""
    assert set(REFERENCE) == {"comparison", "deployments", "metrics", "acceptance"}
    assert {"model_revision", "engine_version", "total_gpus", "gpu_type", "network_and_host_budget", "warmup_requests",
            "offered_rates_rps", "output_tokens_minimum_for_tpot", "request_deadline_seconds", "precision",
            "workload_trace", "cache_state", "duration_seconds"} == set(REFERENCE["comparison"])  # fmt: skip


GPU_PLANS = {"node-2gpu": (2, 1), "node-4gpu": (4, 1), "node-8gpu": (8, 1), "reference-16gpu-live": (16, 2)}


@pytest.mark.parametrize("name", GPU_PLANS)
def test_gpu_plans_can_be_carried_out(name):
    """The budget is equal and full; weights and KV fit the GPUs; the trace is long enough; the engine is the pinned one."""
    path = PLANS / f"{name}.yaml"
    p = plan.load(path)
    assert (p.used("aggregated"), p.nodes) == (p.used("disaggregated"), p.nodes) == GPU_PLANS[name]
    gpu = roofline.device(p.comparison.gpu_type.replace("_", "-"))
    config, ranks = kv.find(p.live.link.kv_config), p.deployments.aggregated.tensor_parallel
    assert ranks == p.deployments.disaggregated.tensor_parallel_per_replica
    left = p.live.gpu_memory_utilization * gpu.memory_bytes - roofline.weight_bytes(config) / ranks
    held = left * 0.8 / kv.bytes_per_token(kv.from_config(config), tp=ranks)  # a fifth for activations and graphs
    assert held > 64 * 2200, "64 requests of the trace at once"
    fastest = sweep.main_cases(p, None)[-1]
    assert fastest.rate_rps == p.comparison.offered_rates_rps[-1]
    assert len(sweep.requests(p, fastest, sweep.read_workload(path, p)))
    assert p.comparison.engine_version.replace(" ", "==") in env.GPU_PINS


def test_the_live_reference_plan_is_the_reference_plan():
    """It differs from the simulated one in the model's revision, the engine, what is sent, and by its live section alone."""
    live = yaml.safe_load((PLANS / "reference-16gpu-live.yaml").read_text())
    assert live.pop("live")["device"] == "cuda"
    differ = {key for key in REFERENCE["comparison"] if live["comparison"][key] != REFERENCE["comparison"][key]}
    assert differ == {"model_revision", "engine_version", "offered_rates_rps", "cache_state", "duration_seconds"}
    assert plan.load(PLANS / "reference-16gpu-live.yaml").comparison.model == "meta-llama/Meta-Llama-3.1-70B"
    assert {key: live[key] for key in ("deployments", "metrics", "acceptance")} == {
        key: REFERENCE[key] for key in ("deployments", "metrics", "acceptance")
    }


def test_the_live_reference_plans_rates_can_show_a_difference():
    """By the simulation each side passes one of its rates and fails a higher one, not the same; its highest can tell chunk sizes apart."""
    p, runs = plan.load(PLANS / "reference-16gpu-live.yaml"), PLANS.parent / "runs/sim-reference"
    (state,), rates = p.comparison.cache_state, p.comparison.offered_rates_rps
    found = {}
    for design in ("aggregated", "disaggregated"):
        points = [(rate, slo.analyse(records.read_run(runs / f"main/{design}-{state}-{rate:g}rps"), p.acceptance)) for rate in rates]
        found[design] = slo.capacity(points)
        assert found[design].result == "found" and found[design].rate_rps in rates[:-1]
    assert found["aggregated"].rate_rps != found["disaggregated"].rate_rps
    tried = {size: slo.analyse(records.read_run(runs / f"chunks/aggregated-chunk-{size}-{state}-{rates[-1]:g}rps"), p.acceptance)
             for size in p.live.max_num_batched_tokens}  # fmt: skip
    met = {size: report.joint_attainment.all_offered or 0 for size, report in tried.items()}
    assert min(met.values()) < 0.1 < 0.5 < max(met.values())


def test_what_the_link_has_to_give():
    """16 blocks of 128 slots at 81,920 B a slot and rank in 19 ms; or what the plan states; or nothing asked."""
    need = link_need.of(plan.load(PLANS / "node-8gpu.yaml"))
    assert (need.message_bytes, need.piece_bytes) == (16 * 128 * 81_920, 128 * 81_920 // 80)
    assert need.gb_s == pytest.approx(167_772_160 / 1e9 / 0.019)
    assert link_need.of(plan.load(PLANS / "reference-16gpu-live.yaml")).gb_s == 25
    assert link_need.of(plan.load(PLANS / "miniature-2core.yaml")) is None


@pytest.mark.parametrize(
    "name, path, value, words",
    [
        ("node-8gpu", "gpus_per_node", 3, "8 GPUs on nodes of 3"),
        ("node-8gpu", "gpus_per_node", 2, "a replica of 4 GPUs on nodes of 2"),
        ("node-8gpu", "gpus_per_node", None, "gpus_per_node belongs to device cuda"),
        ("miniature-2core", "gpus_per_node", 2, "gpus_per_node belongs to device cuda"),
        ("miniature-2core", "kv_cache_bytes", None, "kv_cache_bytes is missing"),
        ("node-8gpu", "link", {"kv_config": "llama-3.1-8b", "prompt_tokens": 1}, "exactly one of gb_s_per_rank"),
        ("node-8gpu", "link", {"kv_config": "x", "prompt_tokens": 1, "handoff_budget_ms": 1, "setup_ms": 1}, "leaves nothing"),
    ],
)
def test_faults_of_a_live_section(name, path, value, words):
    """What cannot be started, or asks nothing sensible of the link, is refused."""
    document = yaml.safe_load((PLANS / f"{name}.yaml").read_text())
    document["live"][path] = value
    with pytest.raises(BadInput, match=words):
        plan.from_dict(document, "p.yaml")


@pytest.mark.parametrize(
    "path, value, words",
    [
        ("deployments.aggregated.replicas", 3, "24 GPUs for aggregated and 16 GPUs for disaggregated"),
        ("deployments.disaggregated.prefill_replicas", 2, "16 GPUs for aggregated and 24 GPUs"),
        ("comparison.total_gpus", 8, "16 GPUs on each side"),
        ("comparison.total_gpus", 0, "comparison.total_gpus: found 0"),
        ("comparison.gpu_type", "<gpu type>", "comparison.gpu_type: '<gpu type>'"),
        ("comparison.workload_trace", "data/<trace>.jsonl", "comparison.workload_trace: '<trace>'"),
        ("metrics.client", ["ttft", "<more>"], r"metrics.client\[1\]"),
        ("comparison.gpus", 16, "comparison.gpus: found an unknown key"),
        ("extra", 1, "extra: found an unknown key"),
        ("deployments.disaggregated.decode", 1, "deployments.disaggregated.decode: found an unknown key"),
        ("acceptance.ttft_max_ms", -1, r"acceptance.ttft_max_ms: found -1.*\(ms\)"),
        ("acceptance.ttft_max_ms", "2 s", r"found '2 s'.*\(ms\)"),
        ("acceptance.slo_attainment_min", 95, "acceptance.slo_attainment_min: found 95"),
        ("acceptance.slo_attainment_min", float("nan"), "acceptance.slo_attainment_min: found nan"),
        ("acceptance.denominator", "whatever is left", "acceptance.denominator"),
        ("comparison.offered_rates_rps", [4, 2], r"offered_rates_rps must rise.*requests/s"),
        ("comparison.offered_rates_rps", [], "offered_rates_rps"),
        ("comparison.duration_seconds", ..., r"comparison.duration_seconds: found nothing.*\(s\)"),
        ("comparison.duration_seconds", 1e308, r"comparison.duration_seconds: found 1e\+308, expected input should be less than or equal to"),
        ("comparison.offered_rates_rps", [2, 10**30], r"offered_rates_rps\[1\]: found 1000"),
        ("deployments.aggregated.replicas", 10**30, "replicas: found 1000"),
        ("comparison.output_tokens_minimum_for_tpot", 1, "output_tokens_minimum_for_tpot: found 1"),
        ("comparison.cache_state", ["hot"], "cache_state"),
        ("comparison.total_cpu_cores", 2, "exactly one of total_gpus and total_cpu_cores"),
        ("comparison", None, "comparison"),
    ],
)
def test_faults_are_refused(path, value, words):
    """Each fault is refused with its path, what was found and what was expected."""
    with pytest.raises(BadInput, match=words):
        plan.from_dict(changed(path, value), "p.yaml")


def test_text_that_is_no_plan(tmp_path):
    """No YAML, no mapping, a key twice, no file: bad input each time."""
    for text, words in (("a: [", "YAML"), ("- 1", "a list"), ("a: 1\na: 2\n", "line 2"), ("", "NoneType")):
        with pytest.raises(BadInput, match=words):
            plan.parse(text)
    with pytest.raises(BadInput):
        plan.load(tmp_path / "none.yaml")


def test_cores_count_by_thread():
    """On CPUs a rank costs as many cores as it may use."""
    document = yaml.safe_load((PLANS / "miniature-2core.yaml").read_text())
    document["live"]["threads_per_server"] = 2
    with pytest.raises(BadInput, match="4 CPU cores on each side"):
        plan.from_dict(document)
