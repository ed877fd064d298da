"""The four targets by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdlab.errors import BadInput
from pdlab.live import env, models
from pdlab.live.render import kubernetes, local, paper, ray, slurm
from pdlab.live.spec import chunk_sizes
from pdlab.measure import plan as plans

TARGETS = {"local": local.files, "slurm": slurm.files, "ray": ray.files, "kubernetes": kubernetes.files}
CLUSTERS = ("slurm", "kubernetes")  # their nodes have GPUs
WRITTEN = {"comparison": {"model_revision"}, "deployments": {"disaggregated": {"routing", "kv_transport"}}, "live": True}


def render(
    path: Path, target: str, designs: Sequence[paper.Design] = paper.DESIGNS, model: str | None = None,
    chunk_tokens: int | None = None, image: str | None = None, tune: bool = False,
    least_bad: bool = False,
) -> dict[str, str]:  # fmt: skip
    """The files of a plan for a target: name → text.  BadInput where that plan does not go there.

    ``tune`` gives the files that choose aggregated serving's chunk size, instead of the comparison's;
    ``least_bad`` has them name one where no request met its targets with any size, too.
    """
    if target not in TARGETS:
        raise BadInput(f"target {target!r}", " or ".join(TARGETS), "--target")
    if chunk_tokens is not None and chunk_tokens < 1:
        raise BadInput(f"chunks of {chunk_tokens} tokens", "1 or more", "--chunk")
    plan = plans.load(path)
    if plan.live is None:
        beside = path.with_name(f"{path.stem}-live.yaml")
        do = f"{beside} has one." if beside.exists() else "Without it a plan can only be simulated."
        raise BadInput("no live section", "one that says how servers start", str(path), do)
    if target in CLUSTERS and plan.live.device != "cuda":
        raise BadInput("a plan for a processor", "one for GPUs", f"--target {target}", "For one machine use local.")
    if least_bad and not tune:
        raise BadInput("--least-bad without --tune", "both: it is about the choice that --tune makes", "--least-bad")
    if tune:
        designs = _tuned(plan, path, designs, chunk_tokens)
    asked = paper.Asked(plan, path, target, tuple(designs), model, chunk_tokens, image, tune, least_bad)
    _one_line(asked)
    return TARGETS[target](asked)


def _tuned(plan: plans.Plan, path: Path, designs: Sequence[paper.Design], chunk_tokens: int | None) -> tuple[paper.Design, ...]:
    """The one design that is tuned; BadInput where there is nothing to choose."""
    if chunk_tokens is not None or "aggregated" not in designs:
        raise BadInput("--tune with --chunk, or without the aggregated design", "--tune alone: it tries the plan's sizes", "--tune")
    if len(sizes := chunk_sizes(plan)) < 2:
        raise BadInput(f"chunks of {sizes[0]} tokens and no other size", "several to choose from", f"{path}, live.max_num_batched_tokens")
    return ("aggregated",)


def _one_line(asked: paper.Asked) -> None:
    """No text that is written into files may hold a line end or another control character."""
    texts = {"PLAN": local.shown(asked.path), "--model": asked.model or "", "PDLAB_CACHE": str(models.cache_dir()),
             "PDLAB_LIVE_ENV": str(env.location())}  # fmt: skip
    for key, value in (*texts.items(), *_strings(asked.plan.model_dump(include=WRITTEN))):
        if not value.isprintable():
            raise BadInput(f"{value!r}", "characters that can be printed, on one line", key)


def _strings(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, (dict, list)):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _strings(value, f"{path}.{key}" if path else str(key))
