"""The verdict of notebook 09, and whether its evidence carries it.

A verdict is a mapping.  Numbers are checked as numbers, reasons as letters of a printed list.  The
other fields may be written freely: short ones are looked through for words (``_RULES``), the decision
and the target are read clause by clause (``verdict_text``).  The first thing wrong is reported, with
the kind of mistake.

The case (hypothetical, notebook 09): 300 tokens of the 80 x 8 x 128 model in BF16 over a link of
10 GB/s effective with 1 ms of setup; 2 ms of local interference; P95 ITL 35 ms against 50 ms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pdlab.course.answers import read
from pdlab.course.finding import Finding
from pdlab.course.reading import Unreadable, number
from pdlab.course.verdict_text import MEASURE, NOT_ADDED, claims, clauses, decision, itl
from pdlab.theory import kv, link

SETUP_MS, INTERFERENCE_MS, EFFECTIVE_GB_S, PEAK_GB_S = 1.0, 2.0, 10.0, 12.5
BASELINE_P95_ITL_MS, TARGET_P95_ITL_MS = 35.0, 50.0
KV_BYTES = kv.kv_bytes(kv.uniform(layers=80, kv_heads=8, head_dim=128), 300)
FLOOR_MS = link.handoff_floor_ms(KV_BYTES, EFFECTIVE_GB_S, SETUP_MS)
ADDED_MS = FLOOR_MS - INTERFERENCE_MS
ROOM_MS = TARGET_P95_ITL_MS - BASELINE_P95_ITL_MS
_PEAK_FLOOR_MS = link.handoff_floor_ms(KV_BYTES, PEAK_GB_S, SETUP_MS)

FIELDS = {
    "decision": "adopt, not yet or reject, or the same in your own words",
    "itl_slo": "what is known about the P95 ITL target under the proposal: met, missed or not shown",
    "handoff_floor_ms": "the hand-off floor of the affected path, in ms",
    "added_ms": "the least that path gains over the interference it avoids, in ms",
    "room_ms": "how far the baseline's P95 ITL is from its target, in ms",
    "floor_is": "what kind of number the floor is",
    "bandwidth": "which bandwidth went into it",
    "baseline": "what the proposal must be compared with",
    "label": "the evidence label of these numbers",
    "next_step": "what would settle the question",
    "because": "the letters of the reasons that hold",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason that notebook 09 prints; ``kind`` and ``wrong`` explain it where it is none."""

    says: str
    kind: str = ""
    wrong: str = ""


REASONS = {
    "A": Reason("A floor bounds one request from below; a P95 is about many token gaps."),
    "B": Reason("Today's P95 plus the added time is still under the target.", "floor-as-percentile", NOT_ADDED),
    "C": Reason("Nobody has measured the tail of the proposal."),
    "D": Reason("The path gets longer, so the P95 ITL rises by as much.", "floor-as-percentile", NOT_ADDED),
    "E": Reason(
        "The path gets longer, so the target will be missed.", "claims-violation", "nobody measured that; it may be missed or met"
    ),
    "F": Reason(
        "There is room to spare, so the target will be met.", "claims-no-violation",
        "nobody measured that either; the room is the baseline's",
    ),
    "G": Reason(
        "The hand-off costs more than it saves, so the design is bad.", "rejects-outright",
        "that holds for one path. Missing evidence is not evidence against the design",
    ),
}  # fmt: skip


def judge(verdict: object) -> Finding:
    """The first thing wrong with ``verdict``, or a clean finding."""
    for step in (_form, claims, decision, itl, _numbers, _words, _reasons):
        if finding := step(verdict):
            return finding
    return Finding(True)


def _form(verdict: object) -> Finding | None:
    if not isinstance(verdict, Mapping):
        return Finding(False, "not-a-mapping", f"a verdict is a dict; this is a {type(verdict).__name__}")
    unknown = sorted(str(key) for key in verdict if key not in FIELDS)
    if unknown:
        return Finding(False, "unknown-field", f"there is no field {unknown[0]!r}; the fields are {', '.join(FIELDS)}")
    for field, meaning in FIELDS.items():
        value = verdict.get(field, ...)
        if field == "label" and value in ("", None, "none"):
            return Finding(False, "label-dropped", "numbers without their label travel as facts; say which of the four kinds these are")
        if value is ... or value is None or value == "" or value == []:
            return Finding(False, "missing-field", f"{field} is still open: {meaning}")
    return None


