"""The verdict checker: honest verdicts pass whatever their words, overclaims fail with their kind."""

import pytest

from pdlab.course.exercises import folder
from pdlab.course.verdict import FIELDS, REASONS, judge

ROOT = folder().parents[1]

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
    "because": ["A", "C"],
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
    {"because": "A, C"},
    {"because": "c and a"},
    {"because": "CA"},
    {"because": {"A", "C"}},
    {"because": ("c", "a")},
    {"itl_slo": "we don't know"},
    {"itl_slo": "We don’t know."},
    {"itl_slo": "I don't know"},
    {"itl_slo": "don't know"},
    {"itl_slo": "we do not know"},
    {"itl_slo": "Nothing"},
    {"itl_slo": "nothing is known"},
    {"itl_slo": "it isn't known"},
    {"itl_slo": "nobody knows"},
    {"itl_slo": "nobody has shown that it holds"},
    {"itl_slo": "nobody has shown that it is missed"},
    {"itl_slo": "neither met nor missed is shown"},
    {"itl_slo": "neither shown to hold nor shown to fail"},
    {"itl_slo": "no one has measured it"},
    {"itl_slo": "it may be met or missed; nobody measured"},
    {"itl_slo": "cannot be judged from a floor"},
    {"itl_slo": "there is no evidence that it is met"},
    {"itl_slo": "The evidence says nothing about it: not known"},
    {"itl_slo": "an open question"},
    {"itl_slo": "no data"},
    {"itl_slo": "nobody has looked"},
    {"itl_slo": "We know nothing about it"},
    {"itl_slo": "It is not shown to be met, nor to be missed"},
    {"itl_slo": "Not shown. The baseline meets it."},
    {"itl_slo": "unknowable without measuring"},
    {"decision": "No, don't adopt"},
    {"decision": "We should not do this yet"},
    {"decision": "I do not support this yet"},
    {"decision": "send it back"},
    {"decision": "Keep the current setup until measured"},
    {"decision": "I vote no until there is evidence"},
    {"decision": "there isn't enough evidence to decide"},
    {"next_step": "compare both designs under load"},
    {"decision": "not yet"},
    {"decision": "Not yet."},
    {"decision": "so: not yet"},
    {"decision": "I recommend against adopting until a sweep exists"},
    {"decision": "I can't approve this yet"},
    {"decision": "I can’t approve this yet"},
    {"decision": "I would not adopt this"},
    {"decision": "We shouldn't roll it out now"},
    {"decision": "adoption is not justified by this"},
    {"decision": "adopting it would be premature"},
    {"decision": "The evidence isn't enough"},
    {"decision": "Come back with a measurement"},
    {"decision": "Bring a sweep of both designs first"},
    {"decision": "I need a benchmark before I can say anything"},
    {"decision": "insufficient evidence to approve"},
    {"decision": "too early to deploy"},
    {"decision": "no measurement, no decision"},
    {"baseline": "aggregated, tuned"},
    {"baseline": "tuned aggregated fleet, 16 GPUs"},
    {"baseline": "today's fleet, its batch size tuned"},
    {"baseline": "aggregated rather than disaggregated, best chunk size"},
    {"handoff_floor_ms": 10.8, "added_ms": "8.83 ms"},
    {"next_step": "deploy both designs on a test cluster and run the same sweep"},
    {"next_step": "not another calculation, but an end-to-end sweep"},
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
    ({"because": []}, "missing-field"),
    ({"confidence": "high"}, "unknown-field"),
    # A floor added to a percentile, in whatever words and in whatever field.
    ({"because": "ITL P95 = 35 + 8.83"}, "floor-as-percentile"),
    ({"because": "The P95 rises by 8.8 ms"}, "floor-as-percentile"),
    ({"because": "It makes ITL worse by 8.8 ms"}, "floor-as-percentile"),
    ({"because": "P95 ITL goes to 43.8 ms"}, "floor-as-percentile"),
    ({"decision": "not yet: P95 ITL grows by about 9 ms"}, "floor-as-percentile"),
    ({"decision": "not yet, since the tail gets longer by the floor"}, "floor-as-percentile"),
    ({"itl_slo": "35 ms plus 8.8 ms"}, "floor-as-percentile"),
    ({"because": ["B"]}, "floor-as-percentile"),
    ({"because": ["A", "C", "D"]}, "floor-as-percentile"),
    ({"because": ["A", "E"]}, "claims-violation"),
    ({"because": "F"}, "claims-no-violation"),
    ({"because": ["A", "C", "G"]}, "rejects-outright"),
    ({"because": "A"}, "reason-missing"),
    ({"because": "c"}, "reason-missing"),
    # No reason at all, and reasons that no program can judge fairly.
    ({"because": "ok"}, "reasons-by-letter"),
    ({"because": "because"}, "reasons-by-letter"),
    ({"because": "The floor is no percentile."}, "reasons-by-letter"),
    ({"because": ["A", "Z"]}, "reasons-by-letter"),
    ({"because": 5}, "reasons-by-letter"),
    # What is known of the target.
    ({"itl_slo": "met"}, "claims-no-violation"),
    ({"itl_slo": "it holds"}, "claims-no-violation"),
    ({"itl_slo": "nobody measured it, but it is met"}, "claims-no-violation"),
    ({"itl_slo": "unknown, it is within the target"}, "claims-no-violation"),
    ({"itl_slo": "no violation"}, "claims-no-violation"),
    ({"itl_slo": "not met"}, "claims-violation"),
    ({"itl_slo": "missed"}, "claims-violation"),
    ({"itl_slo": "it does not hold"}, "claims-violation"),
    ({"itl_slo": "35 ms"}, "unclear-itl"),
    ({"itl_slo": "interesting"}, "unclear-itl"),
    # A decision that can be read two ways is asked for again; nobody is accused.
    ({"decision": "nothing speaks against adopting it"}, "unclear-decision"),
    ({"decision": "no reason not to adopt"}, "unclear-decision"),
    ({"decision": "no more evidence is needed"}, "unclear-decision"),
    ({"decision": "adopt once somebody has time"}, "unclear-decision"),
    ({"decision": "adopt unless somebody objects"}, "unclear-decision"),
    ({"decision": "no"}, "unclear-decision"),
    ({"decision": "not bad, adopt"}, "unclear-decision"),
    ({"decision": "don't hesitate, adopt"}, "unclear-decision"),
    ({"decision": "evidence supports adopting"}, "adopts"),
    ({"itl_slo": "P95 increases to 45 ms"}, "floor-as-percentile"),
    ({"itl_slo": "not violated, as shown"}, "claims-no-violation"),
    ({"decision": "Let's do it now: approve"}, "adopts"),
    ({"decision": "We adopt the plan"}, "adopts"),
    ({"decision": "approved"}, "adopts"),
    ({"baseline": "disaggregated, tuned"}, "wrong-baseline"),
    ({"baseline": "aggregated, not tuned"}, "untuned-baseline"),
    ({"baseline": "aggregated, no need to tune"}, "untuned-baseline"),
    ({"next_step": "no sweep needed"}, "no-next-step"),
    ({"handoff_floor_ms": "10,8304"}, "decimal-comma"),
    ({"added_ms": 8.8}, "wrong-number"),
]


