"""Record the link: every timed message of both transports.  What follows from them is made when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.live import link, provenance
from pdlab.measure import records

LINK = "link.json"
SIZES = tuple(1 << power for power in range(12, 28))  # 4 KiB … 128 MiB


def measure(sizes: Sequence[int] = SIZES, repeats: int = link.REPEATS) -> dict[str, Any]:
    """Both transports on this machine, JSON-ready."""
    about = provenance.measured(
        None, "pdlab record link", seed=link.SEED, workload=f"{len(sizes)} sizes, {repeats} of each",
        notes="two processes, one on the first core and one on the last; every message checked",
    )  # fmt: skip
    return document(about, {transport: link.measure(transport, sizes, repeats) for transport in link.TRANSPORTS})


def document(about: Mapping[str, Any], measured: Mapping[str, tuple[Sequence[link.Message], link.LinkReport]]) -> dict[str, Any]:
    """What ``link.json`` holds: raw times, and of each report only what does not follow from them."""
    return {"provenance": dict(about), "transports": {
        transport: {
            "report": {key: getattr(report, key) for key in ("first_ms", "descriptor_bytes", "progress_delay_us")},
            "messages": [[m.size_bytes, m.prepare_ns, m.transfer_ns] for m in messages],
        }
        for transport, (messages, report) in measured.items()
    }}  # fmt: skip


def read(directory: Path) -> dict[str, tuple[list[link.Message], link.LinkReport]]:
    """The messages of a recorded link by transport, and their report, made again from them."""
    found = {}
    for transport, part in json.loads((directory / LINK).read_text())["transports"].items():
        messages = [link.Message(*numbers) for numbers in part["messages"]]
        stated = part["report"]
        found[transport] = messages, link.report(
            transport, messages, stated["first_ms"], stated["descriptor_bytes"], stated["progress_delay_us"]
        )
    return found


def record(out: Path) -> dict[str, Any]:
    """Measure and write ``link.json`` and ``provenance.json``; what is there already is kept."""
    if (out / LINK).exists():
        return json.loads((out / LINK).read_text())
    found = measure()
    records.write_provenance(out, found["provenance"])
    write(out, found)
    return found


def write(out: Path, found: Mapping[str, Any]) -> None:
    """``link.json`` in ``out``."""
    write_whole(out / LINK, json.dumps(found, separators=(",", ":")) + "\n")
