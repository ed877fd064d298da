"""What labs compute beside an answer: one rule for both labs' claim, and sums that agree with the exercises' own."""

from __future__ import annotations

import re

import pytest

from pdlab.course import checks, exercises, lab_sums

SOURCES = exercises.folder().parents[1] / "solutions"


@pytest.mark.parametrize(
    ("aggregated", "disaggregated", "says"),
    [(3, 3, "open"), (0, 0, "open"), (4.5, 4.5, "open"), (3, 1.5, "refuted"), (1.5, 0, "refuted"), (0, 1.5, "supported"), (3, 4.5, "supported")],
)
def test_a_tie_is_open_in_both_labs(aggregated, disaggregated, says):
    """More supports, less refutes, and equal capacities leave the claim open, on a run of the learner's own as well."""
    reached = {"aggregated": aggregated, "disaggregated": disaggregated}
    assert lab_sums.claim(reached) == says
    right = {"L2.8": reached | {"claim": says, "longest_gaps": "disaggregated", "ttft": "aggregated"}, "L5.11": lab_sums.verdict_behind_ray(reached)}
    for name, expected in right.items():
        for said in ("supported", "refuted", "open"):
            result = checks.evaluate(name, expected | {"claim": said}, expected)
            assert (result.outcome == "correct") == (said == says), (name, said, result.text)


@pytest.mark.parametrize("name", ["L2-sweep.py", "L5-ray-serve.py"])
def test_both_labs_ask_the_one_rule(name):
    """The check cells take capacities and claim from here, and hold no rule of their own."""
    text = re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", "", (SOURCES / name).read_text(encoding="utf-8"), flags=re.S)
    assert "lab_sums.capacities(" in text and re.search(r"lab_sums\.(claim|verdict_behind_ray)\(", text)
    assert '"refuted" if' not in text and '"kv_path": "nixl"' not in text


@pytest.mark.parametrize(("name", "mine"), [("L5.3", lab_sums.own_times), ("L5.6", lab_sums.sum_by_middles)])
def test_the_sums_are_those_of_the_exercises(name, mine):
    """The function that a lab goes on with would itself be a right answer."""
    assert checks.evaluate(name, mine).outcome == "correct"


def test_medians_and_the_mean_in_the_system():
    """Medians are taken hop by hop; of two requests of 1 and 3 s within 4 s one is in the system on average."""
    assert lab_sums.own_medians([[("a", 0, 10), ("b", 2, 5)], [("a", 0, 20), ("b", 2, 5)], [("a", 0, 90)]]) == {"a": 17, "b": 3}
    assert lab_sums.mean_in_system([0, 10**9], [10**9, 4 * 10**9]) == 1


def test_waits_after_prefill_are_split_by_length_and_leave_out_what_did_not_go_that_way():
    """Warm-up, failures and local answers do not count, and a side without a request says so."""
    row = {"status": "ok", "warmup": False, "prompt_tokens": 64, "frame_ns": [9_000_000], "stage_ns": {"router_prefill_done": 4_000_000}}
    longer = row | {"prompt_tokens": 65, "frame_ns": [6_000_000]}
    left_out = [row | {"warmup": True}, row | {"status": "failed", "frame_ns": []}, row | {"stage_ns": None}, row | {"stage_ns": {}}]
    assert lab_sums.waits_after_prefill([row, longer, *left_out], 64) == (5, 2)
    assert lab_sums.waits_after_prefill([row], 64) == (5, None)


def test_a_transfers_clock_stands_beside_its_own_transports_division():
    """3 MB at 3 GB/s are 1 ms, at 1 GB/s 3; a clock a quarter off is near, one just beyond is not."""
    entries = [{"transport": way, "counter_bytes": 3_000_000, "transfer_ms": ms} for way, ms in (("shm", 1.25), ("tcp", 2.25), ("tcp", 2.24), ("shm", 1.26))]
    tried = lab_sums.by_division(entries, {"shm": 3, "tcp": 1})
    assert tried == [(1.25, 1), (2.25, 3), (2.24, 3), (1.26, 1)]
    assert lab_sums.near(tried) == 2 and lab_sums.near([]) == 0


def test_a_curve_contradicts_one_bandwidth_where_a_size_gets_half_of_anothers_rate():
    """Lab L1's statement on any run, the learner's own as well: a flat curve cannot contradict it, one of several that bends can."""
    assert lab_sums.one_bandwidth([1.0, 1.5, 1.9]) == "not shown"
    assert lab_sums.one_bandwidth([1.0, 1.5, 1.9], [0.4, 3.0, 0.9]) == "contradicted"
