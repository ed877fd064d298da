"""A plan's sweep on Ray Serve LLM: the client, the requests and the records of ``pdlab.live.sweep``.

What stands behind the address is another thing: Ray's proxy and an ingress replica instead of the
course's router.  So a row's steps come from Serve's access logs and NIXL's ledger, and beside each
run lie the servers' counters before and after it, every transfer, and the bytes by their path.

Ray places an engine on a core in its books.  It pins nothing: engines, proxy, ingress and Ray's own
processes share the machine's cores.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdlab.documents import write_whole
from pdlab.live import client, env, load, models, netns, sweep, tuned
from pdlab.live.ray import calls, deploy, prove, wires
from pdlab.live.ray import env as ray_env
from pdlab.measure import plan as plans
from pdlab.measure import records, workload

PLAN = env.ROOT / "data/plans/miniature-2core.yaml"
TUNED = env.ROOT / "data/runs/miniature" / sweep.TUNING  # the opponent of lab L2
TRANSFERS, PATHS = "transfers.jsonl", "paths.json"
OBJECTS = {"objects_created": "ray_object_store_dist_count", "object_store_bytes": "ray_object_store_used_memory"}
EXPORT_S, SETTLE_S = 10.0, 20.0  # Ray exports each process's metrics every few seconds


def run_sweep(plan_path: str | Path, out: str | Path, resume: bool = False, chunk_tokens: int | None = None, **more: Any) -> Path:
    """As ``pdlab.live.sweep.run_sweep``; nothing is tuned here, so ``chunk_tokens`` is lab L2's choice unless given."""
    chunk_tokens = chunk_tokens or tuned.chosen(TUNED, more.get("say", sweep.aloud))
    return sweep.run_sweep(plan_path, out, resume, False, chunk_tokens, kind=Sweep, **more)


def run_case(
    plan: plans.Plan, case: sweep.Case, trace: workload.Trace, up: deploy.Application, url: str, directory: Path,
    temp: Path, about: dict[str, Any], resume: bool, progress: Callable[[float, float], None] | None = None,
) -> records.Run:  # fmt: skip
    """One run of the client, with Serve's calls, NIXL's transfers and the bytes by path added."""
    sent = load.offers(trace, up.model_name, sweep.vocab_size(up.model.path), plan.comparison.warmup_requests, sweep.ids(case))
    if case.cache_state == "cold":  # the app has no way to empty its caches; a salt makes them useless
        salted = f"{case.name} {time.time_ns()}"
        sent = [_with(offer, cache_salt=salted) for offer in sent]
    document = sweep.described(plan, case, trace, about, {
        "budget": {"count": plan.used(case.design), "unit": plan.budget_unit},
        "servers": up.shown(),
        "budget_split": f"{', '.join(up.servers)}: a core each in Ray's books, none pinned",
    })  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    before, earlier = _look(up), len(up.transfers())
    moved: list[dict[str, Any]] = []

    def with_steps(rows: list[dict[str, Any]], sessions: list[dict[str, Any]]) -> None:
        time.sleep(sweep.SETTLE_S)
        moved.extend(up.transfers()[earlier:])
        add_steps(rows, calls.read(up.temp / "ray"), moved, sessions)

    run = client.run_load(f"{url}/v1/completions", sent, directory, document, sweep.client_options(plan, case, len(sent)),
                          resume, progress, with_steps)  # fmt: skip
    computed = sum(row["prompt_tokens"] or 0 for row in records.rows(run.table))
    after = _look(up, _prompt_tokens(before) + computed * (1 if case.design == "aggregated" else 2))
    _write(directory, before, after, up, moved, run)
    return run


class Sweep(sweep.Sweep):
    """Deploys on Ray and measures there; the rest is inherited."""

    measure = staticmethod(run_case)

    def _deploy(self, directory: Path, cases: Any) -> None:
        first, live = cases[0], self.plan.live_section
        up = deploy.Application(self.plan, first.design, models.resolve(live.model), first.chunk_tokens)
        self.say(f"starting {first.label} on Ray: {', '.join(up.servers)}, a core each in Ray's books, none pinned")
        about = self.about | {"versions": ray_env.versions() | {
            "model": {"name": up.model.name, "revision": up.model.revision}}}  # fmt: skip
        with up:
            sweep.first_requests(up.url, up)
            time.sleep(EXPORT_S)  # else the first requests' counts would fall into the first run
            for case in cases:
                self._run(directory, case, up, up.url, up.temp, about)