def test_the_lists_are_as_long_as_promised():
    """At least 25 honest verdicts and 40 wrong ones are tried."""
    assert len(HONEST) >= 25
    assert len(WRONG) >= 40


def _name(change: object) -> str:
    """A test's name; a set prints in another order in each process."""
    shown = {key: sorted(value) if isinstance(value, set) else value for key, value in change.items()} if isinstance(change, dict) else change
    return str(shown)[:60]


@pytest.mark.parametrize("change", HONEST, ids=_name)
def test_honest_verdicts_pass(change):
    """Every honest form of *insufficient evidence* is accepted."""
    finding = judge(RIGHT | change)
    assert finding.ok, (finding.kind, finding.says)


def test_a_quantity_is_read_in_its_unit():
    """A pint quantity in another unit is the number it stands for."""
    import pint  # here: each worker would make its registry, which takes half a second

    finding = judge(RIGHT | {"handoff_floor_ms": pint.Quantity(0.0108304, "s")})
    assert finding.ok, (finding.kind, finding.says)


@pytest.mark.parametrize(("change", "kind"), WRONG, ids=_name)
def test_overclaims_and_slips_are_named(change, kind):
    """Each overclaim or slip is rejected with its own kind and an explanation."""
    finding = judge(RIGHT | change)
    assert (finding.ok, finding.kind) == (False, kind), finding.says
    assert len(finding.says) > 20


@pytest.mark.parametrize(("change", "kind"), WRONG, ids=_name)
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


def test_the_notebook_prints_the_reasons():
    """The list that the letters stand for is the one that the notebook shows."""
    page = " ".join((ROOT / "solutions" / "09-broken-short-prompt.py").read_text(encoding="utf-8").replace("# ", "").split())
    for letter, reason in REASONS.items():
        assert f"**{letter}.** {reason.says}" in page


@pytest.mark.parametrize("verdict", ["maybe", "interesting", "see above", "???", "let us talk"])
@pytest.mark.parametrize("field", ["decision", "itl_slo"])
def test_what_cannot_be_read_accuses_nobody(field, verdict):
    """A text that says nothing plain is asked for again in plain words."""
    finding = judge(RIGHT | {field: verdict})
    assert finding.kind.startswith("unclear") or finding.kind == "missing-field"
    assert "not " in finding.says
