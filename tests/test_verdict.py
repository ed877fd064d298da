"""The verdict checker: the printed words and their spellings are read, and no sentence passes by a word in it."""

import pytest

from pdlab.course.exercises import folder
from pdlab.course.verdict import FIELDS, REASONS, WORDS, folded, judge

ROOT = folder().parents[1]

RIGHT = {
    "decision": "not yet",
    "itl_slo": "not shown",
    "handoff_floor_ms": 10.8304,
    "added_ms": 8.8304,
    "room_ms": 15,
    "floor_is": "lower bound",
    "bandwidth": "effective",
    "baseline": "aggregated, tuned",
    "label": "hypothetical",
    "next_step": "sweep of both designs",
    "because": ["A", "C"],
}
TEXTS = tuple(WORDS)

HONEST = [
    {},
    {"decision": "Not yet."},
    {"decision": "NOT-YET"},
    {"decision": "Insufficient evidence."},
    {"decision": "insufficient evidence to adopt"},
    {"decision": "Not enough evidence to adopt"},
    {"decision": "do not adopt until a sweep exists"},
    {"decision": "don't adopt yet"},
    {"decision": "Don’t adopt yet"},
    {"decision": "hold; measure first"},
    {"decision": "INCONCLUSIVE"},
    {"decision": "reject for lack of evidence"},
    {"itl_slo": "Not shown."},
    {"itl_slo": "not_evaluable"},
    {"itl_slo": "unknown"},
    {"itl_slo": "We don’t know."},
    {"itl_slo": "I don't know"},
    {"itl_slo": "nobody knows"},
    {"itl_slo": "can't tell"},
    {"itl_slo": "neither met nor missed is shown"},
    {"handoff_floor_ms": "10.8304 ms", "added_ms": "8.8304 ms"},
    {"handoff_floor_ms": 10.83, "added_ms": 8.83, "room_ms": 15.0},
    {"handoff_floor_ms": 10.8, "added_ms": "8.83 ms"},
    {"floor_is": "a lower bound for one request"},
    {"floor_is": "one request's minimum"},
    {"floor_is": "Best case for a single request"},
    {"bandwidth": "effective bandwidth"},
    {"bandwidth": "effective, 10 GB/s"},
    {"bandwidth": "sustained payload bandwidth"},
    {"baseline": "Aggregated tuned"},
    {"baseline": "Tuned aggregated serving"},
    {"baseline": "aggregated, chunk size tuned first"},
    {"label": "Hypothetical (assumed inputs)"},
    {"label": "hypothetical."},
    {"next_step": "an end-to-end sweep of both designs at an equal budget"},
    {"next_step": "benchmark both"},
    {"because": "A, C"},
    {"because": "c and a"},
    {"because": "CA"},
    {"because": {"A", "C"}},
    {"because": ("c", "a")},
]

