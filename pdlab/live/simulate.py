"""Simulate a plan with AISimulate, for hardware that is not here, and keep it as records.

The simulator lives in an environment of its own (``make sim``), because it is a large pre-release
with pins of its own.  It is deterministic: the same plan gives the same records, bit for bit, and
``check`` proves it.  What it says is a prediction: every run is labelled *simulated*.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pdlab.documents import parse_json, write_whole
from pdlab.errors import BadInput, Failed
from pdlab.live import aisim_worker, provenance
from pdlab.live.env import ROOT, SIM
from pdlab.live.sim_points import Point, points, workload
from pdlab.measure import records
from pdlab.measure import plan as plans
from pdlab.measure.traces import read_trace, write_trace
from pdlab.measure.workload import Trace

HASHES = "hashes.json"
STALL_S = 900.0  # a point takes about half a second on an idle core; this is for a hang
TRIES = 2


class SimulatorFailed(Failed):
    """The simulator ended badly, twice; its own last words are in the message."""


# ── the simulator ───────────────────────────────────────────────────────────────────────────


def installed() -> bool:
    """Whether ``make sim`` has been run, to its end."""
    return SIM.whole()


def version() -> str:
    """The installed simulator's version; BadInput while there is none."""
    SIM.python()
    return SIM.versions()["aisimulate"]


def config(point: Point, plan: plans.Plan, trace: str) -> dict[str, Any]:
    """The simulator's configuration of one point; ``trace`` is the path of its requests."""
    if plan.comparison.precision != "bf16":
        raise BadInput(repr(plan.comparison.precision), "'bf16'", "comparison.precision",
                       "The sweep models weights and KV in bf16 only.")  # fmt: skip
    workers = {}
    for role, pool in point.layout.pools.items():
        workers[role] = {
            "parallelism": {"replicas": pool.replicas, "tensor": pool.tensor},
            "scheduler": {"max_batched_tokens": point.chunk_tokens},
        }
    engine = {
        "mode": "aggregated" if point.layout.aggregated else "disaggregated",
        "model": plan.comparison.model,
        "hardware": plan.comparison.gpu_type,
        "backend": "vllm",
        "workers": workers,
    }
    if point.layout.prefill:
        engine["kv_transfer"] = {
            "bandwidth_gb_per_second": float(point.link_gb_s), "timing_mode": "full_prompt",
        }  # fmt: skip
    source = {"type": "trace", "paths": [trace], "format": "mooncake", "block_size": 512}
    traffic = {"source": source, "load": {"type": "trace_timestamps"}}
    return {"traffic": traffic, "engine": engine}


def _predict(jobs: list[dict[str, Any]], folder: Path) -> Iterator[str]:
    """Run jobs in one simulator process; yields each name when its result is in ``folder``.

    A process that dies or stalls is started once more from the job it failed at.
    """
    done, tries = 0, 0
    while done < len(jobs):
        tries += 1
        for name in _batch(jobs[done:], folder):
            done, tries = done + 1, 1
            yield name
        if done < len(jobs) and tries >= TRIES:
            words = (folder / "stderr").read_text(encoding="utf-8", errors="replace").strip()
            last = words.splitlines()[-1] if words else "no message"
            raise SimulatorFailed(f"{jobs[done]['name']}: the simulator failed {TRIES} times ({last})")


def _batch(jobs: list[dict[str, Any]], folder: Path) -> Iterator[str]:
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [SIM.python(), aisim_worker.__file__, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        feeder = threading.Thread(target=_feed, args=(process, lines), daemon=True)
        feeder.start()
        try:
            while True:
                guard = threading.Timer(STALL_S, process.kill)
                guard.start()
                line = process.stdout.readline().strip()
                guard.cancel()
                if not line:
                    return
                yield line
        finally:
            process.kill()
            process.wait()


def _feed(process: subprocess.Popen, lines: str) -> None:
    try:
        process.stdin.write(lines)
        process.stdin.close()
    except BrokenPipeError:  # the process has died: its reader finds out
        pass


# ── from its results to our records ─────────────────────────────────────────────────────────


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)


def to_table(result: Mapping[str, Any], trace: Trace, warmup: int, deadline_s: float):
    """The simulator's requests as a table of records, in the trace's order.

    The client of a simulation sends on time and adds nothing: sent = scheduled.  The simulator
    knows no deadline; a request that took longer counts as timed out, its times kept.
    """
    by_row = {request["session_id"]: request for request in result["requests"]}
    rows = []
    for asked in trace:
        found = by_row.get(f"request_{asked.seq + 1}")
        if found is None or abs(found["arrival_time_ms"] - asked.at_ms) > 1e-3:
            raise SimulatorFailed(f"request {asked.seq} of the trace is not among the results")
        rows.append(_row(asked.seq, found, asked, asked.seq < warmup, deadline_s))
    return records.table_from_rows(rows)


