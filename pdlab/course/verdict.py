"""The verdict of notebook 09, and whether its evidence carries it.

A verdict is a mapping.  Numbers are checked as numbers, reasons as letters of a printed list, and every
other field holds one of the words that the notebook prints for it, or a spelling of one (``WORDS``).  A
whole text is compared, never searched, so that no sentence can pass by a word in it; a text that is none
of them is asked for again, and accused of nothing.  The first thing wrong is reported, with its kind.

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
from pdlab.theory import kv, link

SETUP_MS, INTERFERENCE_MS, EFFECTIVE_GB_S, PEAK_GB_S = 1.0, 2.0, 10.0, 12.5
BASELINE_P95_ITL_MS, TARGET_P95_ITL_MS = 35.0, 50.0
KV_BYTES = kv.kv_bytes(kv.uniform(layers=80, kv_heads=8, head_dim=128), 300)
FLOOR_MS = link.handoff_floor_ms(KV_BYTES, EFFECTIVE_GB_S, SETUP_MS)
ADDED_MS = FLOOR_MS - INTERFERENCE_MS
ROOM_MS = TARGET_P95_ITL_MS - BASELINE_P95_ITL_MS
_PEAK_FLOOR_MS = link.handoff_floor_ms(KV_BYTES, PEAK_GB_S, SETUP_MS)

NOT_ADDED = "the extra time of one request was added to a P95; a percentile of many gaps does not move by one request's floor"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a field: other spellings of it, and where it is wrong the kind of mistake and what to say."""

    also: tuple[str, ...]
    kind: str = ""
    says: str = ""


def _right(*also: str) -> Word:
    return Word(also)


def _wrong(kind: str, says: str, *also: str) -> Word:
    return Word(also, kind, says)


_OF_MANY = "one request's floor is no statistic of many requests"
_ADOPTS = "this adopts the change; what was shown is a floor for one request, and that is not what a deployment is chosen by"
_WHOSE_INPUTS = "where do the inputs come from: a paper, a simulator, a run, or an assumption?"
WORDS: dict[str, dict[str, Word]] = {
    "decision": {
        "adopt": _wrong(
            "adopts", _ADOPTS, "adopt it", "adopted", "approve", "approved", "accept", "accepted", "yes", "go ahead", "lgtm", "roll it out",
        ),
        "not yet": _right(
            "insufficient evidence", "insufficient evidence to adopt", "not enough evidence", "not enough evidence to adopt", "insufficient",
            "do not adopt", "don t adopt", "do not adopt yet", "don t adopt yet", "do not adopt until sweep exists", "hold", "wait", "defer",
            "inconclusive", "undecided", "unproven", "not proven", "measure first", "hold measure first", "keep it local for now",
            "evidence is missing", "evidence is insufficient", "reject for lack of evidence", "rejected for lack of evidence",
        ),
        "reject": _wrong(
            "rejects-outright",
            "this says the proposal is bad; what is known is that its case was not made. Missing evidence is not evidence against",
            "reject it", "rejected", "decline", "refuse", "bad idea",
        ),
    },
    "itl_slo": {
        "met": _wrong(
            "claims-no-violation", "nobody measured that either; a baseline with room to spare is not the proposal's tail",
            "holds", "it holds", "it is met", "kept", "within target", "not missed", "not violated", "no violation",
        ),
        "missed": _wrong(
            "claims-violation", "this claims that a target is missed; a floor for one request is no tail percentile",
            "violated", "exceeded", "it is missed", "not met", "broken", "violation",
        ),
        "not shown": _right(
            "unknown", "not known", "not measured", "unmeasured", "not evaluable", "not evaluated", "undetermined", "open", "unclear", "untested",
            "we don t know", "we do not know", "i don t know", "don t know", "nobody knows", "nobody has measured it", "no one has measured it",
            "can t tell", "cannot tell", "no data", "no evidence", "nothing is known", "neither", "neither is shown", "neither met nor missed is shown",
        ),
    },
    "floor_is": {
        "lower bound": _right(
            "lower bound for one request", "lower bound of one request", "lower limit", "minimum", "minimum for one request",
            "minimum for single request", "one request s minimum", "floor", "best case", "best case for one request", "best case for single request",
        ),
        "typical value": _wrong("floor-as-percentile", _OF_MANY, "typical", "average", "mean", "median", "p50"),
        "percentile": _wrong("floor-as-percentile", _OF_MANY, "p95", "p99", "tail", "95th percentile", "99th percentile"),
        "upper bound": _wrong(
            "other-side", "can a hand-off be quicker than this number? Can it be slower?", "upper limit", "maximum", "worst case",
        ),
    },
    "bandwidth": {
        "effective": _right(
            "effective bandwidth", "effective payload bandwidth", "effective 10 gb/s", "10 gb/s effective", "sustained", "sustained bandwidth",
            "sustained payload", "sustained payload bandwidth", "payload", "achieved",
        ),
        "peak": _wrong(
            "peak-bandwidth", "a link's peak is not what an application gets",
            "peak bandwidth", "line rate", "nominal", "theoretical", "data sheet", "data sheet rate", "100 gbit/s line rate",
        ),
    },
    "baseline": {
        "aggregated, tuned": _right(
            "tuned aggregated", "aggregated tuned first", "tuned aggregated serving", "tuned aggregation", "aggregation tuned",
            "aggregated chunk size tuned", "aggregated chunk size tuned first", "aggregated with its chunk size tuned", "aggregated with best chunk size",
        ),
        "aggregated, as it is": _wrong(
            "untuned-baseline", "an untuned opponent is easy to beat; its first knob was never turned",
            "aggregated", "aggregated as is", "as is", "as it is", "default", "default settings", "aggregated default", "aggregated default settings",
            "aggregated with default settings", "aggregated untuned", "aggregated not tuned", "untuned", "today s fleet",
        ),
        "the proposal": _wrong(
            "wrong-baseline", "that is the proposal itself; what does it replace?",
            "disaggregated", "disaggregated tuned", "disaggregation", "proposal tuned",
        ),
    },
    "label": {
        "hypothetical": _right("hypothetical (assumed inputs)", "assumed", "assumption"),
        **{name: _wrong("label-wrong", _WHOSE_INPUTS) for name in ("published", "simulated", "measured")},
    },
    "next_step": {
        "sweep of both designs": _right(
            "sweep both designs", "sweep both", "end to end sweep of both designs", "end to end sweep of both", "end to end sweep",
            "end to end sweep of both designs at equal budget", "benchmark both", "benchmark both designs", "benchmark of both designs",
            "measure both", "measure both designs", "run both", "run both designs",
        ),
        "sweep of the proposal": _wrong(
            "one-sided", "that gives one side of a comparison; of which designs are figures needed?", "measure proposal", "benchmark proposal",
        ),
        "finer calculation": _wrong("no-next-step", "a better floor is still a floor; what run would turn it into evidence?", "calculation", "calculate again"),
        "faster link": _wrong("no-next-step", "that changes the case; what would settle this one?", "buy faster link"),
        "roll out to a tenth": _wrong("adopts", _ADOPTS, "roll out", "roll it out", "roll it out to tenth", "deploy it", "deploy it and watch dashboards"),
        "nothing": _wrong("no-next-step", "what run, of which designs, would turn a floor into evidence?", "none", "no sweep needed"),
    },
}  # fmt: skip

