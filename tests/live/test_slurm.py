"""The Slurm job of a plan for two nodes, on a real Slurm of two nodes on one machine.

There is no GPU: the plan is cut down to one unit a node, and the job's servers are turned into those
of a processor (``ON_PROCESSOR``).  All else is the job as it is rendered.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from pdlab.live import budget, models
from pdlab.live.env import ROOT
from pdlab.live.render import targets
from pdlab.live.spec import Spec
from pdlab.measure import records, traces, workload
from tests.live import slurm_cluster

MISSING = slurm_cluster.missing()
pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.skipif(bool(MISSING), reason=MISSING or "all there")]
PORTS = {8000, 8100, 8101, 7600, 5600, 5610}


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm_cluster.Cluster]:
    with slurm_cluster.two_nodes() as up:
        yield up


def settings() -> str:
    """What servers on a processor are told in place of their GPU."""
    told = Spec("tiny").settings(models.Model("tiny", "tiny", True, None), budget.Budget("cpu", ((0,), (1,))), (0,), 0)
    names = ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS", "LD_PRELOAD", "KMP_BLOCKTIME")
    return " ".join(f"{name}={told[name]}" for name in names if name in told)


ON_PROCESSOR = (
    (r'"\$\{live\}/bin/vllm" serve ("[^"]*")', r'"${live}/bin/python" -m vllm.entrypoints.openai.api_server --model \1', 4),
    ("--gpu-memory-utilization 0.9", "--kv-cache-memory-bytes 134217728 --distributed-executor-backend uni --enforce-eager", 4),
    ('"kv_buffer_device": "cuda"', '"kv_buffer_device": "cpu"', 2),
    (r"(?m)^    CUDA_VISIBLE_DEVICES=0 ", lambda found: f"    {settings()} ", 4),
    ("--memory vram", "--memory dram", 2),
)


def job(folder: Path) -> Path:
    """The reference plan's job, cut down: one unit a node, ``tiny``, a run of some seconds a design, a slow link."""
    document = yaml.safe_load((ROOT / "data/plans/reference-16gpu-live.yaml").read_text())
    traces.write_trace(workload.uniform(200, 8, workload.poisson_ms(1.0, 60, 0), block_tokens=16), folder / "trace.jsonl")
    document["comparison"] |= {
        "workload_trace": str(folder / "trace.jsonl"), "offered_rates_rps": [2], "duration_seconds": 5, "warmup_requests": 4,
        "model_revision": "tiny", "total_gpus": 2,
    }  # fmt: skip
    document["deployments"]["aggregated"]["tensor_parallel"] = 1
    document["deployments"]["disaggregated"]["tensor_parallel_per_replica"] = 1
    document["live"] |= {"model": "tiny", "max_model_len": 2048, "gpus_per_node": 1}
    document["live"]["link"] |= {"prompt_tokens": 128, "gb_s_per_rank": 0.01}
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(document))
    text = targets.render(path, "slurm", chunk_tokens=512)["job.sbatch"]
    for pattern, new, count in ON_PROCESSOR:
        text, found = re.subn(pattern, new, text)
        assert found == count, pattern
    (script := folder / "job.sbatch").write_text(text)
    return script


def submitted(cluster: slurm_cluster.Cluster, folder: Path) -> str:
    words = ("sbatch", "--parsable", f"--chdir={ROOT}", f"--output={folder}/job.log", str(job(folder)))
    return cluster.on("ctl", *words, OUT=str(folder / "out")).strip()


def left(cluster: slurm_cluster.Cluster, folder: Path) -> list[object]:
    """Processes, ports and files of a job that is over; torch's folder and vLLM's own small files are no matter (see ``keeper``)."""
    processes = [p for p in psutil.process_iter(["cmdline", "environ"]) if (p.info["environ"] or {}).get("OUT") == str(folder / "out")]
    ports = [port for node in ("n1", "n2") for port in cluster.listening(node) & PORTS]
    shared = [name for node in ("n1", "n2") for name in cluster.on(node, "ls", "/dev/shm").split()]
    files = [path.name for path in (cluster.folder / "tmp").iterdir() if not path.name.startswith(("vllm_dist_", "torchinductor_"))]
    return [*processes, *ports, *shared, *files]


def wait(cluster: slurm_cluster.Cluster, number: str, *states: str, within_s: float = 900) -> dict[str, str]:
    limit = time.monotonic() + within_s
    while (seen := cluster.job(number))["JobState"] not in states:
        assert time.monotonic() < limit, seen
        time.sleep(1)
    return seen


def test_a_job_of_two_nodes_runs_and_leaves_nothing(cluster: slurm_cluster.Cluster, tmp_path: Path) -> None:
    """The link between the nodes, then both designs, a server on each node, KV between them, the verdict; the job has succeeded and nothing is left."""
    over = wait(cluster, submitted(cluster, tmp_path), "COMPLETED", "FAILED", "TIMEOUT")
    log = (tmp_path / "job.log").read_text()
    assert (over["JobState"], over["ExitCode"]) == ("COMPLETED", "0:0"), log
    assert "nodes: n1 n2; addresses: 10.99.0.1 10.99.0.2\n" in log
    at = [log.index(word) for word in ("measured from 10.99.0.1:7600", "aggregated-cold-2rps: 14 ok", "disaggregated-cold-2rps: 14 ok", "verdict")]
    assert at == sorted(at)
    runs = {entry.design: entry.read() for entry in records.read_sweep(tmp_path / "out").entries}
    assert set(runs) == {"aggregated", "disaggregated"}
    assert set(runs["disaggregated"].table["route"].to_pylist()) == {"prefill-0 > decode-0"}
    counters = [json.loads(line) for line in (tmp_path / "out/disaggregated-cold-2rps/server_metrics.jsonl").read_text().splitlines()]
    decode = [one for one in counters if one["server"] == "decode-0"][-1]
    assert decode["prompt_tokens_by_source_total[local_compute]"] == 0 < decode["nixl_bytes_transferred_sum"]
    assert left(cluster, tmp_path) == []


def test_a_cancelled_job_leaves_nothing(cluster: slurm_cluster.Cluster, tmp_path: Path) -> None:
    """scancel, once servers and router are up on both nodes: no process, no port, no file in shared memory is left on either."""
    number, limit = submitted(cluster, tmp_path), time.monotonic() + 600
    while 8000 not in cluster.listening("n1"):
        assert cluster.job(number)["JobState"] in ("PENDING", "RUNNING") and time.monotonic() < limit, (tmp_path / "job.log").read_text()
        time.sleep(1)
    assert 8100 in cluster.listening("n1") and 8101 in cluster.listening("n2") and left(cluster, tmp_path)
    cluster.on("ctl", "scancel", number)
    assert wait(cluster, number, "CANCELLED", within_s=60)["JobState"] == "CANCELLED"
    until = time.monotonic() + 30
    while still := left(cluster, tmp_path):
        assert time.monotonic() < until, still
        time.sleep(0.5)
