"""Notebook 09's plan, repaired: what counts as tuned, and what a plan that is refused shows."""

from __future__ import annotations

import pytest

from pdlab.course import repair


def changes(sizes: object, rule: str = "local-below:2048") -> dict[str, object]:
    return {"deployments.disaggregated.routing": rule, "live.max_num_batched_tokens": sizes}


@pytest.mark.parametrize(("sizes", "kind"), [([512, 2048], ""), ([2048, 8192], ""), ([4096, 8192], "untuned-baseline"), ([512, 512], "untuned-baseline")])
def test_sizes_that_never_cut_a_prompt_are_no_tuning(sizes: list[int], kind: str) -> None:
    """Of the sizes at least one is below the longest prompt, which is 4,096 tokens here."""
    found = repair.judge(changes(sizes))
    assert (found.ok, found.kind or "") == (not kind, kind)


@pytest.mark.parametrize("wrong", [changes("512, 1024"), changes(["512", "1024"]), changes([512, 1024], "local-below"), changes({512: object()}), {"live.chunk": 1}])
def test_a_refused_plan_is_told_in_one_line(wrong: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback and no temporary folder: one line that begins with the plan check."""
    repair.try_out(wrong)
    out = capsys.readouterr().out
    assert out.startswith("plan check: refused. ") and out.count("\n") == 1
    assert "/" not in out.split("found")[0]
