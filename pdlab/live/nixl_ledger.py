"""A line for every transfer that NIXL finished in this process, with NIXL's own count of its bytes.

vLLM asks NIXL for the telemetry of each finished transfer and adds it to histograms.  A histogram
that passes through another exporter may come out as counts by bucket, its sum made of the buckets'
middles.  So the same answer is also written down as it is: one JSON line, ``PID.jsonl`` in the
folder that the environment names.  Nothing is computed here, from blocks or otherwise.

Only the standard library is imported; ``pdlab.live.nixl_plugin`` calls ``register`` in each of
vLLM's processes.  ``read`` gives the lines back.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

ENV = "PDLAB_NIXL_LEDGER"  # a folder on this machine; unset means: write nothing


def register(api: Any) -> None:
    """Have NIXL's agents write their lines, once, if the environment names a folder.

    ``api`` is the module ``nixl._api``.  ``notification`` is what the reader tells the other side
    when it is done: vLLM puts the request's id there.  ``start_us`` is on the monotonic clock too.
    """
    if not (folder := os.environ.get(ENV)) or getattr(agent := api.nixl_agent, "_pdlab_ledger", False):
        return
    prepare, telemetry = agent.make_prepped_xfer, agent.get_xfer_telemetry
    told: dict[int, str] = {}

    def make_prepped_xfer(self: Any, *args: Any, notif_msg: Any = b"", **options: Any) -> Any:
        handle = prepare(self, *args, notif_msg=notif_msg, **options)
        told[handle._handle] = notif_msg.decode(errors="replace") if isinstance(notif_msg, bytes) else str(notif_msg)
        return handle

    def get_xfer_telemetry(self: Any, handle: Any) -> Any:
        found = telemetry(self, handle)
        line = {
            "monotonic_ns": time.monotonic_ns(), "bytes": found.totalBytes, "descriptors": found.descCount,
            "start_us": found.startTime, "post_us": found.postDuration, "transfer_us": found.xferDuration,
            "notification": told.pop(handle._handle, ""),
        }  # fmt: skip
        with open(Path(folder, f"{os.getpid()}.jsonl"), "a") as out:
            out.write(json.dumps(line, default=str) + "\n")
        return found

    agent.make_prepped_xfer, agent.get_xfer_telemetry, agent._pdlab_ledger = make_prepped_xfer, get_xfer_telemetry, True


def read(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a ledger in order of time, each with the ``pid`` that wrote it."""
    found = []
    for path in folder.glob("*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        found += [{"pid": int(path.stem), **json.loads(line)} for line in lines if line.endswith("\n")]
    return sorted(found, key=lambda line: line["monotonic_ns"])
