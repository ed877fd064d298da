"""Put the router in front of a deployment, for as long as it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdlab.live.serve import Deployment, ServerFailed


def log_of(deployment: Deployment) -> Path:
    """The log of its routers, a JSON line a request."""
    return deployment.run_dir / "router.jsonl"


@contextmanager
def routed(deployment: Deployment, *options: str) -> Iterator[str]:
    """Start a router (``options`` as ``pdlab router`` takes them) and give its URL.

    It ends with the block, or when this program is gone.
    """
    with router_process(deployment, *options) as (_, url):
        yield url


@contextmanager
def router_process(deployment: Deployment, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The same, with the router's process as well, for who wants to see it end."""
    flags = {"aggregated": "--worker", "prefill": "--prefill", "decode": "--decode"}
    servers = [text for s in deployment.servers for text in (flags[s.role], s.base_url)]
    router = subprocess.Popen(
        [sys.executable, "-m", "pdlab.live.router", *servers, "--log", str(log_of(deployment))]
        + ["--until-stdin-closes", *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert router.stdin and router.stdout
        if not (line := router.stdout.readline()):
            raise ServerFailed(f"the router ended with status {router.wait()} before it was ready")
        yield router, json.loads(line)["url"]
    finally:
        router.stdin.close()  # type: ignore[union-attr]
        try:
            router.wait(10)
        except subprocess.TimeoutExpired:
            router.kill()
            router.wait()
