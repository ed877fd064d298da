"""Hold a Ray cluster of this machine alone, with one Serve LLM application; run by Ray's own Python.

    python -m pdlab.live.ray.hold WANTED.json READY

``WANTED.json`` holds port, metrics_port, cpus, name and temp (a short path: Ray puts sockets below
it), and either builder and arguments, or the path of a serve file as ``document``: that one is
given to Ray's own command, ``serve run FILE``.  READY is written once requests can be sent.
SIGUSR1 runs the file again, whatever stands in it by then, and what Serve says of its replicas is
noted in ``status.jsonl`` beside the file whenever it changes.  SIGTERM ends all of it; the keeper
ends whatever is left below.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pdlab.live import LOOPBACK

OBJECT_STORE_BYTES = 200 << 20  # no large object is ever put there
LOOK_S = 0.5


def main(wanted_path: str, ready_path: str) -> None:
    """Up, then wait for signals."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    wanted = json.loads(Path(wanted_path).read_text())
    import ray
    from ray import serve
    from ray.serve import llm, scripts

    def run_file(*_: object) -> None:
        scripts.cli.main(["run", wanted["document"], "--non-blocking"], standalone_mode=False)

    def state() -> dict[str, Any]:
        found = serve.status().applications[wanted["name"]]
        return {"application": found.status, "deployments": {
            name: {"status": one.status, "replicas": one.replica_states} for name, one in found.deployments.items()
        }}  # fmt: skip

    try:
        ray.init(
            address="local", num_cpus=wanted["cpus"], include_dashboard=False, _node_ip_address=LOOPBACK,
            _metrics_export_port=wanted["metrics_port"], object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=wanted["temp"],
        )  # fmt: skip
        if not wanted.get("document"):
            serve.start(http_options={"host": LOOPBACK, "port": wanted["port"]})
            application = getattr(llm, wanted["builder"])(wanted["arguments"])
            serve.run(application, name=wanted["name"], route_prefix="/", blocking=False)
            Path(ready_path).write_text("ready")
            while True:
                signal.pause()
        run_file()
        signal.signal(signal.SIGUSR1, run_file)
        last: dict[str, Any] = {}
        while True:
            if (now := state()) != last:
                note(Path(wanted["document"]).with_name("status.jsonl"), now)
                last = now
            if now["application"] == "DEPLOY_FAILED":
                sys.exit(f"Serve could not deploy {wanted['document']}")
            if now["application"] == "RUNNING":
                Path(ready_path).write_text("ready")
            time.sleep(LOOK_S)
    finally:
        serve.shutdown()
        ray.shutdown()


def note(path: Path, state: dict[str, Any]) -> None:
    """Append one line, with the time of this machine's monotonic clock."""
    with path.open("a") as out:
        out.write(json.dumps({"monotonic_ns": time.monotonic_ns(), **state}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