def _row(seq: int, found: Mapping[str, Any], asked: Any, warm: bool, deadline_s: float) -> dict:
    at, last = _ns(found["arrival_time_ms"]), _ns(found["last_token_ms"])
    status = "ok" if found["terminal_status"] == "completed" else "failed"
    if status == "ok" and last - at > deadline_s * 1e9:
        status = "timeout"
    stages = {
        "admit": found["first_admit_ms"],
        "prefill_end": found["source_held_ms"],
        "transfer_start": found["destination_reserved_ms"],
        "transfer_end": found["destination_activated_ms"],
    }
    prefill, decode = found["prefill_worker_idx"], found["decode_worker_idx"]
    return {
        "request_id": f"r{seq}",
        "seq": seq,
        "warmup": warm,
        "scheduled_ns": at,
        "sent_ns": at,
        "end_ns": last,
        "first_token_ns": _ns(found["first_token_ms"]),
        "last_token_ns": last,
        "prompt_tokens": found["input_length"],
        "output_tokens": found["output_length"],
        "cached_tokens": found["reused_input_tokens"],
        "requested_output_tokens": asked.output_tokens,
        "status": status,
        "attempts": 1,
        "route": f"worker {decode}" if prefill is None else f"prefill {prefill}, decode {decode}",
        "stamp_source": "simulated",
        "stage_ns": {stage: _ns(ms) for stage, ms in stages.items() if ms is not None},
    }


def to_run(
    point: Point, plan: plans.Plan, plan_sha256: str, result: Mapping[str, Any], trace: Trace,
    simulator: str, commit: str | None,
) -> records.Run:  # fmt: skip
    """One result as a run: records, and a provenance that says it was simulated, and from what."""
    warmup = plan.comparison.warmup_requests
    table = to_table(result, trace, warmup, plan.comparison.request_deadline_seconds)
    first, last, drawn = trace.requests[warmup], trace.requests[-1], point.arrivals_seed
    summary = result["summary"]
    document = records.provenance(
        label="simulated",
        source="aisimulate",
        design=point.design,
        offered_rate_rps=point.rate_rps,
        cache_state=point.cache_state,
        window_ns=[_ns(first.at_ms), _ns(last.at_ms)],
        seed=drawn,
        plan_sha256=plan_sha256,
        workload={
            "trace": plan.comparison.workload_trace,
            "requests": len(trace),
            "warmup": warmup,
            "prompt_tokens": first.prompt_tokens,
            "output_tokens": first.output_tokens,
            "block_tokens": trace.block_tokens,
        },
        machine=f"modelled: {point.layout.gpus} x {plan.comparison.gpu_type}",
        versions={"aisimulate": simulator, "timing_data": result["timing_data"]},
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        commit=commit,
        notes=f"Arrivals come from {'the trace' if drawn is None else f'a Poisson draw, seed {drawn}'}, "
        "so the simulator draws nothing at random.",
        summary={
            "budget": {"count": point.layout.gpus, "unit": "GPU"},
            "itl_mean_ms": summary["mean_itl_ms"],
            "itl_p50_ms": summary["median_itl_ms"],
            "itl_p95_ms": summary["p95_itl_ms"],
            "itl_p99_ms": summary["p99_itl_ms"],
            "itl_max_ms": summary["max_itl_ms"],
            "output_tokens_per_s": summary["output_throughput_tok_s"],
            "prefix_cache_hit_ratio": summary["prefix_cache_reused_ratio"],
            "duration_ms": summary["duration_ms"],
            "busy_ms": result["busy_ms"],  # summed over the workers of all pools, by phase
            "kv_per_rank": _kv(result["memory"]),
            "point": _plain(asdict(point)),
            "config": config(point, plan, "the trace above"),
        },
    )
    return records.Run(table, document, point.name)


def _kv(memory: Mapping[str, Any] | None) -> dict[str, Any]:
    """Weights, KV bytes a token and KV capacity in tokens of one rank, by role."""
    return {
        role: {
            "weights_bytes": known["memory_breakdown"]["weights_bytes"],
            "bytes_per_token": known["kv_size_per_token_bytes"],
            "capacity_tokens": known["total_kv_size_tokens"],
        }
        for role, known in (memory or {}).items()
    }


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value is not None}


# ── the whole sweep ─────────────────────────────────────────────────────────────────────────


