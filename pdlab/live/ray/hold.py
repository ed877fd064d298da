"""Hold a Ray cluster of this machine alone, with one Serve LLM application; run by Ray's own Python.

    python -m pdlab.live.ray.hold WANTED.json READY

``WANTED.json`` holds builder, arguments, port, metrics_port, cpus, name and temp (a short path: Ray
puts sockets below it).  READY is written once requests can be sent.  SIGTERM ends it; its keeper
ends whatever is left below it.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 200 << 20  # no large object is ever put there


def main(wanted_path: str, ready_path: str) -> None:
    """Up, then wait for SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    wanted = json.loads(Path(wanted_path).read_text())
    import ray
    from ray import serve
    from ray.serve import llm

    try:
        ray.init(
            address="local", num_cpus=wanted["cpus"], include_dashboard=False, _node_ip_address=LOOPBACK,
            _metrics_export_port=wanted["metrics_port"], object_store_memory=OBJECT_STORE_BYTES,
            _temp_dir=wanted["temp"],
        )  # fmt: skip
        serve.start(http_options={"host": LOOPBACK, "port": wanted["port"]})
        application = getattr(llm, wanted["builder"])(wanted["arguments"])
        serve.run(application, name=wanted["name"], route_prefix="/", blocking=False)
        Path(ready_path).write_text("ready")
        while True:
            signal.pause()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
