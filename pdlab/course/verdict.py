"""The verdict of notebook 09, and whether its evidence carries it.

A verdict is a mapping.  Numbers are checked as numbers; words are read for what they claim, so
that every honest way of saying *insufficient evidence to adopt* passes and an overclaim does not,
wherever in the verdict it stands.  The first thing wrong is reported, with the kind of mistake.

The case (hypothetical, notebook 09): 300 tokens of the 80 x 8 x 128 model in BF16 over a link of
10 GB/s effective with 1 ms of setup; 2 ms of local interference; P95 ITL 35 ms against 50 ms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    "decision": "what you tell the proposer, in your own words",
    "itl_slo": "what is known about the P95 ITL target under the proposal",
    "handoff_floor_ms": "the hand-off floor of the affected path, in ms",
    "added_ms": "the least that path gains over the interference it avoids, in ms",
    "room_ms": "how far the baseline's P95 ITL is from its target, in ms",
    "floor_is": "what kind of number the floor is",
    "bandwidth": "which bandwidth went into it",
    "baseline": "what the proposal must be compared with",
    "label": "the evidence label of these numbers",
    "next_step": "what would settle the question",
    "because": "one or two sentences of reason",
}


def judge(verdict: object) -> Finding:
    """The first thing wrong with ``verdict``, or a clean finding."""
    for step in (_form, _claims, _decision, _numbers, _words):
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
        if value is ... or value is None or value == "":
            return Finding(False, "missing-field", f"{field} is still open: {meaning}")
    return None


# What a text claims.  A claim counts only where its own clause does not deny or doubt it.

_DENIED = re.compile(
    r"\b(not|no|never|nor|neither|without|nothing|none|cannot|isn t|doesn t|don t|won t|didn t|can t|hasn t|haven t"
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
_SUMMED_TAIL = re.compile(r"\b(45\.8\d*|43\.8\d*|45\.83\d*|43\.83\d*|46 ?ms|44 ?ms)\b")
_PERCENTILE = re.compile(r"\b(p ?9[059]|p50|percentile|tail|mean|average|median|typical|upper bound|maximum|worst case|distribution)\b")


def _clauses(text: str) -> list[str]:
    plain = re.sub(r"['’`]", " ", text.lower())
    plain = re.sub(r"[_\s]+", " ", plain)
    return [
        clause.strip()
        for clause in re.split(r"[;:!?\n]|\.(?!\d)|\bbut\b|\band so\b|\btherefore\b|\bhence\b|\bso that\b|, so\b|\byet\b(?= it)|\bhowever\b", plain)
        if clause.strip()
    ]


def _asserts(text: str, what: re.Pattern[str], about: re.Pattern[str] | None = None) -> bool:
    return any(
        what.search(clause) and (about is None or about.search(clause)) and not _DENIED.search(clause)
        for clause in _clauses(text)
    )


_SAYS_ADOPTS = (
    "this adopts the change; what was shown is a floor for one request, and that is not what a deployment is chosen by"
)


def _claims(verdict: Mapping[str, object]) -> Finding | None:
    for field in ("decision", "next_step", "because"):
        text = str(verdict[field])
        if _asserts(text, _ADOPT):
            return Finding(False, "adopts", f"{field}: {_SAYS_ADOPTS}")
        if _asserts(text, _VIOLATION, _OF_LATENCY):
            return Finding(
                False,
                "claims-violation",
                f"{field}: this claims that a target is missed; nobody measured the proposal's tail, "
                "and the baseline has room to spare",
            )
        if _SUMMED_TAIL.search(text):
            return Finding(
                False,
                "floor-as-percentile",
                f"{field}: a floor was added to a P95; percentiles of different things do not add",
            )
        if any(
            re.search(r"\b(floor|hand ?-?off|10\.83\d*|8\.83\d*)", clause)
            and re.search(r"\b(is|as|becomes|equals|gives|means) (?:a |an |the |our )*(?:new )?(p ?95|tail|percentile|mean|average|median)\b", clause)
            and not _DENIED.search(clause)
            for clause in _clauses(text)
        ):
            return Finding(
                False, "floor-as-percentile", f"{field}: one request's floor is no statistic of many requests"
            )
    return None


_INSUFFICIENT = re.compile(
    r"insufficient|not (?:yet )?(?:enough|sufficient|proven|shown|supported|justified|established|demonstrated|ready|decided)|"
    r"(?:not|isn t|hasn t been|has not been) (?:yet )?(?:shown|proven|established|demonstrated)|"
    r"(?:lack|lacks|lacking|absence|want|need|needs|no|too little|more|missing|without) (?:of |the |any |enough |sufficient |end to end |measured )*(?:evidence|proof|data|measurements?|case)|"
    r"evidence (?:is |does not |doesn t |so far )*(?:missing|lacking|incomplete|thin|too thin|not there|not enough|support)|"
    r"unproven|unsupported|undecided|inconclusive|undetermined|not evaluable|can ?not (?:be )?(?:conclude|decide|tell|say|judge)\w*|can t (?:conclude|decide|tell|say|judge)|"
    r"(?:do not|don t|should not|shouldn t|not to) (?:adopt|approve|accept|deploy|merge|roll)|not adopt|"
    r"\b(?:hold|defer|postpone|pause|wait|park)\b|keep (?:the )?(?:aggregated|baseline|short prompts? local|prefill local|it local)|measure (?:it )?(?:first|before)|"
    r"no (?:basis|grounds?|reason) (?:yet )?(?:to|for)|no decision|case (?:is )?not (?:made|proven)|premature|too early|too soon"
)
_OUTRIGHT = re.compile(r"\b(reject\w*|refus\w*|declin\w*|no|never|bad idea|worse|slower|wrong)\b")


def _decision(verdict: Mapping[str, object]) -> Finding | None:
    text = " ".join(_clauses(str(verdict["decision"])))
    # "reject", with the lack of evidence given as the reason, is the same verdict.
    reason = " ".join(_clauses(f"{verdict['decision']} . {verdict['because']}"))
    refuses = _OUTRIGHT.search(text) and re.search(
        r"evidence|unproven|not (?:been )?(?:shown|measured|proven)|unmeasured|unsupported|nobody measured|no sweep|no measurement", reason
    )
    if _INSUFFICIENT.search(text) or refuses:
        return None
    if _ADOPT.search(text) or re.search(r"\b(yes|ok|agree|support)\b", text):
        return Finding(False, "adopts", f"decision: {_SAYS_ADOPTS}")
    if _OUTRIGHT.search(text):
        return Finding(
            False,
            "rejects-outright",
            "decision: this says the proposal is bad; what is known is that its case was not made. "
            "Missing evidence is not evidence against",
        )
    return Finding(False, "unclear-decision", "decision: say what the evidence allows: adopt, do not adopt, or what is missing")


def _number(value: object) -> float | None:
    try:
        return float(number(read(value), "ms"))
    except Unreadable:
        return None


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
        value = _number(verdict[field])
        if value is None or value != value:
            return Finding(False, "not-a-number", f"{field}: found {verdict[field]!r}, expected milliseconds as a number")
        if abs(value - right) <= 0.0005:  # the course states four decimals; two or three are honest too
            continue
        for wrong, kind, says in mistakes:
            if abs(value - wrong) <= 0.0005:
                return Finding(False, kind, f"{field}: {says}")
        return Finding(False, "wrong-number", f"{field}: the inputs of the case give another number; work it out in the two steps before")
    return None


def _words(verdict: Mapping[str, object]) -> Finding | None:
    itl, floor, bandwidth, baseline, label, step = (
        " ".join(_clauses(str(verdict[key]).replace("-", " ")))
        for key in ("itl_slo", "floor_is", "bandwidth", "baseline", "label", "next_step")
    )
    unknown = re.search(
        r"not (?:yet )?(?:been )?(?:shown|proven|known|measured|evaluable|established|determined|demonstrated|decided)|unknown|unmeasured|unproven|undetermined|"
        r"not evaluated|no (?:evidence|data|measurement|violation (?:is |was |has been )?(?:shown|proven|established|demonstrated))|can ?not (?:be )?(?:tell|say|known|conclude|decided)|can t (?:tell|say|know)|nobody (?:knows|measured)|open|unclear|"
        r"insufficient|not enough|remains to be|to be measured|doesn t (?:show|prove)|does not (?:show|prove)",
        itl,
    )
    if not unknown:
        if re.search(r"\b(not|no|isn t|never|met|meets|within|ok|fine|holds|safe|kept)\b", itl):
            return Finding(False, "claims-no-violation", "itl_slo: nobody measured that either; a baseline with room to spare is not the proposal's tail")
        return Finding(False, "claims-violation", "itl_slo: this claims that a target is missed; a floor for one request is no tail percentile")
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
    if not re.search(r"chunk|batched tokens|chunked prefill", baseline) or not re.search(
        r"tun(?:e|ed|ing)|swe(?:pt|ep)|best|optimi[sz]|well chosen|calibrat|search|picked|selected|adjust", baseline
    ):
        return Finding(False, "untuned-baseline", "baseline: name the design, and what must be turned on it before the comparison is fair")
    labels = [word for word in ("hypothetical", "published", "simulated", "measured") if re.search(rf"\b{word}\b", label) and not re.search(rf"\b(not|never|un) ?{word}\b", label)]
    if labels != ["hypothetical"]:
        return Finding(False, "label-wrong", "label: where do the inputs come from: a paper, a simulator, a run, or an assumption?")
    if not re.search(r"sweep|benchmark|end to end|load test|measur|run both|experiment|replay|a/b|trial", step):
        return Finding(False, "no-next-step", "next_step: what run, of which designs, would turn a floor into evidence?")
    return None
