"""The routing lab's runs: one trace under each rule, on one pair of servers; then on two replicas.

The servers stay up between the rules of a pair; each rule gets a router of its own and empty
prefix caches, so that all start alike.  What the router decided for each request is kept in
``decisions.jsonl`` beside the records.  Before them, requests that are alone on the pair show what
the targets are multiples of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdlab.documents import read_lines, write_whole
from pdlab.live import client, env, serve, sweep
from pdlab.live.front import log_of, routed
from pdlab.live.placement import BLOCK_SIZE
from pdlab.measure import plan as plans
from pdlab.measure import records, workload
from pdlab.theory import kv

PLAN = env.ROOT / "data/plans/selective-2core.yaml"
# Dynamo ships 2,048 and 0.7.  The prompts of a two-core trace are shorter, and so is its threshold.
RULES = ("all-local", "all-remote", "local-below:200", "llm-d:200", "dynamo:200:0.7")
ALONE = "alone"
ALONE_RULES = ("all-local", "all-remote")
APART_S = 4.0  # longer than the longest answer takes when nothing else runs
REPLICAS = "two replicas"
DECISIONS = "decisions.jsonl"


@dataclass(frozen=True, slots=True)
class RuleCase(sweep.Case):
    """A run of the pair under one rule; without a rule, of aggregated replicas."""

    rule: str = ""

    @property
    def label(self) -> str:
        """The rule's name, or what stands in for one."""
        return self.rule or REPLICAS

    @property
    def name(self) -> str:
        """A directory's name."""
        return self.label.replace(":", "-").replace(" ", "-")


def chunk_tokens(plan: plans.Plan) -> int | None:
    """The one chunk size of all runs: the plan's first."""
    return plan.live.max_num_batched_tokens[0] if plan.live else None


def cases(plan: plans.Plan) -> list[RuleCase]:
    """Every rule on the pair, then two aggregated replicas; all at the plan's one rate."""
    state, rate = plan.comparison.cache_state[0], plan.comparison.offered_rates_rps[0]
    chunk = chunk_tokens(plan)
    pair = [RuleCase("disaggregated", state, rate, chunk, rule=rule) for rule in RULES]
    return [*pair, RuleCase("aggregated", state, rate, chunk)]


def record(
    out: Path, plan_path: Path = PLAN, notes: str | None = None,
    say: sweep.Say = sweep.aloud, apart_s: float = APART_S,
) -> Path:  # fmt: skip
    """Carry out every case below ``out``; what is there already is kept.

    ``apart_s`` lies between two requests that are to be alone.
    """
    plan = plans.load(plan_path)
    base = sweep.read_workload(plan_path, plan)
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.yaml").write_bytes(plan_path.read_bytes())
    todo = cases(plan)
    records.write_sweep(out, plan_path.name, [case.entry(out) for case in todo])
    for design in ("disaggregated", "aggregated"):
        missing = [c for c in todo if c.design == design and not client.is_finished(out / c.name)]
        if missing:
            _run(plan, base, missing, out, sweep.about_plan(plan_path) | {"notes": notes}, say, apart_s)
    return out


def alone(base: workload.Trace, apart_s: float = APART_S) -> workload.Trace:
    """The trace's shortest and longest prompt, cold and in turn, so far apart that none meets another.

    The first of the five is for warm-up.
    """
    ordered = sorted(base, key=lambda asked: asked.prompt_tokens)
    asked = [ordered[0], *[ordered[0], ordered[-1]] * 2]
    spread = tuple(replace(one, seq=i, at_ms=i * apart_s * 1000, kind=ALONE) for i, one in enumerate(asked))
    return workload.cold(replace(base, requests=spread))


def _run(
    plan: plans.Plan, base: workload.Trace, missing: list[RuleCase], out: Path, about: dict[str, Any],
    say: Callable[[str], None], apart_s: float,
) -> None:  # fmt: skip
    logs = out / "logs" / missing[0].design
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        deployment = stack.enter_context(serve.Deployment(sweep.spec(plan, missing[0]), logs))
        stated = deployment.provenance()
        about = about | {"versions": stated["versions"] | {"model": stated["model"]}}
        with routed(deployment) as url:  # sends everything away, and so makes the pair acquainted
            sweep.first_requests(url, deployment)
        if deployment.prefill:
            _run_alone(plan, base, deployment, out / ALONE, about, apart_s)
        for case in missing:
            options = ["--policy", case.rule] if case.rule else []
            with routed(deployment, *options) as url:
                sweep.empty_caches(url)
                trace = sweep.requests(plan, case, base)
                log = log_of(deployment)
                run = sweep.run_case(plan, case, trace, deployment, url, out / case.name, log, about, resume=True)
            names = {server.base_url: server.name for server in deployment.servers}
            keep_decisions(log, run, trace, names, out / case.name / DECISIONS)
            say(f"{case.label}: {sorted(set(run.table['status'].to_pylist()))}, {run.table.num_rows} requests")


def _run_alone(
    plan: plans.Plan, base: workload.Trace, deployment: serve.Deployment, out: Path, about: dict[str, Any], apart_s: float
) -> None:
    """One request at a time, with prefill on either side; two small runs below ``out``."""
    trace = alone(base, apart_s)
    one_by_one = plan.model_copy(update={"comparison": plan.comparison.model_copy(
        update={"warmup_requests": 1, "duration_seconds": apart_s * (len(trace) - 1)})})  # fmt: skip
    for rule in ALONE_RULES:
        if client.is_finished(out / rule):
            continue
        case = RuleCase("disaggregated", plan.comparison.cache_state[0], 1 / apart_s, chunk_tokens(plan), group=ALONE, rule=rule)
        with routed(deployment, "--policy", rule) as url:
            log = log_of(deployment)
            sweep.run_case(one_by_one, case, trace, deployment, url, out / rule, log, about, resume=True)


def keep_decisions(
    log: Path, run: records.Run, trace: workload.Trace, names: Mapping[str, str], path: Path
) -> None:
    """One JSON line a request in the trace's order: its kind, what was believed, decided, and why."""
    found = {one["request_id"]: one for one in read_lines(log)}
    rows = zip(run.table["request_id"].to_pylist(), run.table["seq"].to_pylist(), strict=True)
    lines = []
    for request_id, seq in sorted(rows, key=lambda row: row[1]):
        one, asked = found[request_id], trace.requests[seq]
        lines.append(json.dumps({
            "request_id": request_id, "seq": seq, "kind": asked.kind, "prompt_tokens": asked.prompt_tokens,
            "cached_tokens": one["cached_tokens"], "side": "remote" if one["prefill"] else "local",
            "reason": one["reason"], "choice": one["choice"],
            "prefill": names.get(one["prefill"]), "decode": names[one["decode"]],
        }))  # fmt: skip
    write_whole(path, "\n".join(lines) + "\n")


def read_decisions(directory: Path) -> list[dict[str, Any]]:
    """What ``keep_decisions`` kept, in the trace's order."""
    return read_lines(directory / DECISIONS)


def bytes_to_move(decisions: list[dict[str, Any]]) -> int:
    """KV bytes of the whole blocks that decode was believed to lack, of every prompt that was sent away."""
    missing = sum(
        kv.blocks(one["prompt_tokens"], BLOCK_SIZE) - one["cached_tokens"] // BLOCK_SIZE
        for one in decisions
        if one["side"] == "remote"
    )
    return missing * BLOCK_SIZE * kv.bytes_per_token(kv.from_config(kv.load("smollm2-135m")))
