"""What aggregated serving is tuned to: the rule, what no size reached, and that it is said again later."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pdlab.live import sweep, tuned
from pdlab.live.env import ROOT
from pdlab.measure import plan as plans
from pdlab.measure import records

sys.path.append(str(Path(__file__).parent / "measure"))
from runs import answer, run  # noqa: E402

PLAN = plans.load(ROOT / "data/plans/miniature-2core.yaml")  # TTFT 2000 ms, TPOT 100 ms, longest gap 250 ms, 90 % of all
GOOD, LATE, SLOW, STUCK = {}, {"ttft_ms": 2100}, {"gap_ms": 120}, {"gap_ms": 300}  # a gap of 300 ms misses TPOT, too


def chosen(folder: Path, sizes: dict[int, list[dict]]) -> tuned.Choice:
    """The choice among runs made of such answers."""
    for size, answers in sizes.items():
        records.write_run(folder / str(size), run([answer(i, **how) for i, how in enumerate(answers)]).table, run([]).provenance)
    return tuned.choose(PLAN, {size: folder / str(size) for size in sizes})


def test_the_size_with_the_most_good_requests_is_chosen_and_the_others_misses_are_counted(tmp_path: Path) -> None:
    """By target and of all offered; the gate is the plan's own, which 90 of 100 pass and 89 do not."""
    choice = chosen(tmp_path, {64: [GOOD] * 90 + [LATE] * 10, 128: [GOOD] * 89 + [SLOW] * 6 + [STUCK] * 3 + [{"status": "timeout"}] * 2})
    assert choice.chunk_tokens == 64 and choice.met and [one.gate for one in choice.tried] == ["pass", "fail"]
    assert choice.tried[0].missed == {"unanswered": 0, "ttft": 10, "tpot": 0, "gap": 0}
    assert choice.tried[1].missed == {"unanswered": 2, "ttft": 0, "tpot": 9, "gap": 3}
    assert "PASSED" not in "\n".join(choice.lines())
    tuned.keep(tmp_path, choice)
    assert tuned.chosen(tmp_path, lambda told: pytest.fail(told)) == 64 and tuned.warning(tmp_path) is None


def test_a_size_without_a_gap_comes_last_among_equals(tmp_path: Path) -> None:
    """Answers of one token have no gap: no p99 is no good p99.  Of the others the lower one is taken."""
    one_token = [{"tokens": 1}] * 40
    assert chosen(tmp_path, {64: one_token, 128: [SLOW] * 40, 512: [STUCK] * 40}).chunk_tokens == 128
    assert chosen(tmp_path, {64: [LATE] * 40, 128: [LATE | {"gap_ms": 9}] * 40}).chunk_tokens == 128


@pytest.mark.parametrize(("answers", "words"), [([GOOD] * 80 + [LATE] * 20, "what the rule gives"), ([STUCK] * 50, "no better than the others")])
def test_a_choice_among_sizes_that_all_fail_is_said_then_and_later(tmp_path: Path, answers: list[dict], words: str) -> None:
    """The table comes with a line in capitals; who takes the choice up later hears it again, and a lab without the size."""
    choice = chosen(tmp_path, {64: answers, 128: answers})
    said = list(choice.lines())
    assert not choice.met and choice.told_apart == (len(answers) == 100) and len(said) == 2 + 2 + 2
    assert said[-2].startswith("NO CHUNK SIZE PASSED the attainment gate at 4.5 requests/s") and words in said[-1]
    tuned.keep(tmp_path, choice)
    heard: list[str] = []
    assert tuned.chosen(tmp_path, heard.append) == choice.chunk_tokens
    assert heard == [f"{said[-2]} It has chunks of {choice.chunk_tokens} tokens ({tmp_path / tuned.CHOICE})."]
    assert tuned.warning(tmp_path) == said[-2] and str(choice.chunk_tokens) not in said[-2]


def test_the_recorded_choice_follows_from_its_runs(tmp_path: Path) -> None:
    """choice.json of the miniature is what the program makes of the runs beside it."""
    out = ROOT / "data/runs/miniature"
    tuned.keep(tmp_path, tuned.choose(PLAN, sweep.tuning_runs(PLAN, out)))
    assert json.loads((tmp_path / tuned.CHOICE).read_text()) == json.loads((out / sweep.TUNING / tuned.CHOICE).read_text())