WRONG = [
    ({"decision": "adopt"}, "adopts"),
    ({"decision": "Approve"}, "adopts"),
    ({"decision": "yes"}, "adopts"),
    ({"decision": "LGTM"}, "adopts"),
    ({"decision": "reject"}, "rejects-outright"),
    ({"decision": "bad idea"}, "rejects-outright"),
    ({"decision": ""}, "missing-field"),
    ({"itl_slo": "met"}, "claims-no-violation"),
    ({"itl_slo": "it holds"}, "claims-no-violation"),
    ({"itl_slo": "no violation"}, "claims-no-violation"),
    ({"itl_slo": "missed"}, "claims-violation"),
    ({"itl_slo": "violated"}, "claims-violation"),
    ({"itl_slo": "not met"}, "claims-violation"),
    ({"floor_is": "P95"}, "floor-as-percentile"),
    ({"floor_is": "the tail"}, "floor-as-percentile"),
    ({"floor_is": "typical value"}, "floor-as-percentile"),
    ({"floor_is": "an upper bound"}, "other-side"),
    ({"room_ms": 6.1696}, "floor-as-percentile"),
    ({"room_ms": 4.1696}, "floor-as-percentile"),
    ({"room_ms": -15}, "sign"),
    ({"room_ms": 35}, "wrong-field"),
    ({"handoff_floor_ms": 11.8304}, "setup-twice"),
    ({"handoff_floor_ms": "11.8304 ms"}, "setup-twice"),
    ({"handoff_floor_ms": 9.8304}, "setup-left-out"),
    ({"handoff_floor_ms": 8.86432}, "peak-bandwidth"),
    ({"handoff_floor_ms": 7.86432}, "peak-bandwidth"),
    ({"handoff_floor_ms": "10,8304"}, "decimal-comma"),
    ({"added_ms": 6.86432}, "peak-bandwidth"),
    ({"added_ms": 9.8304}, "setup-twice"),
    ({"added_ms": 10.8304}, "interference-not-subtracted"),
    ({"added_ms": 12.8304}, "interference-added"),
    ({"added_ms": -8.8304}, "sign"),
    ({"added_ms": 1}, "wrong-number"),
    ({"added_ms": 8.8}, "wrong-number"),
    ({"added_ms": "a lot"}, "not-a-number"),
    ({"added_ms": True}, "not-a-number"),
    ({"room_ms": float("nan")}, "not-a-number"),
    ({"bandwidth": "peak"}, "peak-bandwidth"),
    ({"bandwidth": "100 Gbit/s line rate"}, "peak-bandwidth"),
    ({"baseline": "aggregated with default settings"}, "untuned-baseline"),
    ({"baseline": "aggregated, not tuned"}, "untuned-baseline"),
    ({"baseline": "as it is"}, "untuned-baseline"),
    ({"baseline": "disaggregated, tuned"}, "wrong-baseline"),
    ({"label": ""}, "label-dropped"),
    ({"label": None}, "label-dropped"),
    ({"label": "none"}, "label-dropped"),
    ({"label": "measured"}, "label-wrong"),
    ({"label": "Published"}, "label-wrong"),
    ({"label": "simulated"}, "label-wrong"),
    ({"next_step": "nothing"}, "no-next-step"),
    ({"next_step": "no sweep needed"}, "no-next-step"),
    ({"next_step": "buy a faster link"}, "no-next-step"),
    ({"next_step": "finer calculation"}, "no-next-step"),
    ({"next_step": "sweep of the proposal"}, "one-sided"),
    ({"next_step": "deploy it and watch the dashboards"}, "adopts"),
    ({"because": ...}, "missing-field"),
    ({"because": []}, "missing-field"),
    ({"confidence": "high"}, "unknown-field"),
    ({"because": ["B"]}, "floor-as-percentile"),
    ({"because": ["A", "C", "D"]}, "floor-as-percentile"),
    ({"because": ["A", "E"]}, "claims-violation"),
    ({"because": "F"}, "claims-no-violation"),
    ({"because": ["A", "C", "G"]}, "rejects-outright"),
    ({"because": "A"}, "reason-missing"),
    ({"because": "c"}, "reason-missing"),
    # No reason at all, and reasons that no program can judge fairly.
    ({"because": "ok"}, "reasons-by-letter"),
    ({"because": "P95 ITL will exceed 50 ms."}, "reasons-by-letter"),
    ({"because": "The floor is no percentile."}, "reasons-by-letter"),
    ({"because": ["A", "Z"]}, "reasons-by-letter"),
    ({"because": 5}, "reasons-by-letter"),
]

# Sentences that hold a right word and say the reverse, or may be read either way.
REVERSED = {
    "decision": [
        "there is sufficient evidence, no reason to hold back", "not yet is what a coward says: do it", "no reason not to adopt",
        "the evidence is not missing at all", "disaggregate all prompts; no measurement needed", "stop waiting for more evidence",
        "reject the idea that evidence is missing; go", "hold the old design no longer", "insufficient evidence; but adopt anyway",
        "switch to it, insufficient evidence never hurt anybody", "adopt, not yet or reject", "not yet done, so let's begin",
    ],
    "itl_slo": [
        "it may not exceed 50 ms, and it won't", "nobody can doubt that it is met", "not shown to fail, hence fine", "unknown to the author, but missed",
        "certainly not known to be a problem", "met or missed", "not shown, so met",
    ],
    "floor_is": ["an upper bound, not a lower bound", "not a lower bound", "never a minimum", "not the floor of anything", "a lower bound for P95"],
    "bandwidth": ["not effective, the data-sheet", "anything but effective", "the peak, not effective", "nominal, not sustained", "not the peak"],
    "baseline": [
        "aggregated, and tuning is not needed", "aggregated, tuned by nobody", "aggregated, best left alone", "disaggregated tuned, not aggregated",
        "aggregated whose chunk size is anything but tuned", "the proposal, aggregated",
    ],
    "label": ["hypothetical my foot, these are real", "not only hypothetical", "anything but hypothetical", "isn't hypothetical", "not hypothetical"],
    "next_step": [
        "a sweep is the last thing we need", "ignore any sweep", "stop measuring", "measuring is pointless", "go live; a trial is a waste",
        "cancel the benchmark", "no sweep of both designs", "sweep of both designs is not needed",
    ],
}  # fmt: skip


