"""Measure the link that KV would take: NIXL over UCX, between two processes on this machine.

(``link_hosts`` puts the two processes on two machines.)

One process owns memory, the other pulls messages of several sizes out of it, as a decode server
pulls KV from a prefill server.  Each message is timed, and checked byte for byte (by CRC-32).
What loopback and shared memory do here says nothing about a network: it shows how to measure.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdlab.errors import BadInput, Failed
from pdlab.live import budget, env, nixl_plugin

SIZES = tuple(1 << power for power in (12, 14, 16, 18, 20, 22, 24, 26, 28))  # 4 KiB … 256 MiB
REPEATS = 15
SEED = 1
MAX_BYTES = 4 << 30
TRANSPORTS = {
    "shm": "shm,tcp",  # payload by shared memory or a cross-process read; NIXL connects over TCP
    "tcp": "tcp",
}
AUTO = "auto"  # leave the choice to UCX, as a server on a GPU does
MEMORY = ("dram", "vram")


class LinkFailed(Failed):
    """A transfer failed, or a byte arrived changed."""


@dataclass(frozen=True)
class Message:
    """One timed transfer: ``prepare_ns`` to describe it, ``transfer_ns`` from post to done."""

    size_bytes: int
    prepare_ns: int
    transfer_ns: int

    @property
    def gb_s(self) -> float:
        """Effective bandwidth: payload over transfer time, in 10^9 bytes a second."""
        return self.size_bytes / self.transfer_ns


@dataclass(frozen=True)
class SizeReport:
    """All messages of one size; bandwidths in GB/s (10^9), times in milliseconds."""

    size_bytes: int
    count: int
    prepare_ms: float
    transfer_ms: float
    gb_s: float
    gb_s_low: float
    gb_s_high: float


@dataclass(frozen=True)
class LinkReport:
    """The measured link.

    ``peak_gb_s`` is the best median over the sizes, as a rule one that fits into a cache.
    ``half_bandwidth_bytes`` is the message size from which on half of the largest size's median is
    reached (None when even the smallest does), as in lab L1.
    """

    transport: str
    sizes: tuple[SizeReport, ...]
    first_ms: float
    peak_gb_s: float
    half_bandwidth_bytes: float | None
    descriptor_bytes: int | None
    progress_delay_us: int | None

    @property
    def largest(self) -> SizeReport:
        """The longest messages: the least of setup in them, so what a minimum is asked of."""
        return self.sizes[-1]


def summarise(messages: Iterable[Message]) -> tuple[SizeReport, ...]:
    """Median and quartiles of each size, smallest size first."""
    by_size: dict[int, list[Message]] = {}
    for message in messages:
        by_size.setdefault(message.size_bytes, []).append(message)
    reports = []
    for size, group in sorted(by_size.items()):
        low, middle, high = np.percentile([message.gb_s for message in group], [25, 50, 75])
        reports.append(SizeReport(
            size, len(group),
            statistics.median(message.prepare_ns for message in group) / 1e6,
            statistics.median(message.transfer_ns for message in group) / 1e6,
            float(middle), float(low), float(high),
        ))
    return tuple(reports)


def half_bandwidth_bytes(sizes: Sequence[SizeReport]) -> float | None:
    """The size at which half of the largest size's median is first reached, on a line in log(size).

    None when the smallest size tested already has it.
    """
    half = sizes[-1].gb_s / 2
    if sizes[0].gb_s >= half:
        return None
    for below, above in zip(sizes, sizes[1:]):
        if below.gb_s < half <= above.gb_s:
            share = (half - below.gb_s) / (above.gb_s - below.gb_s)
            low, high = np.log([below.size_bytes, above.size_bytes])
            return float(np.exp(low + share * (high - low)))
    return None


def report(
    transport: str,
    messages: Sequence[Message],
    first_ms: float,
    descriptor_bytes: int | None = None,
    progress_delay_us: int | None = None,
) -> LinkReport:
    """The report of a set of timed messages."""
    sizes = summarise(messages)
    return LinkReport(
        transport, sizes, first_ms, max(size.gb_s for size in sizes), half_bandwidth_bytes(sizes),
        descriptor_bytes, progress_delay_us,
    )


def measure(
    transport: str = "shm",
    sizes: Sequence[int] = SIZES,
    repeats: int = REPEATS,
    descriptor_bytes: int | None = None,
    progress_delay_us: int | None | str = "auto",
    memory: str = "dram",
) -> tuple[list[Message], LinkReport]:
    """Time ``repeats`` transfers of each size (bytes) between two new processes.

    ``descriptor_bytes`` cuts each message into pieces, as KV lies in many blocks.
    ``progress_delay_us`` is how long NIXL's progress thread sleeps between polls: "auto" does as
    the servers here do, None leaves NIXL's own way (it spins).  ``memory`` is where the bytes lie
    on both sides: "dram", or "vram" (the first GPU that CUDA shows).
    LinkFailed where a transfer fails or a byte arrives changed.
    """
    check(transport, sizes, repeats, descriptor_bytes)
    delay = delay_us(progress_delay_us)
    variables = settings(transport, delay, on_loopback=True)
    with (
        owner(variables, memory, max(sizes)) as held,
        reader(variables, memory) as puller,
    ):
        try:
            messages, first_ms = timed(puller, line(held), sizes, repeats, descriptor_bytes)
        finally:
            puller.kill()
            held.kill()
    return messages, report(transport, messages, first_ms, descriptor_bytes, delay)


# ── the two ends, for this module and for ``link_hosts`` ────────────────────────────────────


def delay_us(asked: int | None | str) -> int | None:
    """Microseconds between two polls of NIXL's progress thread, "auto" made a number."""
    return nixl_plugin.delay_for(len(budget.cores())) if asked == "auto" else asked  # type: ignore[return-value]


