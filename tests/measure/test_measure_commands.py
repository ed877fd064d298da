"""The commands analyze, compare and plan check: output, exit status, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdlab.course import cli
from pdlab.measure import records
from tests.measure.runs import answer, cohort, run
from tests.shared import shared_data

PLAN = str(Path(__file__).parents[2] / "data" / "plans" / "reference-16gpu.yaml")


def save(directory, a_run):
    """Write a run directory; returns its path as text."""
    return str(records.write_run(directory, a_run.table, a_run.provenance))


@pytest.fixture
def good(tmp_path):
    """A run that passes every gate."""
    budget = {"budget": {"count": 16, "unit": "GPU"}}
    return save(tmp_path / "good", run([answer(i) for i in range(100)], summary=budget, cache_state="cold"))


def test_analyze_json(tmp_path, capsys):
    """The JSON document has the keys that others rely on; a failed gate gives status 1."""
    assert cli.main(["analyze", save(tmp_path / "c", cohort()), "--plan", PLAN, "--json"]) == 1
    d = json.loads(capsys.readouterr().out)
    assert (d["offered"], d["succeeded"], d["failed"], d["error_rate"]) == (100, 95, 5, 0.05)
    for latency in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        assert {"mean", "p50", "p95", "p99", "max"} <= set(d[latency])
    assert {"all_offered", "successful", "interval"} <= set(d["joint_attainment"])
    assert {"throughput_rps", "goodput_rps", "dispatch_lag_ms", "queue_trend", "verdict"} <= set(d)
    assert {g["result"] for g in d["gates"]} <= {"pass", "fail", "not_evaluable"}
    assert all({"name", "value", "limit", "result"} <= set(g) for g in d["gates"])
    assert d["verdict"] == "fail" and d["judged_by"] == PLAN


def test_analyze_text(good, capsys):
    """The table names its label, its judge and its verdict; a pass gives status 0."""
    assert cli.main(["analyze", good]) == 0
    out = capsys.readouterr().out
    assert "[hypothetical; tests]" in out and "verdict: pass, judged by reference plan" in out


def test_analyze_several(good, tmp_path, capsys):
    """Several results come as one document, and one that fails gives status 1."""
    both = ["analyze", good, save(tmp_path / "c", cohort()), "--json"]
    assert cli.main([*both, "--exit-zero"]) == 0
    capsys.readouterr()
    assert cli.main(both) == 1
    assert [r["verdict"] for r in json.loads(capsys.readouterr().out)["results"]] == ["pass", "fail"]


@pytest.mark.parametrize("name", ["vllm-bench.json", "guidellm.json", "aiperf.jsonl"])
def test_analyze_other_tools(name, capsys):
    """Results of three real tools are analysed as they are; what can't be known is said."""
    assert cli.main(["analyze", str(shared_data(f"tool-results/{name}")), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["offered"] == 40
    cli.main(["analyze", str(shared_data(f"tool-results/{name}"))])
    assert "can't be" in capsys.readouterr().out


def test_analyze_a_sweep(tmp_path, capsys):
    """A sweep gives capacity for each design and cache state."""
    entries = []
    for design, worst in (("aggregated", 4), ("disaggregated", 2)):
        for rate in (1, 2, 4):
            name = f"{design}-{rate}"
            rows = [answer(i, sent_ms=1000 * i / rate, ttft_ms=50 if rate < worst else 9000) for i in range(100)]
            save(tmp_path / name, run(rows, design=design, cache_state="cold"))
            entries.append(records.SweepEntry(name, design, "cold", rate, tmp_path / name))
    records.write_sweep(tmp_path, "p.yaml", entries)
    assert cli.main(["analyze", str(tmp_path), "--json"]) == 0
    d = json.loads(capsys.readouterr().out)
    assert {c["design"]: c["rate_rps"] for c in d["capacity"]} == {"aggregated": 2, "disaggregated": 1}
    assert cli.main(["analyze", str(tmp_path)]) == 0
    assert "2 requests/s passes, 4 fails" in capsys.readouterr().out


def test_analyze_damaged(good, capsys):
    """A damaged file is bad input with its row group; --partial reads what is whole."""
    file = Path(good) / records.PARQUET
    file.write_bytes(file.read_bytes()[:300])
    assert cli.main(["analyze", good]) == 2
    assert "row group 0" in capsys.readouterr().err
    assert cli.main(["analyze", good, "--partial"]) == 1
    assert "offered 0" in capsys.readouterr().out


@pytest.mark.parametrize("args", [["analyze", "nowhere"], ["plan", "check", "nowhere"], ["compare", "nowhere", "nowhere"]])
def test_bad_input(args, capsys):
    """Bad input is one message on stderr and status 2, without a traceback."""
    assert cli.main(args) == 2
    err = capsys.readouterr().err
    assert err.startswith("pdlab ") and "expected" in err and "Traceback" not in err


def test_compare(good, tmp_path, capsys):
    """A valid pair gives ratios and status 0; an invalid one names the gate and gives 1."""
    assert cli.main(["compare", good, good]) == 0
    assert "1.000" in capsys.readouterr().out
    assert cli.main(["compare", good, save(tmp_path / "c", cohort())]) == 1
    assert "No ratio is drawn: equal_budget" in capsys.readouterr().out
    assert cli.main(["compare", good, good, "--json", "--normalise", "--single", good]) == 1
    d = json.loads(capsys.readouterr().out)
    assert not d["valid"] and "another question" in d["question"]


def test_plan_check(tmp_path, capsys):
    """A sound plan gives its budget and whether each rate's sample can show the gate."""
    assert cli.main(["plan", "check", PLAN]) == 0
    assert "16 GPUs on each side" in capsys.readouterr().out
    assert cli.main(["plan", "check", PLAN, "--json"]) == 0
    d = json.loads(capsys.readouterr().out)
    assert (d["budget"], d["requests_needed"], len(d["sha256"])) == (16, 73, 64)
    assert all(r["enough"] for r in d["rates"])
    faulty = tmp_path / "p.yaml"
    faulty.write_text(Path(PLAN).read_text().replace("replicas: 2", "replicas: 3"))
    assert cli.main(["plan", "check", str(faulty)]) == 2
    assert "24 GPUs" in capsys.readouterr().err
