"""Run the connectors one after the other, in a network namespace of their own, and keep the rows.

The namespace has a loopback interface and nothing else: its counter counts our own traffic only, and
no server can be reached from outside whatever it listens on.  Where a system forbids one, the
connectors run all the same, and the interface's bytes are left out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.errors import BadInput, Failed
from pdlab.live import netns, provenance
from pdlab.live.connectors import env
from pdlab.live.connectors.kinds import BLOCK_SIZE, Kind, pick
from pdlab.live.connectors.measure import CONNECTOR_VERSIONS, OUTPUT_TOKENS, PATIENCE_S, PROMPTS, Row, measure
from pdlab.live.serve import ServerFailed
from pdlab.measure import records

TABLE = "connectors.json"


def run(kinds: Sequence[Kind], out: Path | None = None, logs: Path | None = None) -> list[Row]:
    """Rows for these connectors; with ``out``, the table and its provenance are written there.

    Progress goes to standard error.  The servers' logs are kept only with ``logs``.  Raises ServerFailed
    where the measuring itself ended early.
    """
    with tempfile.TemporaryDirectory(prefix="pdlab-connectors-") as scratch:
        work = logs or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        if status := netns.run_module("pdlab.live.connectors.run", str(work), *(kind.name for kind in kinds)):
            raise ServerFailed(f"the connectors could not be measured (status {status})")
        document = json.loads((work / TABLE).read_text())
    if out:
        records.write_provenance(out, document["provenance"])
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in document["rows"])
        write_whole(out / TABLE, f"[\n{lines}\n]\n")
    return [Row(**row) for row in document["rows"]]


def read(directory: Path) -> list[Row]:
    """The rows of a stored run."""
    return [Row(**row) for row in json.loads((directory / TABLE).read_text())]


def _measure_all(work: Path, kinds: Sequence[Kind], own_interface: bool) -> dict[str, Any]:
    rows = []
    for kind in kinds:
        print(f"{kind.name}: starting a pair", file=sys.stderr, flush=True)
        rows.append(measure(kind, work, own_interface))
        print(f"{kind.name}: {'ran' if rows[-1].ran else rows[-1].reason}", file=sys.stderr, flush=True)
    about = provenance.measured(
        None, "pdlab connectors", design="disaggregated", cache_state="cold",
        workload=f"tiny in float32, blocks of {BLOCK_SIZE}; prompts of {list(PROMPTS)} tokens, one at a time, {OUTPUT_TOKENS} tokens each",
        notes=f"each connector has a pair of its own, one core a server; the client waits {PATIENCE_S:g} s in a failure"
              + ("" if own_interface else "; no network namespace of its own, so no bytes of the interface"),
    )  # fmt: skip
    about["versions"] = about["versions"] | env.versions(*CONNECTOR_VERSIONS)
    return {"rows": [asdict(row) for row in rows], "provenance": about}


def main(arguments: list[str]) -> int:
    """``python -m pdlab.live.connectors.run WORK NAME…``, in a namespace or not."""
    work, *names = arguments
    try:
        document = _measure_all(Path(work), pick(names), netns.begin())
    except (BadInput, Failed) as error:
        print(f"pdlab: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1
    (Path(work) / TABLE).write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