def settings(transport: str, delay: int | None, on_loopback: bool) -> dict[str, str]:
    """The surroundings of one end: what UCX may use, and NIXL's delay."""
    variables = {key: value for key, value in os.environ.items() if key != nixl_plugin.ENV}
    if transport != AUTO:
        variables["UCX_TLS"] = TRANSPORTS[transport]
    if on_loopback:
        variables["UCX_NET_DEVICES"] = "lo"  # else UCX listens on the machine's own address as well
    if delay is not None:
        variables[nixl_plugin.ENV] = str(delay)
    return variables


def owner(variables: Mapping[str, str], memory: str, size_bytes: int) -> subprocess.Popen[str]:
    """A process that holds ``size_bytes`` of the pattern until it is killed; its first line is for the reader."""
    return _peer(variables, budget.cores()[0], memory, "own", str(size_bytes), str(SEED))


def reader(variables: Mapping[str, str], memory: str) -> subprocess.Popen[str]:
    """A process that waits for a plan, to pull and to time."""
    return _peer(variables, budget.cores()[-1], memory, "read")


def timed(
    puller: subprocess.Popen[str], told: Mapping[str, Any], sizes: Sequence[int], repeats: int, piece: int | None
) -> tuple[list[Message], float]:
    """All messages as ``puller`` times them, from the owner that ``told``; and the very first, in ms."""
    plan = {"sizes": sorted(sizes), "repeats": repeats, "seed": SEED, "descriptor_bytes": piece}
    print(json.dumps({**plan, **told}), file=puller.stdin, flush=True)
    first = line(puller)
    messages = [
        Message(found["size"], found["prepare_ns"], found["transfer_ns"])
        for found in (line(puller) for _ in range(repeats * len(sizes)))
    ]
    return messages, (first["prepare_ns"] + first["transfer_ns"]) / 1e6


def check(transport: str, sizes: Sequence[int], repeats: int, piece: int | None) -> None:
    """BadInput for what cannot be measured."""
    if transport not in (*TRANSPORTS, AUTO):
        raise BadInput(f"transport {transport!r}", " or ".join((*TRANSPORTS, AUTO)), "--transport")
    if len(set(sizes)) < 2 or not all(1 <= size <= MAX_BYTES for size in sizes):
        raise BadInput(f"sizes {list(sizes)}", f"two or more, each 1 to {MAX_BYTES} bytes", "--sizes")
    if repeats < 3:
        raise BadInput(f"{repeats} repeats", "3 or more, for a median and a spread", "--repeats")
    if piece is not None and piece < 1:
        raise BadInput(f"pieces of {piece} bytes", "1 or more", "--descriptor-bytes")


def _peer(variables: Mapping[str, str], core: int, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(env.python()), "-P", "-m", "pdlab.live.link_peer", str(core), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=dict(variables),
    )


def line(peer: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that an end says; LinkFailed with its last words where it has ended."""
    assert peer.stdout and peer.stderr
    if said_line := peer.stdout.readline():
        return json.loads(said_line)
    said = peer.stderr.read().strip().splitlines()
    raise LinkFailed(f"the link could not be measured: {said[-1] if said else 'a peer ended'}")
