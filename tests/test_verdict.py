"""The verdict checker: honest verdicts pass whatever their words, overclaims fail with their kind."""

import pint
import pytest

from pdlab.course.verdict import FIELDS, judge

RIGHT = {
    "decision": "insufficient evidence to adopt",
    "itl_slo": "not shown",
    "handoff_floor_ms": 10.8304,
    "added_ms": 8.8304,
    "room_ms": 15,
    "floor_is": "a lower bound for one request",
    "bandwidth": "effective",
    "baseline": "aggregated, chunk size tuned first",
    "label": "hypothetical",
    "next_step": "an end-to-end sweep of both designs at an equal budget",
    "because": "One request's floor says nothing about a P95, and the baseline meets its target.",
}

HONEST = [
    {},
    {"decision": "Insufficient evidence."},
    {"decision": "not enough evidence to adopt this"},
    {"decision": "Do not adopt until an end-to-end sweep exists"},
    {"decision": "don't adopt yet: the case is not proven"},
    {"decision": "We lack evidence. Keep short prompts local for now."},
    {"decision": "reject for lack of evidence"},
    {"decision": "Rejected: nobody measured the tail"},
    {"decision": "hold; measure first"},
    {"decision": "INCONCLUSIVE"},
    {"decision": "cannot decide on this evidence"},
    {"decision": "unproven, stay aggregated"},
    {"decision": "defer the decision until both designs were swept"},
    {"decision": "evidence does not support adoption"},
    {"decision": "no, the evidence is missing"},
    {"itl_slo": "unknown"},
    {"itl_slo": "no violation shown"},
    {"itl_slo": "not measured"},
    {"itl_slo": "not_evaluable"},
    {"itl_slo": "can't tell without a sweep"},
    {"handoff_floor_ms": "10.8304 ms", "added_ms": "8.8304 ms"},
    {"handoff_floor_ms": 10.83, "added_ms": 8.83, "room_ms": 15.0},
    {"handoff_floor_ms": pint.Quantity(0.0108304, "s")},
    {"floor_is": "one request's minimum, not a percentile"},
    {"floor_is": "best case for a single request"},
    {"bandwidth": "sustained payload bandwidth, 10 GB/s"},
    {"bandwidth": "effective 10 GB/s, not the peak"},
    {"baseline": "tuned aggregated serving (max_num_batched_tokens swept)".replace("_", " ")},
    {"baseline": "aggregation with the best chunk size, not its default"},
    {"baseline": "2 aggregated replicas, chunked prefill tuned, same 16 GPUs"},
    {"label": "Hypothetical (assumed inputs)"},
    {"label": "hypothetical, not measured"},
    {"next_step": "benchmark both with the same trace"},
    {"because": "The path gains at least 8.83 ms, but this does not prove an ITL violation."},
    {"because": "A violation of the SLO may happen; it was not measured."},
    {"because": "It is unknown whether P95 ITL would exceed 50 ms."},
    {"because": "Nothing here shows that the target is missed. The floor is not a percentile."},
    {"because": "The baseline is 15 ms under its target, and the sweep has not been run."},
    {"because": "The proposal claims that P95 ITL exceeds 50 ms without evidence."},
    {"because": "Adopting it would be premature."},
]

