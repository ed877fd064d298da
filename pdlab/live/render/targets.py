"""The four targets by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.live.render import kubernetes, local, paper, ray, slurm
from pdlab.measure import plan as plans

TARGETS = {"local": local.files, "slurm": slurm.files, "ray": ray.files, "kubernetes": kubernetes.files}


def render(
    path: Path, target: str, designs: Sequence[paper.Design] = paper.DESIGNS, model: str | None = None,
    chunk_tokens: int | None = None,
) -> dict[str, str]:  # fmt: skip
    """The files of a plan for a target: name → text.  BadInput where that plan does not go there."""
    if target not in TARGETS:
        raise BadInput(f"target {target!r}", " or ".join(TARGETS), "--target")
    if chunk_tokens is not None and chunk_tokens < 1:
        raise BadInput(f"chunks of {chunk_tokens} tokens", "1 or more", "--chunk")
    plan = plans.load(path)
    if plan.live is None:
        beside = path.with_name(f"{path.stem}-live.yaml")
        do = f"{beside} has one." if beside.exists() else "Without it a plan can only be simulated."
        raise BadInput("no live section", "one that says how servers start", str(path), do)
    return TARGETS[target](paper.Asked(plan, path, tuple(designs), model, chunk_tokens))
