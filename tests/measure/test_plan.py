"""Plans: the two shipped ones are sound, and faults are refused with their path."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from pdlab.errors import BadInput
from pdlab.measure import plan

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
