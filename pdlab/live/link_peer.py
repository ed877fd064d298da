"""One end of a NIXL link, run by the live environment's Python.

    -m pdlab.live.link_peer CORE own BYTES SEED   register memory, stay until stdin closes
    -m pdlab.live.link_peer CORE read             take the plan from stdin, pull and time

Both speak JSON lines on stdin and stdout.  ``read`` pulls from ``own``, as vLLM's decode server
pulls KV from its prefill server.  Every message is checked against the owner's pattern.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib

CHANNEL = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # NIXL and UCX log on stdout, which is ours for JSON

import numpy as np  # noqa: E402
from nixl._api import nixl_agent, nixl_agent_config  # noqa: E402

from pdlab.live import nixl_plugin  # noqa: E402

DEADLINE_NS = 60 * 10**9


def pattern(size_bytes: int, seed: int) -> np.ndarray:
    """The bytes that the owner holds; the reader makes them again to compare."""
    return np.random.default_rng(seed).integers(0, 256, size_bytes, dtype=np.uint8)


def say(document: dict) -> None:
    print(json.dumps(document), file=CHANNEL, flush=True)


def agent(name: str) -> nixl_agent:
    nixl_plugin.register()  # the progress thread's delay, where the environment asks for one
    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def own(size_bytes: int, seed: int) -> None:
    """Hold registered memory full of the pattern until the parent closes our stdin."""
    memory = pattern(size_bytes, seed)
    owner = agent("owner")
    owner.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
    say({"metadata": owner.get_agent_metadata().hex(), "address": memory.ctypes.data})
    sys.stdin.read()


def pull(reader: nixl_agent, peer: str, local: int, remote: int, size: int, piece: int) -> dict:
    """One READ of ``size`` bytes cut into descriptors of ``piece`` bytes; times in ns."""
    spans = [(at, min(piece, size - at)) for at in range(0, size, piece)]
    started = time.perf_counter_ns()
    into = reader.get_xfer_descs([(local + at, n, 0) for at, n in spans], "DRAM")
    out_of = reader.get_xfer_descs([(remote + at, n, 0) for at, n in spans], "DRAM")
    handle = reader.initialize_xfer("READ", into, out_of, peer)
    posted = time.perf_counter_ns()
    state = reader.transfer(handle)
    while state == "PROC":
        state = reader.check_xfer_state(handle)
        if time.perf_counter_ns() - posted > DEADLINE_NS:
            sys.exit("no end of the transfer after 60 s")
    done = time.perf_counter_ns()
    reader.release_xfer_handle(handle)
    if state != "DONE":
        sys.exit(f"the transfer ended as {state}")
    return {"prepare_ns": posted - started, "transfer_ns": done - posted}


def read(plan: dict) -> None:
    """Pull each size ``repeats`` times after one warm-up; say each time as it is measured."""
    sizes, seed = plan["sizes"], plan["seed"]
    expected = pattern(max(sizes), seed)
    memory = np.zeros(max(sizes), dtype=np.uint8)
    reader = agent("reader")
    reader.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
    peer = reader.add_remote_agent(bytes.fromhex(plan["metadata"]))
    peer = peer.decode() if isinstance(peer, bytes) else peer
    first = pull(reader, peer, memory.ctypes.data, plan["address"], min(sizes), min(sizes))
    say({"kind": "first", "size": min(sizes), **first})
    for size in sizes:
        wanted = zlib.crc32(expected[:size])
        piece = plan["descriptor_bytes"] or size
        for repeat in range(plan["repeats"] + 1):
            memory[:size] = 0
            times = pull(reader, peer, memory.ctypes.data, plan["address"], size, piece)
            if zlib.crc32(memory[:size]) != wanted:
                sys.exit(f"{size} bytes arrived changed")
            if repeat:  # the first of each size warms up
                say({"kind": "message", "size": size, **times})


if __name__ == "__main__":
    match sys.argv[1:]:
        case [core, "own", size_bytes, seed]:
            os.sched_setaffinity(0, {int(core)})
            own(int(size_bytes), int(seed))
        case [core, "read"]:
            os.sched_setaffinity(0, {int(core)})
            read(json.loads(sys.stdin.readline()))
        case _:
            sys.exit(__doc__)
