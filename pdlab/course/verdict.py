"""The verdict of notebook 09, and whether its evidence carries it.

A verdict is a mapping.  Numbers are checked as numbers, reasons as letters of a printed list.  The
other fields may be written freely: a text is accepted where it plainly says the right thing, called
an overclaim only where it plainly is one, and otherwise asked for in the words that the field names.
The first thing wrong is reported, with the kind of mistake.

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


_NOT_ADDED = "the extra time of one request was added to a P95; a percentile of many gaps does not move by one request's floor"
REASONS = {
    "A": Reason("A floor bounds one request from below; a P95 is about many token gaps."),
    "B": Reason("Today's P95 plus the added time is still under the target.", "floor-as-percentile", _NOT_ADDED),
    "C": Reason("Nobody has measured the tail of the proposal."),
    "D": Reason("The path gets longer, so the P95 ITL rises by as much.", "floor-as-percentile", _NOT_ADDED),
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
    for step in (_form, _claims, _decision, _itl, _numbers, _words, _reasons):
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


# What a text claims.  A claim counts only where its own clause does not deny or doubt it.

_DENIED = re.compile(
    r"\b(not|no|never|nor|neither|without|nothing|nobody|none|cannot|can t|\w+n t"
    r"|unproven|unshown|unmeasured|insufficient|lack\w*|whether|if|until|unless|before|may|might|could|unknown|unclear"
    r"|rather than|instead of|far from|claim\w*|alleged\w*|absence|missing|premature|too early|too soon|reject\w*|refus\w*"
    r"|declin\w*|against|declare\w* to be)\b"
)
_VIOLATION = re.compile(
    r"\b(violat\w*|breach\w*|exceed\w*|bust\w*|blow\w* (?:through|past)?|break\w*|broke\w*|miss(?:es|ed)?|fail\w*"
    r"|over the (?:target|limit|slo)|above (?:the )?(?:target|limit|slo|50)|out of slo)\b"
)
_OF_LATENCY = re.compile(r"\b(slo|slos|itl|target|targets|limit|p95|50 ?ms|tail|latency|sla)\b")
_ADOPT = re.compile(
    r"\b(adopt\w*|approv\w*|accept\w*|go ahead|ship it|roll(?:ing|ed)? (?:it |this )?out|rollout|merge it|deploy\w*"
    r"|green light|lgtm|proceed with|switch over|disaggregate everything|enable it)\b"
)
# A floor added to a percentile: the sum, the addition, or a percentile that moves by so many ms.
_SUMMED_TAIL = re.compile(r"\b(45\.8\d*|43\.8\d*|46 ?ms|44 ?ms)\b|\b35(?:\.0+)? ?(?:ms)? ?(?:\+|plus|and) ?(?:\d|the )")
_MOVES = re.compile(
    r"\b(ris\w+|rose|grow\w*|increas\w*|go(?:es)? up|climb\w*|wors\w*|higher|longer|slower|later|gain\w*|add\w*|up by|jump\w*|mov\w*|cost\w*)\b"
)
_OF_MANY = re.compile(r"\b(itl|p ?95|p ?99|percentile|tail)\b")
_BY_MS = re.compile(r"\d ?(?:ms|milliseconds?)\b|\bby (?:about |at least |some |roughly )?\d|\bby (?:as much|that much|the (?:floor|hand ?off|same|added|difference))")
_PERCENTILE = re.compile(r"\b(p ?9[059]|p50|percentile|tail|mean|average|median|typical|upper bound|maximum|worst case|distribution)\b")


def _clauses(text: str) -> list[str]:
    plain = re.sub(r"['’`]", " ", text.lower())
    plain = re.sub(r"[_\s]+", " ", plain)
    return [
        clause.strip()
        for clause in re.split(r"[;:!?\n]|\.(?!\d)|\bbut\b|\band so\b|\btherefore\b|\bhence\b|\bso that\b|\bsince\b|\bbecause\b|, so\b|\byet\b(?= it)|\bhowever\b", plain)
        if clause.strip()
    ]


def _asserts(text: str, what: re.Pattern[str], about: re.Pattern[str] | None = None) -> bool:
    return any(
        what.search(clause) and (about is None or about.search(clause)) and not _DENIED.search(clause)
        for clause in _clauses(text)
    )


_MEASURE = re.compile(r"sweep|benchmark|end to end|load test|measur|run both|experiment|replay|a/b|trial|under load|side by side")
_SAYS_ADOPTS = (
    "this adopts the change; what was shown is a floor for one request, and that is not what a deployment is chosen by"
)


def _claims(verdict: Mapping[str, object]) -> Finding | None:
    for field in ("decision", "next_step", "because"):
        text = str(verdict[field])
        # To deploy both designs for a sweep is a measurement, not an adoption.
        if field != "decision" and _asserts(text, _ADOPT) and not (field == "next_step" and _MEASURE.search(text.lower())):
            return Finding(False, "adopts", f"{field}: {_SAYS_ADOPTS}")
        if _asserts(text, _VIOLATION, _OF_LATENCY):
            return Finding(
                False,
                "claims-violation",
                f"{field}: this claims that a target is missed; nobody measured the proposal's tail, "
                "and the baseline has room to spare",
            )
    for field in ("decision", "itl_slo", "next_step", "because"):
        if _adds_floor_to_percentile(str(verdict[field])):
            return Finding(False, "floor-as-percentile", f"{field}: {_NOT_ADDED}")
    return None


def _adds_floor_to_percentile(text: str) -> bool:
    return any(
        _SUMMED_TAIL.search(clause)
        or (_OF_MANY.search(clause) and _MOVES.search(clause) and _BY_MS.search(clause))
        or (
            re.search(r"\b(floor|hand ?-?off|10\.83\d*|8\.83\d*)", clause)
            and re.search(r"\b(is|as|becomes|equals|gives|means) (?:a |an |the |our )*(?:new )?(p ?95|tail|percentile|mean|average|median)\b", clause)
        )
        for clause in _clauses(text)
        if not _DENIED.search(clause)
    )


# The decision.  An adoption counts as refused only where one refusal stands before it, and as given
# only where nothing refuses or conditions it: whatever lies between is asked for again in plain words.

_MEASURED = r"(?:evidence|proof|data|measure\w*|sweeps?|benchmarks?|numbers|tests?|results|case)"
_INSUFFICIENT = re.compile(
    r"^not (?:yet|now|so far)\b|\bnot yet$|insufficient|"
    r"(?:not|isn t|aren t|hasn t been|has not been) (?:yet |been )?(?:enough|sufficient|proven|shown|supported|supportable|justified|established|demonstrated|ready|decided|convinc\w+|made)|"
    rf"(?:lack|lacks|lacking|absence|want|need|needs|no|too little|more|missing|without|wait for|until (?:there is|we have)) (?:of |the |any |an |a |enough |sufficient |more |end to end |measured )*{_MEASURED}|"
    r"(?:evidence|proof|data) (?:is |are |does not |doesn t |don t |so far )*(?:missing|lacking|incomplete|thin|too thin|not there|not enough|support)|"
    r"unproven|unsupported|undecided|inconclusive|undetermined|not evaluable|(?:can ?not|can t|could not|couldn t) (?:be )?(?:conclude|decide|tell|say|judge)\w*|"
    rf"(?:come back|return|bring|send|provide|resubmit|show (?:me|us)|give (?:me|us)|ask for|request|get|run) (?:\w+ ){{0,3}}{_MEASURED}|"
    r"\b(?:hold|defer|postpone|pause|wait|park)\b|keep (?:the )?(?:aggregated|baseline|short prompts? local|prefill local|it local)|stay(?:s|ing)? (?:with )?aggregated|measure (?:it |this )?(?:first|before)|"
    r"(?:not|\w+n t) (?:\w+ )?(?:do|support|proceed with|sign) (?:it|this|that|the)\b|(?:send|goes|hand) (?:it |this )?back|"
    r"(?:keep|stay with|leave) (?:the |our )?(?:current|present|existing|things)|"
    r"no decision|too early|too soon|premature|nobody (?:has )?(?:measured|shown|proved)|no measurement"
)
_NEITHER_WAY = re.compile(
    r"\b(?:not|no|nothing|isn t|hardly|never) (?:\w+ )?(?:insufficient|lack\w*|missing|premature|too early|too soon|unproven|unsupported|inconclusive)|"
    rf"\bno (?:more|further) {_MEASURED}|\bneeds? no\b|\b(?:don t|do not|doesn t|not|no) (?:need|wait|hold|defer|pause|postpone|reason|case)\b"
)
_REFUSED = re.compile(r"\b(not|no|never|nobody|nothing|cannot|can t|\w+n t|against|reject\w*|refus\w*|declin\w*|oppos\w*)\b")
_CONDITION = re.compile(
    r"\b(if|until|unless|before|after|once|when|whether|may|might|could|later|then|only|yet|provided|pending|maybe|perhaps"
    r"|rather than|instead of|without|lack\w*|unproven|insufficient|premature|too early|too soon|claim\w*|far from)\b"
)
_OUTRIGHT = re.compile(r"\b(reject\w*|refus\w*|declin\w*|never|bad idea|worse|slower|wrong)\b")
_SAYS_UNCLEAR = "decision: this can be read in more than one way. Write adopt, not yet or reject, or say plainly what is missing"


def _decision(verdict: Mapping[str, object]) -> Finding | None:
    clauses = _clauses(str(verdict["decision"]))
    refuses = {_read_adoption(clause) for clause in clauses if _ADOPT.search(clause)}
    if False in refuses or any(re.fullmatch(r"(?:yes|ok|okay|agreed?|i agree|support(?:ed)?|i support it|fine)", clause) for clause in clauses):
        return Finding(False, "adopts", f"decision: {_SAYS_ADOPTS}")
    if None in refuses or any(_NEITHER_WAY.search(clause) for clause in clauses):
        return Finding(False, "unclear-decision", _SAYS_UNCLEAR)
    if True in refuses or any(_INSUFFICIENT.search(clause) for clause in clauses):
        return None
    # "reject", with the lack of evidence given as the reason, is the same verdict.
    if any(_OUTRIGHT.search(clause) for clause in clauses):
        if any(re.search(r"evidence|unmeasured|not (?:been )?measured|no sweep", clause) for clause in clauses):
            return None
        return Finding(
            False,
            "rejects-outright",
            "decision: this says the proposal is bad; what is known is that its case was not made. "
            "Missing evidence is not evidence against",
        )
    return Finding(False, "unclear-decision", _SAYS_UNCLEAR)


def _read_adoption(clause: str) -> bool | None:
    """True where the clause refuses an adoption, False where it gives one, None where neither is plain."""
    verb = _ADOPT.search(clause)
    assert verb
    before, after = clause[: verb.start()], clause[verb.end() :]
    refusals = len(_REFUSED.findall(before.rpartition(",")[2]))  # "no, do not adopt" refuses once
    if refusals == 1:
        return True
    if refusals or _REFUSED.search(before):
        return None
    # "adoption is not justified", "adopting would be premature"
    if re.match(r"adoption|adopting|approving|approval|accepting|deploying|deployment|rollout|rolling", verb[0]) and (
        _REFUSED.search(after) or re.search(r"premature|too early|too soon|unproven|unsupported|unjustified", after)
    ):
        return None if len(_REFUSED.findall(after)) > 1 else True
    if re.search(r"insufficient|not enough|too little|lack|no (?:\w+ )?evidence|unproven|premature|too early|too soon", before):
        return True
    return None if _CONDITION.search(clause) or _REFUSED.search(after) else False


# Half a unit of the third digit: three significant digits are enough, as in 9.3 to 9.5.
_NEAR_MS = {"handoff_floor_ms": 0.05, "added_ms": 0.005, "room_ms": 0.05}


def _numbers(verdict: Mapping[str, object]) -> Finding | None:
    known = {
        "handoff_floor_ms": (
            FLOOR_MS,
            [
                (FLOOR_MS + SETUP_MS, "setup-twice", "setup was added twice: once in the floor, once more on top"),
                (FLOOR_MS - SETUP_MS, "setup-left-out", "this is the bandwidth floor; setup is not in it"),
                (_PEAK_FLOOR_MS, "peak-bandwidth", "this uses the link's peak, not what an application gets"),
                (_PEAK_FLOOR_MS - SETUP_MS, "peak-bandwidth", "this uses the link's peak, and leaves setup out"),
                (ADDED_MS, "wrong-field", "this is what the path gains, not the floor itself"),
            ],
        ),
        "added_ms": (
            ADDED_MS,
            [
                (FLOOR_MS, "interference-not-subtracted", "the interference that is avoided is not taken off"),
                (FLOOR_MS + INTERFERENCE_MS, "interference-added", "the interference goes away; here it was added"),
                (ADDED_MS + SETUP_MS, "setup-twice", "setup was added twice"),
                (ADDED_MS - SETUP_MS, "setup-left-out", "setup is not in it"),
                (_PEAK_FLOOR_MS - INTERFERENCE_MS, "peak-bandwidth", "this uses the link's peak"),
                (-ADDED_MS, "sign", "the sign is turned: the affected path gets slower"),
            ],
        ),
        "room_ms": (
            ROOM_MS,
            [
                (ROOM_MS - ADDED_MS, "floor-as-percentile", "the floor was taken off the room; one request's floor does not move a P95 by itself"),
                (ROOM_MS - FLOOR_MS, "floor-as-percentile", "the floor was taken off the room; one request's floor does not move a P95 by itself"),
                (-ROOM_MS, "sign", "the sign is turned: the baseline is below its target"),
                (BASELINE_P95_ITL_MS, "wrong-field", "this is the baseline itself, not its distance from the target"),
            ],
        ),
    }
    for field, (right, mistakes) in known.items():
        try:
            value = float(number(read(verdict[field]), "ms"))
        except Unreadable as error:
            kind = error.kind if error.kind == "decimal-comma" else "not-a-number"
            return Finding(False, kind, f"{field}: {error.says}")
        if value != value:
            return Finding(False, "not-a-number", f"{field}: found {verdict[field]!r}, expected milliseconds as a number")
        near = _NEAR_MS[field] * 1.000001
        if abs(value - right) <= near:
            continue
        for wrong, kind, says in mistakes:
            if abs(value - wrong) <= near:
                return Finding(False, kind, f"{field}: {says}")
        return Finding(False, "wrong-number", f"{field}: the inputs of the case give another number; work it out in the two steps before")
    return None


# What is known of the target: met, missed, or neither shown.

_KNOW = (
    r"(?:know\w*|knew|shown?|shows|say|said|tell|told|judg\w*|measur\w*|prov\w*|proof|establish\w*|evaluat\w*|evaluable|determin\w*"
    r"|demonstrat\w*|decid\w*|check\w*|tested|evidence|data|conclu\w*|clear|certain|sure|answer\w*|infer\w*|deriv\w*|follow\w*|look\w*|seen|idea)"
)
_MET = r"(?:met|meets?|within|under|(?<!see )below|ok|okay|fine|holds?|safe|kept|keeps?|satisf\w*|fulfil\w*|respected|pass\w*)"
_MISSED = (
    r"(?:violat\w*|breach\w*|exceed\w*|bust\w*|break\w*|broke\w*|miss|misses|missed|fail\w*|(?<!see )(?:over|above)|out of slo|worse|higher|too (?:slow|high|long))"
)
_NEGATED = r"(?:not|cannot|can t|\w+n t|never)"
_UNKNOWN = re.compile(
    rf"\b{_NEGATED} (?:(?!{_MET}\b|{_MISSED}\b)\w+ ){{0,4}}{_KNOW}\b|"
    rf"\b(?:no|nobody|no one|none|nothing|without|lack\w*) (?:\w+ ){{0,6}}{_KNOW}\b|\b(?:nobody|no one|who) knows\b|\bknows? nothing\b|\bneither\b.*\bnor\b|"
    r"\b(?:unknown|unmeasured|unproven|unshown|undetermined|undecided|unevaluated|unclear|uncertain|untested|inconclusive|open|insufficient|not enough"
    r"|(?:remains|yet|still) to be|to be measured|may|might|could|either|whether|depends)\b|^(?:nothing|none|neither|not yet)$"
)
_NO = re.compile(rf"\b(?:{_NEGATED}|no|nothing|nobody|without)\b")


def _itl(verdict: Mapping[str, object]) -> Finding | None:
    unknown, claim = False, ""
    for clause in _clauses(str(verdict["itl_slo"]).replace("-", " ")):
        for part in filter(None, (part.strip() for part in re.split(r",|\band it (?=is|was|will)", clause))):
            met, missed = (bool(re.search(rf"\b{words}\b", part)) for words in (_MET, _MISSED))
            if _UNKNOWN.search(part):
                unknown = True
            elif re.search(r"\b(?:baseline|today s?|current\w*|aggregat\w*)\b|^(?:nor|or)\b", part):
                continue  # of the fleet as it is, or the end of a sentence that denies both
            elif met != missed:
                claim = claim or ("missed" if missed != bool(_NO.search(part)) else "met")
    if claim == "met":
        return Finding(False, "claims-no-violation", "itl_slo: nobody measured that either; a baseline with room to spare is not the proposal's tail")
    if claim == "missed":
        return Finding(False, "claims-violation", "itl_slo: this claims that a target is missed; a floor for one request is no tail percentile")
    if not unknown:
        return Finding(False, "unclear-itl", "itl_slo: write met, missed or not shown. Which of them has anybody measured?")
    return None


def _words(verdict: Mapping[str, object]) -> Finding | None:
    floor, bandwidth, baseline, label, step = (
        " ".join(_clauses(str(verdict[key]).replace("-", " "))) for key in ("floor_is", "bandwidth", "baseline", "label", "next_step")
    )
    if _PERCENTILE.search(floor) and not re.search(r"\b(not|no|never|rather than|isn t)\b", floor):
        return Finding(False, "floor-as-percentile", "floor_is: one request's floor is no statistic of many requests")
    if not re.search(r"lower bound|floor|minimum|least|best case|bound from below|lower limit|cannot be (?:less|faster|below)|optimistic", floor):
        return Finding(False, "floor-unclear", "floor_is: say which way it bounds, and for how many requests")
    if re.search(r"\bpeak|line rate|nominal|theoretical|wire|advertis|data ?sheet|\b12\.5|100 ?g(?:bit|b/s|bps|be)", bandwidth) and not re.search(
        r"\b(not|never|rather than|instead of|no)\b", bandwidth
    ):
        return Finding(False, "peak-bandwidth", "bandwidth: a link's peak is not what an application gets")
    if not re.search(r"effective|sustained|payload|achieved|goodput|application", bandwidth):
        return Finding(False, "bandwidth-unclear", "bandwidth: say which kind of bandwidth it is, not only how much")
    if re.search(r"untuned|un tuned|default|as is|out of the box|not tuned|without tuning|stock", baseline) and not re.search(
        r"\b(not|never|rather than|instead of|no)\b[^,]*(default|as is|untuned|stock|out of the box)", baseline
    ):
        return Finding(False, "untuned-baseline", "baseline: an untuned opponent is easy to beat; its first knob was never turned")
    if re.search(r"\bdisaggregat", baseline) and not re.search(r"\baggregat", baseline):
        return Finding(False, "wrong-baseline", "baseline: that is the proposal itself; what does it replace?")
    if re.search(r"\b(?:no|not|without|never|needs? no|needn t)\b(?: \w+){0,3} tun", baseline) or not re.search(
        r"\btun(?:e|ed|ing)|swe(?:pt|ep)|best|optimi[sz]|well chosen|calibrat|search|picked|selected|adjust", baseline
    ):
        return Finding(False, "untuned-baseline", "baseline: name the design, and say what is done to it before the comparison is fair")
    labels = [word for word in ("hypothetical", "published", "simulated", "measured") if re.search(rf"\b{word}\b", label) and not re.search(rf"\b(not|never|un) ?{word}\b", label)]
    if labels != ["hypothetical"]:
        return Finding(False, "label-wrong", "label: where do the inputs come from: a paper, a simulator, a run, or an assumption?")
    if not _MEASURE.search(step) or re.search(rf"\b(?:no|not|never|without|skip)\b(?: \w+){{0,2}} (?:{_MEASURE.pattern})", step):
        return Finding(False, "no-next-step", "next_step: what run, of which designs, would turn a floor into evidence?")
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
