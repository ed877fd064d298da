"""What lab L5 measures, live: the sweep and the scaling, then the proof.  Each goes on with what is there."""

from __future__ import annotations

from pathlib import Path

from pdlab.documents import read_lines
from pdlab.live.ray import prove, scale, sweep

SCALE = "scale"


def record(out: Path) -> None:
    """The plan's six runs on Ray Serve LLM below ``out``, and three changes of a running pair in ``scale``."""
    sweep.run_sweep(sweep.PLAN, out, resume=True)
    scale.record(out / SCALE)


def record_proof(out: Path) -> None:
    """Both designs held against each other, and a prefill replica killed."""
    if not (out / prove.PROOF).exists():
        prove.run(out, kill=True)


def lines(path: Path) -> list[dict]:
    """A file of one JSON document a line."""
    return read_lines(path)