# ── the numbers ─────────────────────────────────────────────────────────────────────────────

_OFF_THE_ROOM = "the floor was taken off the room; one request's floor does not move a P95 by itself"
# What is right; how near is near enough: half a unit of the third digit, as in 9.3 to 9.5; known slips.
_NUMBERS: dict[str, tuple[float, float, tuple[tuple[float, str, str], ...]]] = {
    "handoff_floor_ms": (FLOOR_MS, 0.05, (
        (FLOOR_MS + SETUP_MS, "setup-twice", "setup was added twice: once in the floor, once more on top"),
        (FLOOR_MS - SETUP_MS, "setup-left-out", "this is the bandwidth floor; setup is not in it"),
        (_PEAK_FLOOR_MS, "peak-bandwidth", "this uses the link's peak, not what an application gets"),
        (_PEAK_FLOOR_MS - SETUP_MS, "peak-bandwidth", "this uses the link's peak, and leaves setup out"),
        (ADDED_MS, "wrong-field", "this is what the path gains, not the floor itself"),
    )),
    "added_ms": (ADDED_MS, 0.005, (
        (FLOOR_MS, "interference-not-subtracted", "the interference that is avoided is not taken off"),
        (FLOOR_MS + INTERFERENCE_MS, "interference-added", "the interference goes away; here it was added"),
        (ADDED_MS + SETUP_MS, "setup-twice", "setup was added twice"),
        (ADDED_MS - SETUP_MS, "setup-left-out", "setup is not in it"),
        (_PEAK_FLOOR_MS - INTERFERENCE_MS, "peak-bandwidth", "this uses the link's peak"),
        (-ADDED_MS, "sign", "the sign is turned: the affected path gets slower"),
    )),
    "room_ms": (ROOM_MS, 0.05, (
        (ROOM_MS - ADDED_MS, "floor-as-percentile", _OFF_THE_ROOM),
        (ROOM_MS - FLOOR_MS, "floor-as-percentile", _OFF_THE_ROOM),
        (-ROOM_MS, "sign", "the sign is turned: the baseline is below its target"),
        (BASELINE_P95_ITL_MS, "wrong-field", "this is the baseline itself, not its distance from the target"),
    )),
}  # fmt: skip


def _numbers(verdict: Mapping[str, object]) -> Finding | None:
    for field, (right, near, slips) in _NUMBERS.items():
        try:
            value = float(number(read(verdict[field]), "ms"))
        except Unreadable as error:
            kind = error.kind if error.kind == "decimal-comma" else "not-a-number"
            return Finding(False, kind, f"{field}: {error.says}")
        if value != value:
            return Finding(False, "not-a-number", f"{field}: found {verdict[field]!r}, expected milliseconds as a number")
        near *= 1.000001
        if abs(value - right) <= near:
            continue
        for wrong, kind, says in slips:
            if abs(value - wrong) <= near:
                return Finding(False, kind, f"{field}: {says}")
        return Finding(False, "wrong-number", f"{field}: the inputs of the case give another number; work it out in the two steps before")
    return None


# ── the fields of a few words ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Rule:
    """A field is wrong where it has the ``bad`` words without the ``excuse``, or lacks the words it ``needs``."""

    field: str
    kind: str
    says: str
    bad: str = ""
    excuse: str = ""
    needs: str = ""

    def broken_by(self, text: str) -> bool:
        bad = self.bad and re.search(self.bad, text) and not (self.excuse and re.search(self.excuse, text))
        return bool(bad or (self.needs and not re.search(self.needs, text)))


