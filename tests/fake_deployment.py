"""A deployment whose servers are scripted HTTP peers: the sweep's own logic without vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import forked
import yaml
from fake_http import Peer, plain, tokens

from pdlab.live import front, serve
from pdlab.measure import traces, workload

TRANSFER = {"do_remote_prefill": True, "remote_engine_id": "e", "remote_block_ids": [1], "remote_num_tokens": 3}
GAP_S = 0.02


def script(role: str):
    """What a server of that role answers: metrics, a prefill with transfer parameters, or tokens."""

    def answer(seen):
        if seen.path == "/metrics":
            return plain("200 OK", b'vllm:num_requests_running{engine="0"} 1\nvllm:other 5\n')
        if seen.method != "POST" or "completions" not in seen.path:
            return plain("200 OK", b"{}")
        if role == "prefill":
            return plain("200 OK", json.dumps({"kv_transfer_params": TRANSFER}).encode())
        return tokens(seen.json["max_tokens"], 0.0 if seen.json["max_tokens"] > 3 else GAP_S)

    return answer


class FakeDeployment:
    """Stands in for ``serve.Deployment``."""

    made: list[FakeDeployment] = []

    def __init__(self, spec, run_dir) -> None:
        self.spec, self.run_dir = spec, run_dir
        roles = ["aggregated"] * spec.replicas if spec.design == "aggregated" else ["prefill", "decode"]
        self.peers = [Peer(script(role)) for role in roles]
        self.roles = roles
        self.model_name, self.model = "m", SimpleNamespace(path="/nowhere", name="m")
        self.budget = SimpleNamespace(units=len(roles))
        FakeDeployment.made.append(self)

    def __enter__(self):
        self.servers = []
        for index, (role, peer) in enumerate(zip(self.roles, self.peers, strict=True)):
            peer.__enter__()
            self.servers.append(SimpleNamespace(name=f"{role}-{index}", role=role, base_url=peer.url))
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.stop()

    aggregated = property(lambda self: [s for s in self.servers if s.role == "aggregated"])
    prefill = property(lambda self: [s for s in self.servers if s.role == "prefill"])
    decode = property(lambda self: [s for s in self.servers if s.role == "decode"])

    def describe_budget(self):
        return f"{len(self.roles)} cores"

    def provenance(self):
        return {"versions": {"vllm": "none"}, "model": {"name": "m", "revision": "r"}, "spec": {"model": "m"}}

    @property
    def resets(self):
        """How often every server's prefix cache was emptied."""
        return min(sum(one.path == "/reset_prefix_cache" for one in peer.posts()) for peer in self.peers)


@contextmanager
def scripted() -> Iterator[type[FakeDeployment]]:
    """Scripted servers in the place of real ones, behind the real router; ``made`` starts empty."""
    with mock.patch.object(serve, "Deployment", FakeDeployment), mock.patch.object(front, "subprocess", forked):
        FakeDeployment.made = []
        yield FakeDeployment


def write_plan(directory: Path, **comparison) -> Path:
    """A plan of two rates and one second, and its trace, in ``directory``."""
    root = Path(__file__).resolve().parents[1]
    plan = yaml.safe_load((root / "data/plans/miniature-2core.yaml").read_text())
    trace = directory / "trace.jsonl"
    arrivals = workload.poisson_ms(1.0, 60, 0)
    traces.write_trace(workload.uniform(20, 2, arrivals, block_tokens=16), trace)
    plan["comparison"] |= {"offered_rates_rps": [20, 40], "duration_seconds": 0.5, "warmup_requests": 2,
                           "request_deadline_seconds": 10, "workload_trace": str(trace)} | comparison  # fmt: skip
    plan["live"]["max_num_batched_tokens"] = [128, 512]
    path = directory / "plan.yaml"
    path.write_text(yaml.safe_dump(plan))
    return path


def main(arguments: list[str]) -> int:
    """A sweep to be killed: the paths of its plan and of its directory."""
    from pdlab.live import sweep

    serve.Deployment = FakeDeployment
    sweep.run_sweep(*arguments, resume=True)
    return 0
