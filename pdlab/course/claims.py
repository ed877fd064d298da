"""The claims of notebook 09's proposal: their marks, the evidence that decides, and what a wrong mark says.

A mark is one of three words.  People write them in many ways, and hand them over as a mapping or
as a list in order; all honest ways are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdlab.course.finding import Finding

MARKS = ("supported", "unsupported", "false")


@dataclass(frozen=True, slots=True)
class Claim:
    """``mark`` and the line of evidence that decides it; ``wrong`` explains each other mark."""

    says: str
    mark: str
    evidence: str
    wrong: Mapping[str, str]


CLAIMS: dict[int, Claim] = {
    1: Claim(
        "98 MB of KV cache", "supported", "E1",
        {
            "unsupported": "E1 lets you compute this one; do it",
            "false": "compute it from E1, and mind MB against MiB",
        },
    ),
    2: Claim(
        "the hand-off takes 7.9 ms", "false", "E2",
        {
            "supported": "that is the link's peak at work; what does the platform team get on the same link?",
            "unsupported": "there is more than silence here: one line of evidence rules this number out",
        },
    ),
    3: Claim(
        "the aggregated fleet misses its target", "false", "E3",
        {
            "supported": "put the two figures of E3 side by side",
            "unsupported": "there is more than silence here: E3 has both figures it takes",
        },
    ),
    4: Claim(
        "P95 ITL becomes 33 ms", "unsupported", "",
        {
            "supported": "a typical delay was taken off a percentile; who measured the result?",
            "false": "it may even come true; does any line contradict it?",
        },
    ),
    5: Claim(
        "7.4 times, so fewer GPUs", "unsupported", "E4",
        {
            "supported": "the figure is quoted well; is our baseline the one it was measured against?",
            "false": "we may end up with fewer GPUs; does any line say that we will not?",
        },
    ),
    6: Claim(
        "vLLM ships it to raise throughput", "false", "E5",
        {
            "supported": "read what the documentation says about throughput",
            "unsupported": "there is more than silence here: the project itself speaks of it",
        },
    ),
    7: Claim(
        "16 GPUs each, so the same cost", "unsupported", "E6",
        {
            "supported": "what else costs, besides the number of GPUs?",
            "false": "they may well cost the same; what an equal count leaves open is not thereby refuted",
        },
    ),
    8: Claim(
        "chunk size has no influence", "false", "E7",
        {
            "supported": "E7 holds a case in which it had",
            "unsupported": "'no influence' is a claim about every case; one case against it is enough",
        },
    ),
}

_WORDS = {
    "supported": r"(well |is )?supported|true|holds|shown|carried|right|correct|yes|s",
    "unsupported": r"(is )?(unsupported|un supported|not supported)|unproven|not (shown|proven|carried|measured)|no evidence|insufficient( evidence)?|unknown|undecided|unclear|open|may be true|can t tell|u",
    "false": r"(is )?(false|wrong|contradicted|refuted|untrue|ruled out|not true|disproved|disproven|incorrect)|f",
}


def read_mark(value: object) -> str | None:
    """One of the three marks, or None where no mark can be read."""
    if isinstance(value, bool):
        return "supported" if value else "false"
    if not isinstance(value, str):
        return None
    text = re.sub(r"\be[1-7]\b", " ", value.lower().replace("'", " ").replace("-", " ").replace("_", " "))
    text = " ".join(re.sub(r"[^a-z ]", " ", text).split())
    return next((mark for mark, words in _WORDS.items() if re.fullmatch(words, text)), None)


def read_evidence(value: object) -> str | None:
    """``"E1"`` to ``"E7"`` from ``"e1"``, ``"E 1"``, ``1`` or ``"line E1"``."""
    if isinstance(value, bool):
        return None
    match = re.fullmatch(r"(?:line |evidence )?e? ?([1-7])", str(value).strip().lower())
    return f"E{match[1]}" if match else None


def _keyed(value: object, keys: Sequence[int]) -> dict[int, object] | str:
    if isinstance(value, Mapping):
        found = {}
        for key, mark in value.items():
            digits = re.fullmatch(r"(?:claim )?(\d)", str(key).strip().lower())
            if not digits or int(digits[1]) not in keys:
                return f"there is no claim {key!r} here; the claims are {', '.join(map(str, keys))}"
            found[int(digits[1])] = mark
        return found
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != len(keys):
            return f"{len(value)} marks for {len(keys)} claims"
        return dict(zip(keys, value, strict=True))
    return f"give a mapping from claim to mark; this is a {type(value).__name__}"


def _open(mark: object) -> bool:
    return mark is None or mark is ... or mark == ""


def judge_marks(value: object) -> Finding:
    """Compare marks with the evidence; the first wrong one is explained."""
    total = len(CLAIMS)
    marks = _keyed(value, list(CLAIMS))
    if isinstance(marks, str):
        return Finding(False, "form", marks)
    read = {number: read_mark(mark) for number, mark in marks.items() if not _open(mark)}
    right = sum(read.get(number) == claim.mark for number, claim in CLAIMS.items())
    for number, claim in CLAIMS.items():
        if number not in read:
            return Finding(False, "mark-missing", f"{right} of {total} are right so far. Claim {number} has no mark yet")
        mark = read[number]
        if mark is None:
            return Finding(False, "unknown-mark", f"claim {number}: {marks[number]!r} is none of the three marks: {', '.join(MARKS)}")
        if mark != claim.mark:
            return Finding(False, f"{mark}-too-soon", f"{right} of {total} are right. Claim {number} ({claim.says}): {claim.wrong[mark]}")
    return Finding(True)


def judge_evidence(value: object) -> Finding:
    """Compare the deciding line named for each claim; claim 4 has none."""
    keys = [number for number, claim in CLAIMS.items() if claim.evidence]
    total = len(keys)
    lines = _keyed(value, keys)
    if isinstance(lines, str):
        return Finding(False, "form", lines)
    read = {number: read_evidence(line) for number, line in lines.items() if not _open(line)}
    right = sum(read.get(number) == CLAIMS[number].evidence for number in keys)
    for number in keys:
        if number not in read:
            return Finding(False, "mark-missing", f"{right} of {total} are right so far. Claim {number} has no line yet")
        if read[number] is None:
            return Finding(False, "unknown-line", f"claim {number}: {lines[number]!r} is no line of evidence; they are E1 to E7")
        if read[number] != CLAIMS[number].evidence:
            return Finding(
                False, "other-line",
                f"{right} of {total} are right. Claim {number} ({CLAIMS[number].says}): {read[number]} is about something else; which line would you read out to the author?",
            )  # fmt: skip
    return Finding(True)
