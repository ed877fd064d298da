"""Rendered commands against the engine itself: its parser takes them all, and a script for this machine runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest
import yaml

from pdlab.course import cli
from pdlab.live.env import ROOT
from pdlab.live.render import verify
from pdlab.measure import plan as plans
from pdlab.measure import records, traces, workload
from tests.test_plan_render import CASES, everything

pytestmark = pytest.mark.live


def test_the_engines_own_parser_takes_every_rendered_command() -> None:
    """Each server of every shipped plan, design and target; and it does refuse a flag that is none of its own."""
    files = {
        f"{name}-{target}-{tune}-{file}": text
        for name, target, tune, made in everything() for file, text in made.items()
    }  # fmt: skip
    files["broken.sh"] = (
        "start x '' env VLLM_NO_SUCH=1 /bin/vllm serve m --port 1\n"
        "start y '' env A=1 /bin/vllm serve m --kv-rank 0\n"
    )
    outcome = verify.verify(files)
    assert outcome.engine.startswith("vLLM ") and len(outcome.errors) > 4 * len(CASES)
    refused = {command.file: error for command, error in outcome.refused if command.file != "broken.sh"}
    assert refused == {}
    broken = {command.name: error for command, error in outcome.refused if command.file == "broken.sh"}
    assert broken["x"] == "unknown settings: VLLM_NO_SUCH" and "--kv-rank" in broken["y"]


def test_a_rendered_script_runs_and_leaves_nothing(tmp_path: Path) -> None:
    """The local script of a small plan on two cores: both designs, the records of both, every process gone."""
    document = yaml.safe_load((ROOT / "data/plans/miniature-2core.yaml").read_text())
    trace, path, out = tmp_path / "trace.jsonl", tmp_path / "small.yaml", tmp_path / "out"
    traces.write_trace(workload.uniform(200, 8, workload.poisson_ms(1.0, 40, 0), block_tokens=16), trace)
    document["comparison"] |= {
        "workload_trace": str(trace), "offered_rates_rps": [2], "duration_seconds": 5, "model_revision": "tiny",
    }  # fmt: skip
    document["live"] |= {"model": "tiny", "max_model_len": 2048, "kv_cache_bytes": 1 << 27}
    path.write_text(yaml.safe_dump(document))
    assert cli.main(["plan", "render", str(path), "--target", "local", "--chunk", "512", "--out", str(tmp_path)]) == 0
    done = subprocess.run(
        [str(tmp_path / "run.sh")], cwd=ROOT, env=os.environ | {"OUT": str(out)}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a gate of the plan was missed, which is no matter here
    assert "SLO" in done.stdout or "verdict" in done.stdout, done.stdout + done.stderr
    runs = {entry.design: entry.read() for entry in records.read_sweep(out).entries}
    assert set(runs) == {"aggregated", "disaggregated"}
    for run in runs.values():
        assert run.table.num_rows == 4 + 10 and set(run.table["status"].to_pylist()) == {"ok"}
        assert run.provenance["plan_sha256"] == plans.sha256(path)
    servers = runs["disaggregated"].provenance["summary"]["servers"]["servers"]
    assert servers["prefill-0"]["kv_role"] == "kv_producer" and servers["decode-0"]["kv_role"] == "kv_consumer"
    left = [p for p in psutil.process_iter(["cmdline"]) if str(out) in " ".join(p.info["cmdline"] or ())]
    assert left == []
    ports = {c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert not ports & {8000, 8100, 8101}
