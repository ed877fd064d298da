"""Record the link: every timed message of both transports, and what was made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.live import link, provenance
from pdlab.measure import records

LINK = "link.json"
SIZES = tuple(1 << power for power in range(12, 28))  # 4 KiB … 128 MiB


def measure(sizes: Sequence[int] = SIZES, repeats: int = link.REPEATS) -> dict[str, Any]:
    """Both transports on this machine: raw times and reports, JSON-ready."""
    document: dict[str, Any] = {
        "provenance": provenance.measured(
            None, "pdlab record link", seed=link.SEED, workload=f"{len(sizes)} sizes, {repeats} of each",
            notes="two processes, one on the first core and one on the last; every message checked",
        ),
        "transports": {},
    }  # fmt: skip
    for transport in link.TRANSPORTS:
        messages, report = link.measure(transport, sizes, repeats)
        document["transports"][transport] = {
            "report": asdict(report),
            "messages": [[m.size_bytes, m.prepare_ns, m.transfer_ns] for m in messages],
        }
    return document


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
    document = measure()
    records.write_provenance(out, document["provenance"])
    write_whole(out / LINK, json.dumps(document, separators=(",", ":")) + "\n")
    return document
