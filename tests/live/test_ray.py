"""Both designs of the miniature, really deployed on Ray Serve LLM."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from pdlab.errors import BadInput
from pdlab.live import keeper, metrics, nixl_ledger
from pdlab.live.ray import env, prove, scale
from pdlab.measure import records

ROOT = Path(__file__).resolve().parents[2]

PAGE = """\
# TYPE ray_vllm_prompt_tokens_by_source_total counter
ray_vllm_prompt_tokens_by_source_total{ReplicaId="p",source="local_compute"} 40.0
ray_vllm_prompt_tokens_by_source_total{ReplicaId="d",source="external_kv_transfer"} 40.0
# TYPE ray_vllm_nixl_bytes_transferred histogram
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="d",le="+Inf"} 1.0
ray_vllm_nixl_bytes_transferred_count{ReplicaId="d"} 1.0
ray_vllm_nixl_bytes_transferred_sum{ReplicaId="d"} 327680.0
"""


def test_counters_stay_apart_by_replica():
    """Ray puts all replicas on one page; prefill's and decode's numbers are told apart."""
    assert prove.counters(metrics.parse(PAGE)) == {
        "p": {"local_compute": 40},
        "d": {"external_kv_transfer": 40, "nixl transfers": 1, "nixl bytes by bucket middles": 327680},
    }


class Agent:
    """NIXL's agent as far as the ledger meets it."""

    def make_prepped_xfer(self, operation: str, notif_msg: bytes = b"") -> SimpleNamespace:
        return SimpleNamespace(_handle=7)

    def get_xfer_telemetry(self, handle: SimpleNamespace) -> SimpleNamespace:
        return SimpleNamespace(totalBytes=524_288, descCount=8, startTime=1, postDuration=2, xferDuration=3)


def test_ledger_writes_what_nixl_answers(tmp_path, monkeypatch):
    """Each answer of NIXL's becomes one line with its bytes and its request; patching twice writes once."""
    api = SimpleNamespace(nixl_agent=type("Mine", (Agent,), {}))
    monkeypatch.delenv(nixl_ledger.ENV, raising=False)
    nixl_ledger.register(api)
    assert "get_xfer_telemetry" not in vars(api.nixl_agent)
    monkeypatch.setenv(nixl_ledger.ENV, str(tmp_path))
    nixl_ledger.register(api)
    nixl_ledger.register(api)
    agent = api.nixl_agent()
    answered = agent.get_xfer_telemetry(agent.make_prepped_xfer("READ", notif_msg=b"r1:0"))
    assert answered.totalBytes == 524_288
    (line,) = nixl_ledger.read(tmp_path)
    assert (line["bytes"], line["notification"], line["pid"]) == (524_288, "r1:0", os.getpid())


def test_ledger_leaves_a_line_that_is_being_written(tmp_path):
    """Lines of all processes come in order of time; one without its end is not read."""
    (tmp_path / "12.jsonl").write_text('{"monotonic_ns": 5, "bytes": 2}\n{"monot')
    (tmp_path / "11.jsonl").write_text('{"monotonic_ns": 9, "bytes": 3}\n')
    assert [(line["pid"], line["bytes"]) for line in nixl_ledger.read(tmp_path)] == [(12, 2), (11, 3)]


@pytest.mark.live
def test_ray_serves_both_designs_and_kv_really_moves():
    """20 equal texts; decode fetched every prompt token; each transfer has the formula's bytes; nothing is left."""
    try:
        env.python()
    except BadInput as error:
        pytest.skip(str(error))
    found = prove.run(say=lambda _: None)
    assert found["texts_equal"] == prove.REQUESTS and found["texts_distinct"] > 1
    assert found["external_kv_transfer"] == found["prompt_tokens_total"] > 0
    assert found["computed_by_decode"] == 0
    assert found["nixl_bytes"] == found["formula_bytes"] and len(found["nixl_bytes"]) == prove.REQUESTS
    assert min(found["nixl_bytes"]) > 0 and found["exported_by_ray"]["nixl transfers"] == prove.REQUESTS
    assert all(one["processes_left"] == 0 < one["processes_seen"] for one in found["designs"].values())


@pytest.mark.live
@pytest.mark.long
def test_prefill_is_scaled_apart_from_decode(tmp_path):
    """Deployed by `serve run`: a second prefill replica joins and leaves; the others keep their processes."""
    try:
        env.python()
    except BadInput as error:
        pytest.skip(str(error))
    found = scale.record(tmp_path / "scale", say=lambda _: None)
    wider, back, anew = found["steps"]
    assert all(step["settled"] for step in found["steps"])
    assert (len(wider["kept"]), len(wider["started"]), len(wider["stopped"])) == (3, 1, 0)
    assert (len(back["kept"]), len(back["started"]), len(back["stopped"])) == (3, 0, 1)
    assert not anew["kept"] and len(anew["started"]) == 4
    before = [one for one in found["asked"] if one["at_s"] < anew["at_s"]]
    assert before and {one["client_saw"] for one in before} == {"HTTP 200"}
    assert scale.record(tmp_path / "scale") == found


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.live
@pytest.mark.long
def test_rendered_files_run_on_a_cluster_that_is_up(tmp_path):
    """`serve deploy` by the rendered script: both designs, one after the other, measured and judged; nothing is left."""
    try:
        ray = env.python().with_name("ray")
    except BadInput as error:
        pytest.skip(str(error))
    for port in (6379, 8000, 8265):  # where Ray and the script look, whoever answers
        if answers(port):
            pytest.skip(f"something listens on port {port}")
    short = {"offered_rates_rps": "[0.5, 1]", "duration_seconds": "10", "warmup_requests": "2"}
    text = (ROOT / "data/plans/miniature-2core.yaml").read_text()
    for key, value in short.items():
        text, found = re.subn(rf"(\b{key}): .*", rf"\1: {value}", text)
        assert found == 1
    plan, out, files = tmp_path / "plan.yaml", tmp_path / "out", tmp_path / "files"
    plan.write_text(text)
    pdlab = [sys.executable, "-m", "pdlab.course.cli"]
    subprocess.run([*pdlab, "plan", "render", plan, "--target", "ray", "--chunk", "512", "--out", files], cwd=ROOT, check=True)
    scratch = Path(tempfile.mkdtemp(prefix="pdlab-"))  # Ray's sockets need a short path
    own = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(scratch)}
    head = [ray, "start", "--head", "--block", "--num-cpus=4", "--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1"]
    held = subprocess.Popen([sys.executable, "-I", "-S", keeper.__file__, "", "--", *map(str, head)], env=own, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        limit = time.monotonic() + 120
        while not answers(8265):
            assert held.poll() is None and time.monotonic() < limit
            time.sleep(0.5)
        done = subprocess.run(
            ["bash", files / "run.sh"], cwd=ROOT, capture_output=True, text=True, timeout=900,
            env=own | {"OUT": str(out), "PDLAB": str(Path(sys.executable).with_name("pdlab")), "SERVE": str(ray.with_name("serve"))},
        )  # fmt: skip
        below = psutil.Process(held.pid).children(recursive=True)
    finally:
        held.stdin.close()
        held.wait()
        shutil.rmtree(scratch, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    entries = {(entry.design, entry.offered_rate_rps): entry.read().table.num_rows for entry in records.read_sweep(out).entries}
    assert set(entries) == {(design, rate) for design in ("aggregated", "disaggregated") for rate in (0.5, 1)} and min(entries.values()) >= 5
    assert "verdict" in done.stdout  # analyze has judged them
    assert below and not any(process.is_running() for process in below)
