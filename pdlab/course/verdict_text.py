"""What the freely written fields of notebook 09's verdict say: the decision, the target, and any claim.

A claim counts only where its own clause does not deny or doubt it.  A text is accepted where it plainly
says the right thing, called an overclaim only where it plainly is one, and else asked for in plain words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pdlab.course.finding import Finding

NOT_ADDED = "the extra time of one request was added to a P95; a percentile of many gaps does not move by one request's floor"

# ── what a text claims ──────────────────────────────────────────────────────────────────────

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


def clauses(text: str) -> list[str]:
    """The clauses of a text, in lower case, without apostrophes and underscores."""
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
        for clause in clauses(text)
    )


MEASURE = re.compile(r"sweep|benchmark|end to end|load test|measur|run both|experiment|replay|a/b|trial|under load|side by side")
_SAYS_ADOPTS = (
    "this adopts the change; what was shown is a floor for one request, and that is not what a deployment is chosen by"
)


def claims(verdict: Mapping[str, object]) -> Finding | None:
    """An adoption, a missed target or a floor added to a percentile, claimed in any field."""
    for field in ("decision", "next_step", "because"):
        text = str(verdict[field])
        # To deploy both designs for a sweep is a measurement, not an adoption.
        if field != "decision" and _asserts(text, _ADOPT) and not (field == "next_step" and MEASURE.search(text.lower())):
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
            return Finding(False, "floor-as-percentile", f"{field}: {NOT_ADDED}")
    return None


def _adds_floor_to_percentile(text: str) -> bool:
    return any(
        _SUMMED_TAIL.search(clause)
        or (_OF_MANY.search(clause) and _MOVES.search(clause) and _BY_MS.search(clause))
        or (
            re.search(r"\b(floor|hand ?-?off|10\.83\d*|8\.83\d*)", clause)
            and re.search(r"\b(is|as|becomes|equals|gives|means) (?:a |an |the |our )*(?:new )?(p ?95|tail|percentile|mean|average|median)\b", clause)
        )
        for clause in clauses(text)
        if not _DENIED.search(clause)
    )


# ── the decision ────────────────────────────────────────────────────────────────────────────

# An adoption counts as refused only where one refusal stands before it, and as given only where
# nothing refuses or conditions it: whatever lies between is asked for again in plain words.

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


def decision(verdict: Mapping[str, object]) -> Finding | None:
    """A decision that adopts, rejects outright, or cannot be read."""
    said = clauses(str(verdict["decision"]))
    refuses = {_read_adoption(clause) for clause in said if _ADOPT.search(clause)}
    if False in refuses or any(re.fullmatch(r"(?:yes|ok|okay|agreed?|i agree|support(?:ed)?|i support it|fine)", clause) for clause in said):
        return Finding(False, "adopts", f"decision: {_SAYS_ADOPTS}")
    if None in refuses or any(_NEITHER_WAY.search(clause) for clause in said):
        return Finding(False, "unclear-decision", _SAYS_UNCLEAR)
    if True in refuses or any(_INSUFFICIENT.search(clause) for clause in said):
        return None
    # "reject", with the lack of evidence given as the reason, is the same verdict.
    if any(_OUTRIGHT.search(clause) for clause in said):
        if any(re.search(r"evidence|unmeasured|not (?:been )?measured|no sweep", clause) for clause in said):
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


# ── what is known of the target: met, missed, or neither shown ──────────────────────────────

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


def itl(verdict: Mapping[str, object]) -> Finding | None:
    """A P95 ITL said to be met or missed, or a text that says neither that nor *not shown*."""
    unknown, claim = False, ""
    for clause in clauses(str(verdict["itl_slo"]).replace("-", " ")):
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
