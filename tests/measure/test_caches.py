"""A run's cache label against what its servers and rows counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pdlab.errors import BadInput
from pdlab.live.env import ROOT
from pdlab.measure import caches, records
from pdlab.measure.compare import Check, compare
from tests.measure.runs import answer, run

RUNS = ROOT / "data/runs"
GPUS = {"budget": {"count": 2, "unit": "core"}}


def looks(directory: Path, *rows: tuple[str, int, int, int]) -> Path:
    """A metrics file of (server, t_ns, tokens computed, tokens hit)."""
    lines = [{"server": server, "t_ns": at, caches.COUNTER.format(caches.COMPUTED): float(computed),
              caches.COUNTER.format(caches.HIT): float(hit)} for server, at, computed, hit in rows]  # fmt: skip
    directory.mkdir(exist_ok=True)
    (directory / caches.SERVER_METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def side(directory: Path | None = None, state: str = "cold", **more) -> records.Run:
    made = run([answer(i, **more) for i in range(100)], summary=GPUS, cache_state=state, workload="trace.jsonl")
    return replace(made, directory=directory)


def cache_check(a: records.Run, b: records.Run) -> Check:
    return next(check for check in compare(a, b).checks if check.name == "same_cache_state")


def test_growth_is_counted_server_by_server_and_session_by_session(tmp_path: Path) -> None:
    """What was there before the run, and new servers after a cut, are not counted as growth."""
    found = caches.counted(looks(
        tmp_path, ("p", -5, 1000, 500), ("d", -4, 0, 70), ("p", 10, 1100, 500), ("d", 11, 0, 72),
        ("p", -5, 64, 0), ("p", 20, 164, 1),
    ))  # fmt: skip
    assert found == caches.PromptTokens(computed=200, hit=3)


def test_failed_looks_are_passed_over(tmp_path: Path) -> None:
    """A look that failed counts nothing; a server seen once says nothing."""
    assert caches.counted(None) is None and caches.counted(tmp_path) is None
    directory = looks(tmp_path, ("a", 0, 10, 0))
    assert caches.counted(directory) is None
    with (directory / caches.SERVER_METRICS).open("a") as out:
        out.write('{"t_ns": 5, "server": "a", "error": "timed out"}\n')
        out.write('{"t_ns": 9, "server": "a", "prompt_tokens_by_source_total[local_compute]": 30.0, "prompt_tokens_by_source_total[local_cache_hit]": 0.0}\n')
    assert caches.counted(directory) == caches.PromptTokens(20, 0)


@pytest.mark.parametrize(
    "line",
    ['{"server": "a"', "[]", '{"server": "a"}', "\xff", "[" * 100_000, '{"server": "a", "t_ns": NaN}',
     f'{{"server": "a", "t_ns": 1, "{caches.COUNTER.format(caches.HIT)}": "x"}}'],
)  # fmt: skip
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    """A line that is no look is bad input, with its file and number."""
    (tmp_path / caches.SERVER_METRICS).write_bytes(line.encode("latin-1") + b"\n")
    with pytest.raises(BadInput, match="server_metrics.jsonl, line 1"):
        caches.counted(tmp_path)


def test_a_cold_run_with_hits_is_refused(tmp_path: Path) -> None:
    """Labelled cold, but some prompt tokens came out of a prefix cache: no ratio."""
    cold = looks(tmp_path / "cold", ("a", 0, 0, 0), ("a", 9, 5000, 0))
    not_cold = looks(tmp_path / "not", ("a", 0, 0, 0), ("a", 9, 4000, 1000))
    assert cache_check(side(cold), side(cold)).result == "pass"
    found = cache_check(side(cold), side(not_cold))
    assert found.result == "fail" and "B: 1,000 of 5,000 prompt tokens" in found.detail
    assert cache_check(side(not_cold), side(cold, cached_tokens=0)).result == "fail"
    assert not compare(side(cold), side(not_cold)).valid


def test_a_warm_run_without_hits_is_refused(tmp_path: Path) -> None:
    """Labelled warm, but nothing came out of a cache: the caches were not warm."""
    warm = looks(tmp_path / "warm", ("a", 0, 0, 0), ("a", 9, 3000, 2000))
    empty = looks(tmp_path / "empty", ("a", 0, 0, 0), ("a", 9, 5000, 0))
    assert cache_check(side(warm, "warm"), side(warm, "warm")).result == "pass"
    assert cache_check(side(warm, "warm"), side(empty, "warm")).result == "fail"
    assert cache_check(side(warm, "warm"), side(state="warm", cached_tokens=0)).result == "fail"


def test_a_label_alone_is_no_evidence(tmp_path: Path) -> None:
    """Where a run kept nothing to see it by, the gate says so and passes nobody."""
    cold = looks(tmp_path, ("a", 0, 0, 0), ("a", 9, 5000, 0))
    found = cache_check(side(cold), side())
    assert found.result == "not_carried" and "B: nothing kept" in found.detail


def test_a_resumed_run_gets_no_ratio() -> None:
    """A run that was cut in the middle and went on is refused, with what to do."""
    whole = side(cached_tokens=0)
    cut = replace(whole, provenance=whole.provenance | {"summary": GPUS | {"resumed": True}})
    found = compare(whole, cut)
    (failed,) = [check for check in found.checks if check.result == "fail"]
    assert failed.name == "same_trace" and failed.detail.startswith("B stopped half-way") and not found.valid
    assert all(row.ratio is None for row in found.rows)


@pytest.mark.parametrize(("sweep", "rates"), [("miniature", (1.5, 3, 4.5)), ("short-prompt", (1, 2, 4))])
def test_recorded_cold_runs_were_cold(sweep: str, rates: tuple[float, ...]) -> None:
    """Every recorded cold run's servers counted prompt tokens, and not one of them from a cache."""
    for rate in rates:
        pair = [records.read_run(RUNS / sweep / f"{design}-cold-{rate:g}rps") for design in ("aggregated", "disaggregated")]
        tokens = [caches.counted(one.directory) for one in pair]
        assert all(one and one.computed == sum(two.table["prompt_tokens"].to_pylist()) and one.hit == 0
                   for one, two in zip(tokens, pair, strict=True))  # fmt: skip
        checks = {check.name: check for check in compare(*pair).checks}
        assert checks["same_cache_state"].result == "pass" and " 0 of " in checks["same_cache_state"].detail
        assert checks["same_trace"].result == "pass"


def test_recorded_warm_runs_were_warm() -> None:
    """Every recorded warm run found prompt tokens in a cache."""
    found = [caches.counted(path.parent) for path in (RUNS / "routing").glob(f"*/{caches.SERVER_METRICS}")]
    assert len(found) == 6 and all(one and one.hit > 1000 for one in found)