WRONG = [
    ({"decision": "adopt"}, "adopts"),
    ({"decision": "Adopt it for long prompts and short ones"}, "adopts"),
    ({"decision": "approve"}, "adopts"),
    ({"decision": "Yes"}, "adopts"),
    ({"decision": "go ahead, 10.8 ms is small"}, "adopts"),
    ({"decision": "roll it out to ten percent"}, "adopts"),
    ({"decision": "LGTM"}, "adopts"),
    ({"decision": "accept the proposal"}, "adopts"),
    ({"decision": "insufficient evidence; but adopt anyway"}, "adopts"),
    ({"next_step": "deploy it and watch the dashboards"}, "adopts"),
    ({"because": "The budget is met, so we adopt it."}, "adopts"),
    ({"decision": "reject: it violates the ITL target"}, "claims-violation"),
    ({"because": "P95 ITL will exceed 50 ms."}, "claims-violation"),
    ({"because": "It breaks the SLO."}, "claims-violation"),
    ({"because": "The hand-off makes us miss the ITL target."}, "claims-violation"),
    ({"because": "The evidence is thin. The tail latency violates the target."}, "claims-violation"),
    ({"because": "Short prompts then fail their SLO"}, "claims-violation"),
    ({"itl_slo": "violated"}, "claims-violation"),
    ({"itl_slo": "exceeded"}, "claims-violation"),
    ({"itl_slo": "P95 goes above 50 ms"}, "claims-violation"),
    ({"itl_slo": "not violated"}, "claims-no-violation"),
    ({"itl_slo": "met with 15 ms to spare"}, "claims-no-violation"),
    ({"itl_slo": "within target"}, "claims-no-violation"),
    ({"because": "35 + 10.8304 = 45.83 ms at P95."}, "floor-as-percentile"),
    ({"because": "P95 becomes 43.83 ms, which is fine."}, "floor-as-percentile"),
    ({"because": "10.8304 ms is the P95 of the hand-off."}, "floor-as-percentile"),
    ({"floor_is": "p95"}, "floor-as-percentile"),
    ({"floor_is": "the tail"}, "floor-as-percentile"),
    ({"floor_is": "average hand-off"}, "floor-as-percentile"),
    ({"room_ms": 6.1696}, "floor-as-percentile"),
    ({"room_ms": 4.1696}, "floor-as-percentile"),
    ({"room_ms": -15}, "sign"),
    ({"room_ms": 35}, "wrong-field"),
    ({"handoff_floor_ms": 11.8304}, "setup-twice"),
    ({"handoff_floor_ms": "11.8304 ms"}, "setup-twice"),
    ({"handoff_floor_ms": 9.8304}, "setup-left-out"),
    ({"handoff_floor_ms": 8.86432}, "peak-bandwidth"),
    ({"handoff_floor_ms": 7.86432}, "peak-bandwidth"),
    ({"added_ms": 6.86432}, "peak-bandwidth"),
    ({"added_ms": 9.8304}, "setup-twice"),
    ({"added_ms": 10.8304}, "interference-not-subtracted"),
    ({"added_ms": 12.8304}, "interference-added"),
    ({"added_ms": -8.8304}, "sign"),
    ({"added_ms": 1}, "wrong-number"),
    ({"added_ms": "a lot"}, "not-a-number"),
    ({"added_ms": True}, "not-a-number"),
    ({"room_ms": float("nan")}, "not-a-number"),
    ({"bandwidth": "peak"}, "peak-bandwidth"),
    ({"bandwidth": "100 Gbit/s line rate"}, "peak-bandwidth"),
    ({"bandwidth": "10 GB/s"}, "bandwidth-unclear"),
    ({"baseline": "aggregated with default settings"}, "untuned-baseline"),
    ({"baseline": "aggregated vLLM"}, "untuned-baseline"),
    ({"baseline": "the current fleet as is"}, "untuned-baseline"),
    ({"label": ""}, "label-dropped"),
    ({"label": None}, "label-dropped"),
    ({"label": "none"}, "label-dropped"),
    ({"label": "measured"}, "label-wrong"),
    ({"label": "published"}, "label-wrong"),
    ({"label": "simulated"}, "label-wrong"),
    ({"label": "true"}, "label-wrong"),
    ({"next_step": "nothing"}, "no-next-step"),
    ({"next_step": "buy a faster link"}, "no-next-step"),
    ({"decision": "reject", "because": "It is slower for short prompts."}, "rejects-outright"),
    ({"decision": "bad idea", "because": "The path gains 8.83 ms."}, "rejects-outright"),
    ({"decision": "maybe later on a Tuesday", "because": "Because of the numbers."}, "unclear-decision"),
    ({"decision": ""}, "missing-field"),
    ({"because": ...}, "missing-field"),
    ({"confidence": "high"}, "unknown-field"),
]


def test_the_lists_are_as_long_as_promised():
    """At least 25 honest verdicts and 40 wrong ones are tried."""
    assert len(HONEST) >= 25
    assert len(WRONG) >= 40


@pytest.mark.parametrize("change", HONEST, ids=lambda change: str(change)[:60])
def test_honest_verdicts_pass(change):
    """Every honest form of *insufficient evidence* is accepted."""
    finding = judge(RIGHT | change)
    assert finding.ok, (finding.kind, finding.says)


@pytest.mark.parametrize(("change", "kind"), WRONG, ids=lambda value: str(value)[:60])
def test_overclaims_and_slips_are_named(change, kind):
    """Each overclaim or slip is rejected with its own kind and an explanation."""
    finding = judge(RIGHT | change)
    assert (finding.ok, finding.kind) == (False, kind), finding.says
    assert len(finding.says) > 20


@pytest.mark.parametrize(("change", "kind"), WRONG, ids=lambda value: str(value)[:60])
def test_no_explanation_gives_a_number_away(change, kind):
    """What the checker says never contains the numbers that it looks for."""
    says = judge(RIGHT | change).says
    assert not any(number in says for number in ("10.83", "8.83", "15 ms"))


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_may_be_left_open(field):
    """A verdict without one of its parts is not finished."""
    rest = {key: value for key, value in RIGHT.items() if key != field}
    assert judge(rest).kind in {"missing-field", "label-dropped"}


@pytest.mark.parametrize("value", ["insufficient evidence", None, 3, []])
def test_a_verdict_is_a_mapping(value):
    """A sentence alone is no structured verdict."""
    assert judge(value).kind == "not-a-mapping"