FIELDS = {
    "decision": "about the proposal",
    "itl_slo": "what is known about the P95 ITL target under the proposal",
    "handoff_floor_ms": "the hand-off floor of the affected path, in ms",
    "added_ms": "the least that path gains over the interference it avoids, in ms",
    "room_ms": "how far the baseline's P95 ITL is from its target, in ms",
    "floor_is": "what kind of number the floor is, for one request",
    "bandwidth": "which bandwidth went into it",
    "baseline": "the opponent in the next sweep",
    "label": "the evidence label of these numbers",
    "next_step": "what would settle the question",
    "because": "the letters of the sound reasons",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason that notebook 09 prints; ``kind`` and ``wrong`` explain it where it is none."""

    says: str
    kind: str = ""
    wrong: str = ""


REASONS = {
    "A": Reason("A floor bounds one request from below; a P95 is about many token gaps."),
    "B": Reason(
        "Today's P95 plus the added time is still under the target, so the design is safe there.", "floor-as-percentile", NOT_ADDED
    ),
    "C": Reason("Nobody has measured the tail of the proposal."),
    "D": Reason("The path gets longer, so the P95 ITL rises by as much.", "floor-as-percentile", NOT_ADDED),
    "E": Reason(
        "The path gets longer, so the target will be missed.", "claims-violation", "nobody measured that; it may be missed or met"
    ),
    "F": Reason(
        "Today's fleet has room to spare, so the proposal will meet the target too.", "claims-no-violation",
        "nobody measured that either; the room is the baseline's",
    ),
    "G": Reason(
        "The hand-off costs more than it saves, so the design is bad.", "rejects-outright",
        "that holds for one path. Missing evidence is not evidence against the design",
    ),
}  # fmt: skip


def judge(verdict: object) -> Finding:
    """The first thing wrong with ``verdict``, or a clean finding."""
    for step in (_form, _words, _numbers, _reasons):
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
            words = f": {_named(field)}" if field in WORDS else ""
            return Finding(False, "missing-field", f"{field} is still open, {meaning}{words}")
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


# ── the fields of one word ──────────────────────────────────────────────────────────────────


def folded(text: str) -> str:
    """A text without case, punctuation, hyphens and articles, so that honest spellings are one."""
    plain = re.sub(r"[^\w/()]+|_", " ", text.casefold())
    return " ".join(part for part in plain.split() if part not in ("a", "an", "the"))


_MEANT = {
    field: {folded(spelling): name for name, word in words.items() for spelling in (name, *word.also)} for field, words in WORDS.items()
}


def _named(field: str) -> str:
    *first, last = (f'"{name}"' for name in WORDS[field])
    return f"{', '.join(first)} or {last}"


def _words(verdict: Mapping[str, object]) -> Finding | None:
    for field, words in WORDS.items():
        said = verdict[field]
        name = _MEANT[field].get(folded(said)) if isinstance(said, str) else None
        if name is None:
            return Finding(False, "unclear-word", f"{field}: {str(said)[:60]!r} is not read as one of the words; write {_named(field)}, whichever you mean")
        if words[name].kind:
            return Finding(False, words[name].kind, f"{field}: {words[name].says}")
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
