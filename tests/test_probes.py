"""A function that is wrong on inputs which its text allows is not called right."""

from __future__ import annotations

import pytest

from pdlab.course import checks

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