_NOT = r"\b(not|never|rather than|instead of|no)\b"
_WHOSE_INPUTS = "where do the inputs come from: a paper, a simulator, a run, or an assumption?"
_RULES = (
    _Rule(
        "floor_is", "floor-as-percentile", "one request's floor is no statistic of many requests",
        bad=r"\b(p ?9[059]|p50|percentile|tail|mean|average|median|typical|upper bound|maximum|worst case|distribution)\b",
        excuse=r"\b(not|no|never|rather than|isn t)\b",
    ),
    _Rule(
        "floor_is", "floor-unclear", "say which way it bounds, and for how many requests",
        needs="lower bound|floor|minimum|least|best case|bound from below|lower limit|cannot be (?:less|faster|below)|optimistic",
    ),
    _Rule(
        "bandwidth", "peak-bandwidth", "a link's peak is not what an application gets", excuse=_NOT,
        bad=r"\bpeak|line rate|nominal|theoretical|wire|advertis|data ?sheet|\b12\.5|100 ?g(?:bit|b/s|bps|be)",
    ),
    _Rule(
        "bandwidth", "bandwidth-unclear", "say which kind of bandwidth it is, not only how much",
        needs="effective|sustained|payload|achieved|goodput|application",
    ),
    _Rule(
        "baseline", "untuned-baseline", "an untuned opponent is easy to beat; its first knob was never turned",
        bad="untuned|un tuned|default|as is|out of the box|not tuned|without tuning|stock",
        excuse=rf"{_NOT}[^,]*(default|as is|untuned|stock|out of the box)",
    ),
    _Rule(
        "baseline", "wrong-baseline", "that is the proposal itself; what does it replace?", bad=r"\bdisaggregat", excuse=r"\baggregat"
    ),
    _Rule(
        "baseline", "untuned-baseline", "name the design, and say what is done to it before the comparison is fair",
        bad=r"\b(?:no|not|without|never|needs? no|needn t)\b(?: \w+){0,3} tun",
        needs=r"\btun(?:e|ed|ing)|swe(?:pt|ep)|best|optimi[sz]|well chosen|calibrat|search|picked|selected|adjust",
    ),
    *(
        _Rule("label", "label-wrong", _WHOSE_INPUTS, bad=rf"\b{label}\b", excuse=rf"\b(not|never|un) ?{label}\b")
        for label in ("published", "simulated", "measured")
    ),
    _Rule("label", "label-wrong", _WHOSE_INPUTS, bad=r"\b(not|never|un) ?hypothetical\b", needs=r"\bhypothetical\b"),
    _Rule(
        "next_step", "no-next-step", "what run, of which designs, would turn a floor into evidence?",
        bad=rf"\b(?:no|not|never|without|skip)\b(?: \w+){{0,2}} (?:{MEASURE.pattern})", needs=MEASURE.pattern,
    ),
)  # fmt: skip


def _words(verdict: Mapping[str, object]) -> Finding | None:
    for rule in _RULES:
        if rule.broken_by(" ".join(clauses(str(verdict[rule.field]).replace("-", " ")))):
            return Finding(False, rule.kind, f"{rule.field}: {rule.says}")
    return None


def _reasons(verdict: Mapping[str, object]) -> Finding | None:
    value = verdict["because"]
    items = value if isinstance(value, list | tuple | set) else re.split(r"[\s,;+&.()]+|\band\b", str(value))
    letters = sorted({str(item).strip().upper() for item in items} - {""})
    if len(letters) == 1 and set(letters[0]) <= set(REASONS):  # "AC"
        letters = sorted(set(letters[0]))
    if strange := [letter for letter in letters if letter not in REASONS]:
        return Finding(
            False, "reasons-by-letter",
            f"because: {strange[0][:40]!r} is no letter of the list of reasons; give letters from A to {max(REASONS)}, as a list",
        )  # fmt: skip
    for letter in letters:
        if REASONS[letter].kind:
            return Finding(False, REASONS[letter].kind, f"because, {letter}: {REASONS[letter].wrong}")
    if any(letter not in letters for letter, reason in REASONS.items() if not reason.kind):
        return Finding(False, "reason-missing", "because: right so far, and another reason of the list holds as well")
    return None