def runs(plan_path: str | Path, only: str | None = None) -> Iterator[tuple[Point, records.Run]]:
    """Simulate every point of the plan, or those whose path begins with ``only``."""
    plan = plans.load(plan_path)
    if plan.comparison.total_gpus is None:
        raise BadInput("a plan for CPU cores", "a plan with total_gpus", str(plan_path),
                       "The simulator models GPUs only.")  # fmt: skip
    base = read_trace(_trace_path(plan.comparison.workload_trace))
    wanted = [point for point in points(plan) if point.path.startswith(only or "")]
    if not wanted:
        raise BadInput(repr(only), "the beginning of a point's path, as main/ or splits/", "--only")
    simulator, digest, commit = version(), plans.sha256(plan_path), provenance.commit()
    with tempfile.TemporaryDirectory(prefix="pdlab-sim-") as temporary:
        folder = Path(temporary)
        traces = {point.path: workload(point, plan, base) for point in wanted}
        jobs = []
        for number, point in enumerate(wanted):
            path = folder / f"{number}.jsonl"
            write_trace(traces[point.path], path)
            jobs.append({"name": str(number), "config": config(point, plan, str(path))})
        for name in _predict(jobs, folder):
            point, file = wanted[int(name)], folder / f"{name}.json"
            result = json.loads(file.read_text(encoding="utf-8"))
            file.unlink()
            trace = traces[point.path]
            yield point, to_run(point, plan, digest, result, trace, simulator, commit)


def record(
    plan_path: str | Path, out: str | Path, only: str | None = None,
    tell: Callable[[Point, records.Run], None] = lambda point, run: None,
) -> dict[str, str]:  # fmt: skip
    """Simulate the plan into ``out``: a sweep directory a group, and ``hashes.json``; returns the hashes."""
    out = Path(out)
    hashes, groups = (read_hashes(out) if only else {}), {}
    for point, run in runs(plan_path, only):
        records.write_run(out / point.path, run.table, run.provenance)
        hashes[point.path] = content_hash(run)
        tell(point, run)
    for point in points(plans.load(plan_path)):
        if point.path in hashes:
            groups.setdefault(point.group, []).append(
                records.SweepEntry(point.name, point.design, point.cache_state, point.rate_rps, out / point.path))  # fmt: skip
    for group, entries in groups.items():
        records.write_sweep(out / group, str(plan_path), entries)
    _write_hashes(out, hashes)
    return hashes


def check(
    plan_path: str | Path, out: str | Path, only: str | None = None,
    tell: Callable[[Point, records.Run], None] = lambda point, run: None,
) -> list[str]:  # fmt: skip
    """Simulate again and compare with what ``out`` holds; returns the paths that differ.

    Both sides are compared in full: the stored records must give the stored hash, and the new
    ones the same.  Only the date and the commit of the recording are left out.
    """
    out, stored, differ = Path(out), read_hashes(Path(out)), []
    for point, run in runs(plan_path, only):
        kept = records.read_run(out / point.path)
        if not content_hash(kept) == content_hash(run) == stored.get(point.path):
            differ.append(point.path)
        tell(point, run)
    return differ


def content_hash(run: records.Run) -> str:
    """SHA-256 of a run's records and provenance, whatever wrote the file; date and commit apart."""
    known = {k: v for k, v in run.provenance.items() if k not in ("date", "commit")}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for name in run.table.column_names:
        column = run.table[name]
        values = None if column.null_count == len(column) else column.to_pylist()
        digest.update(json.dumps([name, len(column), values]).encode())
    return digest.hexdigest()


def _trace_path(named: str) -> Path:
    """A plan names its trace from the project's root; a path from here works as well."""
    return Path(named) if Path(named).exists() else ROOT / named


def read_hashes(out: Path) -> dict[str, str]:
    """Name of a run → SHA-256 of its records, as they were recorded; empty where nothing is."""
    path = out / HASHES
    if not path.exists():
        return {}
    hashes = parse_json(path.read_bytes(), str(path), do="Simulate all of it again, without --only.")
    if not isinstance(hashes, dict) or not all(isinstance(one, str) for one in hashes.values()):
        raise BadInput(f"a {type(hashes).__name__}", "an object of points and their hashes", str(path))
    return hashes


def _write_hashes(out: Path, hashes: Mapping[str, str]) -> None:
    write_whole(out / HASHES, json.dumps(hashes, indent=1) + "\n")


def total(hashes: Iterable[str]) -> str:
    """One digest of many, to say in one line."""
    return hashlib.sha256("".join(hashes).encode()).hexdigest()