def add_steps(
    rows: list[dict[str, Any]], seen: list[calls.Call], moved: list[dict[str, Any]], sessions: list[dict[str, Any]],
    wall_minus_monotonic_ns: int | None = None,
) -> None:  # fmt: skip
    """Give each row its route and steps (run ns), and each transfer its request and time.

    A step is ``serve_HOP_start``, ``serve_HOP_end`` or ``nixl_done``.  The last call of an id counts.
    """
    offset = time.time_ns() - time.monotonic_ns() if wall_minus_monotonic_ns is None else wall_minus_monotonic_ns
    starts = sorted(session["t0_monotonic_ns"] for session in sessions)

    def on_run(monotonic_ns: int) -> int:
        return monotonic_ns - max((s for s in starts if s <= monotonic_ns + client.LEAD_NS), default=starts[0])

    names = replica_names(seen)
    by_id: dict[str, dict[str, calls.Call]] = {}
    for call in seen:
        by_id.setdefault(call.request_id, {})[call.hop] = call
    pulled = {}
    for one in moved:
        one["t_ns"] = on_run(one.pop("monotonic_ns"))
        for row in rows:
            if row["request_id"] in one["notification"]:
                one["request_id"] = row["request_id"]
                pulled[row["request_id"]] = one["t_ns"]
    for row in rows:
        hops = by_id.get(row["request_id"], {})
        steps = {f"serve_{hop}_{end}": on_run(ns - offset) for hop, call in hops.items()
                 for end, ns in (("start", call.start_ns), ("end", call.end_ns))}  # fmt: skip
        if row["request_id"] in pulled:
            steps["nixl_done"] = pulled[row["request_id"]]
        row["route"] = " > ".join(names[hops[hop].replica] for hop in ("prefill", "decode", "aggregated") if hop in hops)
        row["stage_ns"] = steps | (row["stage_ns"] or {})


def replica_names(seen: list[calls.Call]) -> dict[str, str]:
    """Replica id → a short name such as ``prefill-0``, numbered within its hop in order of ids."""
    replicas = sorted({(call.hop, call.replica) for call in seen})
    hops = [hop for hop, _ in replicas]
    return {replica: f"{hop}-{hops[:index].count(hop)}" for index, (hop, replica) in enumerate(replicas)}


# ── before and after a run ──────────────────────────────────────────────────────────────────


def _look(up: deploy.Application, at_least: float = 0.0) -> dict[str, Any]:
    """Everything that is counted, now; the page once its prompt tokens have reached ``at_least``, or late."""
    looked = {"monotonic_ns": time.monotonic_ns(), "tcp": wires.look(), "loopback_bytes": loopback_bytes()}
    until = time.monotonic() + SETTLE_S
    while True:
        page = up.metrics()
        looked["counters"] = prove.counters(page)
        if _prompt_tokens(looked) >= at_least or time.monotonic() > until:
            break
        time.sleep(1.0)
    for key, name in OBJECTS.items():
        looked[key] = sum(one.value for one in page.matching(name))
    return looked


def _prompt_tokens(looked: dict[str, Any]) -> float:
    return sum(value for one in looked["counters"].values() for key, value in one.items() if key not in prove.EXPORTED.values())


def _write(directory: Path, before: dict[str, Any], after: dict[str, Any], up: deploy.Application,
           moved: list[dict[str, Any]], run: records.Run) -> None:  # fmt: skip
    """What lies beside the records of a run."""
    names = replica_names(calls.read(up.temp / "ray"))
    t0 = run.provenance["summary"]["client_sessions"][-1]["t0_monotonic_ns"]
    lines = []
    for looked in (before, after):
        for replica, counted in sorted(looked["counters"].items(), key=lambda item: names.get(item[0], "")):
            sources = {f"prompt_tokens_by_source_total[{key}]": value for key, value in counted.items() if key not in prove.EXPORTED.values()}
            exported = {key: value for key, value in counted.items() if key in prove.EXPORTED.values()}
            lines.append(json.dumps({"t_ns": looked["monotonic_ns"] - t0, "server": names.get(replica, replica), **sources, **exported}) + "\n")
    write_whole(directory / sweep.SERVER_METRICS, "".join(lines))
    kept = ("t_ns", "request_id", "bytes", "descriptors", "post_us", "transfer_us")
    write_whole(directory / TRANSFERS, "".join(json.dumps({key: one[key] for key in kept if key in one}) + "\n" for one in moved))
    tcp = None
    if before["tcp"] is not None and after["tcp"] is not None:
        tcp = [[*ends, count] for ends, count in sorted(wires.between(before["tcp"], after["tcp"], up.names()).items())]
    write_whole(directory / PATHS, json.dumps({
        "seconds": round((after["monotonic_ns"] - before["monotonic_ns"]) / 1e9, 1),
        "nixl_bytes": sum(one["bytes"] for one in moved), "nixl_transfers": len(moved),
        "tcp_bytes": tcp, "loopback_bytes": _rise("loopback_bytes", before, after),
        **{key: _rise(key, before, after) for key in OBJECTS},
    }, indent=1) + "\n")  # fmt: skip


def _rise(key: str, before: dict[str, Any], after: dict[str, Any]) -> float | None:
    return None if before[key] is None or after[key] is None else after[key] - before[key]


def loopback_bytes() -> int | None:
    """What this machine's loopback interface has carried since it started, or None where nobody says."""
    try:
        return netns.counters().bytes
    except OSError:
        return None


def _with(offer: client.Offer, **fields: Any) -> client.Offer:
    return dataclasses.replace(offer, body={**offer.body, **fields})
