"""Marking the proposal's claims: every honest spelling is read, every wrong mark has its own explanation."""

import pytest

from pdlab.course.claims import CLAIMS, MARKS, judge_evidence, judge_marks

TRUE = {number: claim.mark for number, claim in CLAIMS.items()}
LINES = {number: claim.evidence for number, claim in CLAIMS.items() if claim.evidence}

HONEST = [
    TRUE,
    list(TRUE.values()),
    tuple(TRUE.values()),
    {str(number): mark for number, mark in TRUE.items()},
    {f"claim {number}": mark for number, mark in TRUE.items()},
    {number: mark.upper() for number, mark in TRUE.items()},
    {number: f" {mark}. " for number, mark in TRUE.items()},
    {number: mark[0] for number, mark in TRUE.items()},
    {number: f"{mark} ({CLAIMS[number].evidence})" for number, mark in TRUE.items()},
    dict(reversed(TRUE.items())),
    *(TRUE | {1: word} for word in ("true", "Holds", True, "shown", "yes", "is supported")),
    *(TRUE | {4: word} for word in ("not supported", "un-supported", "unproven", "no evidence", "not shown", "insufficient evidence", "unknown", "can't tell")),
    *(TRUE | {3: word} for word in (False, "wrong", "contradicted", "refuted", "ruled out", "not true")),
]

WRONG = [
    *((TRUE | {number: mark}, f"{mark}-too-soon") for number, claim in CLAIMS.items() for mark in MARKS if mark != claim.mark),
    *((TRUE | {number: "nonsense"}, "unknown-mark") for number in CLAIMS),
    *(({k: v for k, v in TRUE.items() if k != number}, "mark-missing") for number in CLAIMS),
    (dict.fromkeys(CLAIMS, "supported"), "supported-too-soon"),
    (dict.fromkeys(CLAIMS, "unsupported"), "unsupported-too-soon"),
    (dict.fromkeys(CLAIMS, "false"), "false-too-soon"),
    (TRUE | {9: "false"}, "form"),
    (list(TRUE.values())[:-1], "form"),
    ("unsupported", "form"),
    (3, "form"),
    (TRUE | {2: ...}, "mark-missing"),
    (TRUE | {2: None}, "mark-missing"),
    (TRUE | {2: 1.5}, "unknown-mark"),
    (TRUE | {2: "supported and false"}, "unknown-mark"),
    *((TRUE | {1: f"supported {more}"}, "unknown-mark") for more in ("(not at all)", "by nothing", "(E1)? no")),
    *((TRUE | {4: f"{less} unsupported"}, "unknown-mark") for less in ("not", "anything but", "no longer")),
]


def test_the_lists_are_as_long_as_promised():
    """At least 25 right markings and 40 wrong ones are tried."""
    assert len(HONEST) >= 25
    assert len(WRONG) >= 40


@pytest.mark.parametrize("marks", HONEST, ids=str)
def test_honest_markings_pass(marks):
    """A mark counts whatever its spelling, and a list counts as well as a mapping."""
    marking = judge_marks(marks)
    assert marking.ok, (marking.kind, marking.says)


@pytest.mark.parametrize(("marks", "kind"), WRONG, ids=str)
def test_wrong_markings_are_named(marks, kind):
    """Each wrong mark is named with its kind and explained without giving the right one."""
    marking = judge_marks(marks)
    assert (marking.ok, marking.kind) == (False, kind), marking.says


@pytest.mark.parametrize("number", CLAIMS)
def test_an_explanation_does_not_name_the_right_mark(number):
    """What is said about a wrong mark leaves the learner to find the right one."""
    claim = CLAIMS[number]
    assert set(claim.wrong) == set(MARKS) - {claim.mark}
    assert not any(mark in says.lower().split() for says in claim.wrong.values() for mark in MARKS)


@pytest.mark.parametrize("form", [str, str.lower, lambda e: f"line {e}", lambda e: int(e[1])])
def test_evidence_is_read_in_any_form(form):
    """E1, e1, line E1 and 1 name the same line."""
    assert judge_evidence({number: form(line) for number, line in LINES.items()}).ok


@pytest.mark.parametrize("number", LINES)
def test_another_line_of_evidence_is_told(number):
    """Pointing at a line that is about something else is not yet right."""
    other = "E1" if LINES[number] != "E1" else "E2"
    marking = judge_evidence(LINES | {number: other})
    assert marking.kind == "other-line" and marking.says.startswith(f"{len(LINES) - 1} of {len(LINES)} are right.")


@pytest.mark.parametrize(("lines", "kind"), [(LINES | {1: "E9"}, "unknown-line"), (LINES | {4: "E1"}, "form"), ({}, "mark-missing"), ("E1", "form")])
def test_evidence_in_no_known_form_is_told(lines, kind):
    """A line that does not exist, a claim that has none, an empty answer."""
    assert judge_evidence(lines).kind == kind
