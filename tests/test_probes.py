"""A function that is wrong on inputs which its text allows is not called right."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import pytest

from pdlab.course import checks, exercises
from pdlab.course.source import sources
from pdlab.measure import slo

WRONG = {
    "ends in the list's order": ("7.8", lambda s, e: sum(b - a for a, b in zip(s, e)) / (e[-1] - s[0])),
    "the last end": ("7.8", lambda s, e: sum(b - a for a, b in zip(s, e)) / (e[-1] - min(s))),
    "the first start": ("7.8", lambda s, e: sum(b - a for a, b in zip(s, e)) / (max(e) - s[0])),
    "one frame, no TPOT": ("6.4", lambda ms, n: (ms[-1] - ms[0]) / (sum(n) - 1) if len(ms) > 1 else "undefined"),
    "points as they come": ("7.2", lambda p: next((a for (a, _), (_, v) in zip(p, p[1:]) if v != "pass"), max([r for r, _ in p], default=0))),
    "lowest rate is the first": ("7.2", lambda p: 0 if p and p[0][1] != "pass" else max([r for r, v in p if v == "pass"], default=0)),
    "some point is there": ("7.2", lambda p: max(r for r, v in p if v == "pass" and all(w == "pass" for s, w in p if s < r))),
    "failures before it in the list": ("L2.7", lambda p: max([r for i, (r, ok) in enumerate(p) if all(k for _, k in p[: i + 1])], default=0)),
    "middle of the sizes": ("L1.2", lambda m: sorted(s for s, _ in m)[len(m) // 2] / sorted(n for _, n in m)[len(m) // 2]),
    "complete alone": ("L3.2", lambda status, tokens, complete, most: not complete),
    "all that follows": ("L3.6", lambda r, h: max(0, len(r) - next((i for i, (a, b) in enumerate(zip(r, h)) if a != b), len(r)))),
    "exactly two attempts": ("L3.7", lambda t, a, s, p: "give up" if t or a == 2 or (s or 0) // 100 == 4 else "another prefill" if p else "local"),
    "two statuses": ("L3.7", lambda t, a, s, p: "give up" if t or a > 1 or s in (400, 422) else "another prefill" if p else "local"),
    "a block off whenever it fits": ("L4.2", lambda p, h, b: max(0, min(h, p // b) - (p % b == 0)) * b),
    "held unless it is all": ("L4.2", lambda p, h, b: h * b if h * b < p else p - b),
    "sizes sorted": ("L5.6", lambda sizes, bounds: sum((a + b) / 2 for a, b, s in zip([0, *bounds], bounds, sizes) if a < s <= b)),
}  # fmt: skip


@pytest.mark.parametrize("why", WRONG)
def test_a_wrong_function_is_not_called_right(why: str) -> None:
    """Unsorted input, ties, one element and none, where the text allows them, tell a wrong function from a right one."""
    name, wrong = WRONG[why]
    assert checks.evaluate(name, wrong).outcome == "not yet"


def analysed(points: list[tuple[int, str]]) -> float:
    """What the analyser states of such verdicts; 0 where it states none."""
    reports = [(rate, SimpleNamespace(verdict=verdict, gates=[slo.Gate("slo_attainment", None, 0.95, verdict)])) for rate, verdict in points]
    return slo.capacity(reports).rate_rps or 0


def test_capacity_has_one_definition() -> None:
    """The functions of 7.2 and L2.7 state what the analyser states, on every list of up to four verdicts in any order."""
    with_doubt, plain = exercises.reference(exercises.find("7.2")), exercises.reference(exercises.find("L2.7"))
    seen = 0
    for count in range(5):
        for verdicts in itertools.product(("pass", "fail", "not_evaluable"), repeat=count):
            points = list(zip((4, 1, 8, 2), verdicts))
            assert with_doubt(points) == analysed(points), points
            if "not_evaluable" not in verdicts:
                assert plain([(rate, verdict == "pass") for rate, verdict in points]) == analysed(points), points
            seen += 1
    assert seen == 1 + 3 + 9 + 27 + 81


def test_capacity_is_defined_in_the_same_words() -> None:
    """Notebook 06 says what capacity is and when there is none; 07 and lab L2 say the first in the same words, and name 06."""
    what = "the highest *tested* rate that passes every gate, with nothing but passes below it."
    none = (
        "None can be stated where a rate passes above one that fails, or where a rate can't be judged and no lower one fails: "
        "those runs are repeated first."
    )
    pages = {one.number: one.path.read_text(encoding="utf-8") for one in sources(exercises.folder().parents[1])}
    said = {number: line for number, page in pages.items() for line in page.splitlines() if what in line}
    assert list(said) == ["06", "07", "L2"] and none in said["06"]
    assert all(line.startswith("**Capacity** is ") and "notebook 06" in line for number, line in said.items() if number != "06")


def test_one_line_of_the_routers_log_breaks_the_rules() -> None:
    """In 8.7's log every line but the asked one is what 8.8's rule chooses, and no line rests on a tie."""
    (page,) = (one.path.read_text(encoding="utf-8") for one in sources(exercises.folder().parents[1]) if one.number == "08")
    choose, broken = exercises.reference(exercises.find("8.8")), []
    lines = re.findall(r"^\| (\d) \| (d\d) \| (\d+) \| [\d,]+ \| (\d) \| (.*) \|$", page, re.M)
    for line, chosen, running, rack, others in lines:
        load, racks = {chosen: int(running)}, {chosen: int(rack)}
        for name, busy, place in re.findall(r"(d\d) \((\d+), [\d,]+, (\d)\)", others):
            load[name], racks[name] = int(busy), int(place)
        assert len(set(load.values())) == len(load) > 1
        broken += [int(line)] * (choose(load, racks, 1, "required") != chosen)
    assert len(lines) == 4 and broken == [exercises.find("8.7").expected]
