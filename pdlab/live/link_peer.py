"""One end of a NIXL link, run by the live environment's Python.

    -m pdlab.live.link_peer CORE MEMORY own BYTES SEED   register memory, stay until stdin closes
    -m pdlab.live.link_peer CORE MEMORY read             take the plan from stdin, pull and time

Both speak JSON lines on stdin and stdout.  ``read`` pulls from ``own``, as vLLM's decode server
pulls KV from its prefill server.  Every message is checked against the owner's pattern.  MEMORY is
``dram``, or ``vram`` for the first GPU that CUDA shows (written after NIXL's manual, not run yet).
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


class Dram:
    """Bytes in the machine's memory."""

    kind = "DRAM"

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.address, self.nbytes = values, values.ctypes.data, values.nbytes

    def clear(self, size: int) -> None:
        self.values[:size] = 0

    def read(self, size: int) -> np.ndarray:
        return self.values[:size]


class Vram:
    """Bytes in a GPU's memory.  Both copies below wait until they are done."""

    kind = "VRAM"

    def __init__(self, values: np.ndarray) -> None:
        import torch

        self.cuda, self.values = torch.cuda, torch.from_numpy(values).to("cuda")
        self.address, self.nbytes = self.values.data_ptr(), values.nbytes

    def clear(self, size: int) -> None:
        self.values[:size].zero_()
        self.cuda.synchronize()  # else the zeros may overtake what NIXL writes

    def read(self, size: int) -> np.ndarray:
        return self.values[:size].cpu().numpy()


MEMORY = {"dram": Dram, "vram": Vram}


def pattern(size_bytes: int, seed: int) -> np.ndarray:
    """The bytes that the owner holds; the reader makes them again to compare."""
    return np.random.default_rng(seed).integers(0, 256, size_bytes, dtype=np.uint8)


def say(document: dict) -> None:
    print(json.dumps(document), file=CHANNEL, flush=True)


def agent(name: str) -> nixl_agent:
    nixl_plugin.register()  # the progress thread's delay, where the environment asks for one
    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def own(kind: str, size_bytes: int, seed: int) -> None:
    """Hold registered memory full of the pattern until the parent closes our stdin."""
    memory = MEMORY[kind](pattern(size_bytes, seed))
    owner = agent("owner")
    owner.register_memory([(memory.address, memory.nbytes, 0, "")], memory.kind)
    say({"metadata": owner.get_agent_metadata().hex(), "address": memory.address})
    sys.stdin.read()


def pull(reader: nixl_agent, peer: str, kind: str, local: int, remote: int, size: int, piece: int) -> dict:
    """One READ of ``size`` bytes cut into descriptors of ``piece`` bytes; times in ns."""
    spans = [(at, min(piece, size - at)) for at in range(0, size, piece)]
    started = time.perf_counter_ns()
    into = reader.get_xfer_descs([(local + at, n, 0) for at, n in spans], kind)
    out_of = reader.get_xfer_descs([(remote + at, n, 0) for at, n in spans], kind)
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


def read(kind: str, plan: dict) -> None:
    """Pull each size ``repeats`` times after one warm-up; say each time as it is measured."""
    sizes, seed = plan["sizes"], plan["seed"]
    expected = pattern(max(sizes), seed)
    memory = MEMORY[kind](np.zeros(max(sizes), dtype=np.uint8))
    reader = agent("reader")
    reader.register_memory([(memory.address, memory.nbytes, 0, "")], memory.kind)
    peer = reader.add_remote_agent(bytes.fromhex(plan["metadata"]))
    peer = peer.decode() if isinstance(peer, bytes) else peer
    ends = memory.kind, memory.address, plan["address"]
    first = pull(reader, peer, *ends, min(sizes), min(sizes))
    say({"kind": "first", "size": min(sizes), **first})
    for size in sizes:
        wanted = zlib.crc32(expected[:size])
        piece = plan["descriptor_bytes"] or size
        for repeat in range(plan["repeats"] + 1):
            memory.clear(size)
            times = pull(reader, peer, *ends, size, piece)
            if zlib.crc32(memory.read(size)) != wanted:
                sys.exit(f"{size} bytes arrived changed")
            if repeat:  # the first of each size warms up
                say({"kind": "message", "size": size, **times})


if __name__ == "__main__":
    match sys.argv[1:]:
        case [core, "dram" | "vram" as kind, "own", size_bytes, seed]:
            os.sched_setaffinity(0, {int(core)})
            own(kind, int(size_bytes), int(seed))
        case [core, "dram" | "vram" as kind, "read"]:
            os.sched_setaffinity(0, {int(core)})
            read(kind, json.loads(sys.stdin.readline()))
        case _:
            sys.exit(__doc__)