def test_the_lists_are_as_long_as_promised():
    """At least 25 honest verdicts, 40 wrong ones and 45 reversed sentences, over every field of words."""
    assert len(HONEST) >= 25 and len(WRONG) >= 40
    assert set(REVERSED) == set(TEXTS) and sum(map(len, REVERSED.values())) >= 45


@pytest.mark.parametrize("field", TEXTS)
def test_a_sentence_is_never_searched_for_a_word(field):
    """A sentence that says the reverse is not accepted, and one that is no word of the list is asked for again."""
    for text in REVERSED[field]:
        finding = judge(RIGHT | {field: text})
        assert finding.kind == "unclear-word" and not finding.ok, text
        assert all(f'"{name}"' in finding.says for name in WORDS[field])


@pytest.mark.parametrize("field", TEXTS)
def test_each_word_around_a_right_spelling_undoes_it(field):
    """Each accepted spelling with a denial before or behind it is accepted no more."""
    right = [spelling for name, word in WORDS[field].items() if not word.kind for spelling in (name, *word.also)]
    for text in right:
        assert judge(RIGHT | {field: text}).ok, text
        for turned in (f"not {text}", f"anything but {text}", f"{text}? no", f"{text} is nonsense", f"no longer {text}", f"never {text}"):
            assert not judge(RIGHT | {field: turned}).ok, turned


def test_one_spelling_means_one_word():
    """No spelling stands under two words of a field, and exactly one word of each field is right."""
    for field, words in WORDS.items():
        spellings = [folded(text) for name, word in words.items() for text in (name, *word.also)]
        assert len(spellings) == len(set(spellings)), field
        assert [word.kind for word in words.values()].count("") == 1
        assert all(len(word.says) > 20 for word in words.values() if word.kind)


def _name(change: object) -> str:
    """A test's name; a set prints in another order in each process."""
    shown = {key: sorted(value) if isinstance(value, set) else value for key, value in change.items()} if isinstance(change, dict) else change
    return str(shown)[:60]


@pytest.mark.parametrize("change", HONEST, ids=_name)
def test_honest_verdicts_pass(change):
    """Every usual spelling of the right words, numbers and reasons is accepted."""
    finding = judge(RIGHT | change)
    assert finding.ok, (finding.kind, finding.says)


def test_a_quantity_is_read_in_its_unit():
    """A pint quantity in another unit is the number it stands for."""
    import pint  # here: each worker would make its registry, which takes half a second

    finding = judge(RIGHT | {"handoff_floor_ms": pint.Quantity(0.0108304, "s")})
    assert finding.ok, (finding.kind, finding.says)


@pytest.mark.parametrize(("change", "kind"), WRONG, ids=_name)
def test_overclaims_and_slips_are_named(change, kind):
    """Each overclaim or slip is rejected with its own kind and an explanation, which holds no number that is looked for."""
    finding = judge(RIGHT | change)
    assert (finding.ok, finding.kind) == (False, kind), finding.says
    assert len(finding.says) > 20 and not any(number in finding.says for number in ("10.83", "8.83", "15 ms"))


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


@pytest.mark.parametrize("field", TEXTS)
def test_what_is_no_word_accuses_nobody(field):
    """A text or a thing that is none of the words is asked for again, with all of them named."""
    for said in ("maybe", "interesting", "see above", "???", "evidence does not support adoption", 3, ["not yet"], {"x": 1}, True):
        finding = judge(RIGHT | {field: said})
        assert finding.kind == "unclear-word" and "whichever you mean" in finding.says, said


def test_the_notebook_prints_the_words():
    """Each field of words has its words beside it, all of them, in the notebook's answer cell."""
    page = (ROOT / "solutions" / "09-broken-short-prompt.py").read_text(encoding="utf-8").split("# Exercise 9.9")[1].split("### BEGIN")[0]
    for field, words in WORDS.items():
        line = page.split(f'"{field}": ...,')[1].split(": ...")[0]
        assert all(f'"{name}"' in line for name in words), field
