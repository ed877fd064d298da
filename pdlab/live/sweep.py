"""The live sweep: a plan's two designs at each cache state and offered rate, on real servers.

Order: for each design one deployment is started; its router takes every request; each rate is one
run of the open-loop client.  ``tune`` first tries the plan's chunk sizes on aggregated serving at
the highest rate, and one replica alone, so that the opponent is the best aggregation on hand.

A sweep can be killed at any moment.  What was answered is kept; ``resume`` sends the rest.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdlab.documents import read_lines, write_whole
from pdlab.errors import BadInput
from pdlab.live import client, load, metrics, provenance, serve, tuned
from pdlab.live.client_loop import LEAD_NS
from pdlab.live.front import log_of, routed
from pdlab.live.spec import chunk_sizes
from pdlab.measure import plan as plans
from pdlab.measure import records, slo, traces, workload
from pdlab.measure.caches import SERVER_METRICS

SETTLE_S = 0.5  # for the router to log what the client has just received
SAMPLE_S = 2.0  # between two looks at the servers' counters: each look costs the server some ms
START_S = 30.0  # a guess at a deployment's start, for the time left
TUNING = "tuning"
WANTED = (
    "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
    "vllm:prompt_tokens_by_source_total", "vllm:num_preemptions_total",
    "vllm:nixl_bytes_transferred_sum", "vllm:nixl_bytes_transferred_count",
    "vllm:nixl_xfer_time_seconds_sum", "vllm:nixl_post_time_seconds_sum",
    "vllm:nixl_num_failed_transfers_total", "vllm:nixl_num_failed_notifications_total",
    "vllm:nixl_num_kv_expired_reqs_total",
)  # fmt: skip
Say = Callable[[str], None]


def aloud(text: str) -> None:
    """Progress, at once and on standard error."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a deployment, a cache state, a rate.  ``chunk_tokens`` None is the server's default."""

    design: str
    cache_state: str
    rate_rps: float
    chunk_tokens: int | None = None
    replicas: int | None = None  # other than the plan's: a single replica to hold two against
    group: str = ""

    @property
    def label(self) -> str:
        """The design as records and tables name it."""
        parts = [self.design]
        if self.replicas:
            parts.append(f"{self.replicas} replica")
        if self.chunk_tokens and self.group and not self.replicas:
            parts.append(f"chunk {self.chunk_tokens}")
        return " ".join(parts)

    @property
    def name(self) -> str:
        """A directory name, unique within its group."""
        return f"{self.label.replace(' ', '-')}-{self.cache_state}-{self.rate_rps:g}rps"

    @property
    def deployment(self) -> tuple:
        """Cases that agree in this can share their servers."""
        return self.group, self.design, self.chunk_tokens, self.replicas

    @property
    def key(self) -> tuple[str, str]:
        """What is unique within a sweep, whichever chunk size tuning chooses."""
        return self.group, self.name

    def entry(self, directory: Path) -> records.SweepEntry:
        """This run's line in the list of the sweep in ``directory``."""
        return records.SweepEntry(self.name, self.label, self.cache_state, self.rate_rps, directory / self.name)


def main_cases(plan: plans.Plan, chunk_tokens: int | None) -> list[Case]:
    """The plan itself; ``chunk_tokens`` is what aggregated serving was tuned to."""
    comparison = plan.comparison
    return [
        Case(design, state, rate, chunk_tokens if design == "aggregated" else None)
        for design in ("aggregated", "disaggregated")
        for state in comparison.cache_state
        for rate in comparison.offered_rates_rps
    ]


def tuning_cases(plan: plans.Plan) -> list[Case]:
    """Aggregated serving at the highest rate: each chunk size."""
    state, rate = plan.comparison.cache_state[0], plan.comparison.offered_rates_rps[-1]
    return [Case("aggregated", state, rate, chunk, group=TUNING) for chunk in chunk_sizes(plan)]


def single_case(plan: plans.Plan, chunk_tokens: int | None) -> Case:
    """One replica, alone on its share of the cores, at the highest rate."""
    state, rate = plan.comparison.cache_state[0], plan.comparison.offered_rates_rps[-1]
    return Case("aggregated", state, rate, chunk_tokens, replicas=1, group=TUNING)


def spec(plan: plans.Plan, case: Case) -> serve.Spec:
    """How the servers of a case are started."""
    changes: dict[str, Any] = {}
    if case.replicas:  # fewer replicas, each on as many cores or GPUs as before
        side = plan.deployments.aggregated
        changes = {"replicas": case.replicas, "units": plan.used("aggregated") * case.replicas // side.replicas}
    return serve.Spec.from_plan(plan, case.design, case.chunk_tokens, **changes)


# ── what is sent ────────────────────────────────────────────────────────────────────────────


def requests(plan: plans.Plan, case: Case, base: workload.Trace) -> workload.Trace:
    """The trace of one request a second, cut and sped up: every design meets the same requests.

    ``duration_seconds`` at the offered rate, after the warm-up requests, the first of all at 0.
    """
    comparison = plan.comparison
    count = comparison.warmup_requests + round(case.rate_rps * comparison.duration_seconds)
    if len(base) < count:
        raise BadInput(f"{len(base)} requests in {base.origin}", f"at least {count}", "workload_trace",
                       f"A run at {case.rate_rps:g} requests/s needs them.")  # fmt: skip
    cut = workload.head(base, count)
    start_ms = cut.requests[0].at_ms
    moved = replace(cut, requests=tuple(replace(r, at_ms=r.at_ms - start_ms) for r in cut))
    trace = workload.scale_time(moved, 1 / case.rate_rps)
    return workload.cold(trace) if case.cache_state == "cold" else trace


def vocab_size(model_path: str) -> int:
    """From the model's config.json; for a model that is not on disk, what every tokeniser has."""
    config = Path(model_path) / "config.json"
    return int(json.loads(config.read_text())["vocab_size"]) if config.exists() else 32_000


# ── the servers' counters ───────────────────────────────────────────────────────────────────


class Sampler:
    """Notes the servers' counters while a run goes on; one JSON line a server and look.

    ``monotonic_ns`` stands in each line at first; ``close`` turns it into ``t_ns`` of the run.
    """

    def __init__(self, servers: Sequence[serve.Server], path: Path) -> None:
        self.servers, self.path = list(servers), path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self.path.open("a+b") as whole:  # of a run that was killed, the last line may be half of one
            whole.seek(0)
            whole.truncate(whole.read().rfind(b"\n") + 1)
        with self.path.open("a") as out:
            stopping = False
            while True:
                for server in self.servers:
                    out.write(json.dumps(sample(server)) + "\n")
                out.flush()
                if stopping:  # the last look was after the last answer, so that counters are whole
                    return
                stopping = self._stop.wait(SAMPLE_S)

    def close(self, sessions: Sequence[dict[str, Any]]) -> None:
        """Put the samples on the run's clock, by the client session in which they were taken."""
        starts = sorted(session["t0_monotonic_ns"] for session in sessions)
        lines = []
        for text in self.path.read_text().splitlines():
            one = json.loads(text)
            if "monotonic_ns" in one:
                taken = one.pop("monotonic_ns")
                one = {"t_ns": taken - max((s for s in starts if s <= taken + LEAD_NS), default=starts[0]), **one}
            lines.append(json.dumps(one))
        write_whole(self.path, "\n".join(lines) + "\n")


def sample(server: serve.Server) -> dict[str, Any]:
    """One look at one server."""
    taken: dict[str, Any] = {"monotonic_ns": time.monotonic_ns(), "server": server.name}
    try:
        page = metrics.scrape(server.base_url, SAMPLE_S, WANTED)
    except OSError as error:
        return taken | {"error": str(error)}
    for one in page.samples:
        key = one.name.removeprefix("vllm:")
        if source := one.labels.get("source"):
            key += f"[{source}]"
        taken[key] = taken.get(key, 0) + one.value
    return taken


# ── one run ─────────────────────────────────────────────────────────────────────────────────


def run_case(
    plan: plans.Plan,
    case: Case,
    trace: workload.Trace,
    deployment: serve.Deployment,
    url: str,
    directory: Path,
    router_log: Path,
    about: dict[str, Any],
    resume: bool,
    progress: Callable[[float, float], None] | None = None,
    salted: bool = False,
) -> records.Run:
    """One run of the client, with the router's steps and the servers' counters added.

    ``salted`` makes cold runs by a salt, where the servers take no order to empty their caches.
    """
    sent = load.offers(trace, deployment.model_name, vocab_size(deployment.model.path),
                       plan.comparison.warmup_requests, ids(case))  # fmt: skip
    document = described(plan, case, trace, about, {
        "budget": {"count": deployment.budget.units, "unit": plan.budget_unit},
        "servers": deployment.provenance()["spec"],
        "budget_split": deployment.describe_budget(),
    })  # fmt: skip
    if salted:
        sent = salt(case, sent)
    elif case.cache_state == "cold":
        empty_caches(url)
    options = client_options(plan, case, len(sent))

    def with_route(rows: list[dict[str, Any]], sessions: list[dict[str, Any]]) -> None:
        time.sleep(SETTLE_S)
        add_routes(rows, router_log, sessions, {s.base_url: s.name for s in deployment.servers})

    directory.mkdir(parents=True, exist_ok=True)
    with Sampler(deployment.servers, directory / SERVER_METRICS) as sampler:
        run = client.run_load(
            f"{url}/v1/completions", sent, directory, document, options, resume, progress, with_route
        )
    sampler.close(run.provenance["summary"]["client_sessions"])
    return run


def ids(case: Case) -> str:
    """What the id of each request of a case begins with."""
    return f"{case.group or 'main'}-{case.name}-"


def described(
    plan: plans.Plan, case: Case, trace: workload.Trace, about: dict[str, Any], summary: dict[str, Any]
) -> dict[str, Any]:
    """The provenance of one run, before the client has added what it alone knows."""
    warmup = plan.comparison.warmup_requests
    first_ms = trace.requests[warmup].at_ms
    end_ms = first_ms + plan.comparison.duration_seconds * 1000
    return about | {
        "design": case.label,
        "offered_rate_rps": case.rate_rps,
        "cache_state": case.cache_state,
        "window_ns": [round(first_ms * 1e6), round(end_ms * 1e6)],
        "workload": {"trace": plan.comparison.workload_trace, "requests": len(trace), "warmup": warmup},
        "summary": {"chunk_tokens": case.chunk_tokens, **summary},
    }


def client_options(plan: plans.Plan, case: Case, requests: int) -> client.Options:
    """How the client sends a case."""
    return client.Options(
        deadline_s=plan.comparison.request_deadline_seconds,
        connections=min(requests, 4 + round(4 * case.rate_rps)),
        idle_limit_s=60,  # the router keeps connections for longer
    )


def empty_caches(url: str) -> None:
    """Empty the servers' prefix caches through the router, which then believes nothing of them either."""
    if (status := client.ask(f"{url}/reset_prefix_cache", {}, timeout_s=30)) != 200:
        raise client.ClientFailed(f"the prefix caches could not be emptied: HTTP {status}")


def salt(case: Case, sent: Sequence[client.Offer]) -> list[client.Offer]:
    """The requests of a case; of a cold one with a salt of this moment, so that what is cached is of no use to them."""
    if case.cache_state != "cold":
        return list(sent)
    salted = {"cache_salt": f"{case.name} {time.time_ns()}"}
    return [replace(offer, body=offer.body | salted) for offer in sent]


def first_requests(url: str, deployment: serve.Deployment) -> None:
    """A few requests one after another: the first transfer of a pair takes seconds."""
    size = vocab_size(deployment.model.path)
    for turn in range(2 * len(deployment.servers)):
        prompt = [100 + (17 * turn + 31 * i) % (size - 100) for i in range(64)]
        body = client.completion(deployment.model_name, prompt, 4)
        status = client.ask(f"{url}/v1/completions", body, timeout_s=120)
        if status != 200:
            raise client.ClientFailed(f"a first request was answered with HTTP {status}")


def add_routes(
    rows: list[dict[str, Any]], log: Path, sessions: list[dict[str, Any]], names: dict[str, str]
) -> None:
    """Give each row its route, its attempts and the router's steps (in run ns) from the log.

    Of a request that was sent again after an interruption, the last line counts.
    """
    found = {one["request_id"]: one for one in read_lines(log)}
    starts = sorted(session["t0_monotonic_ns"] for session in sessions)
    for row in rows:
        if one := found.get(row["request_id"]):
            t0 = max((s for s in starts if s <= one["received_ns"]), default=starts[0])
            used = [names.get(server, server) for server in (one["prefill"], one["decode"]) if server]
            row["route"] = " > ".join(used)
            row["attempts"] = one["attempts"]
            steps = {"router_received": one["received_ns"] - t0}
            steps |= {f"router_{name}": steps["router_received"] + ns for name, ns in one["steps_ns"].items()}
            row["stage_ns"] = steps | (row["stage_ns"] or {})


# ── the whole ───────────────────────────────────────────────────────────────────────────────


def run_sweep(
    plan_path: str | Path,
    out: str | Path,
    resume: bool = False,
    tune: bool = False,
    chunk_tokens: int | None = None,
    say: Say = aloud,
    kind: type[Sweep] | None = None,
) -> Path:
    """Carry the plan out below ``out``; gives that directory.

    ``tune`` chooses aggregated serving's chunk size first; else ``chunk_tokens``, else an earlier
    choice found in ``out``, else the first of the plan's sizes, which is said.  ``kind`` puts other
    servers behind the same client (see ``pdlab.live.ray.sweep``).
    """
    plan_path, out = Path(plan_path), Path(out)
    fresh = not (out / "plan.yaml").exists()
    sweep = opened(plan_path, out, resume, say, kind or Sweep)
    with _alone(out) if sweep.alone else nullcontext():
        try:
            return _all_of_it(sweep, plan_path, tune, chunk_tokens)
        except BadInput:
            if fresh and sweep.alone:
                _give_back(out)
            raise


def opened(plan_path: Path, out: Path, resume: bool, say: Say, kind: type[Sweep]) -> Sweep:
    """A sweep of that plan in ``out``, which is its own from then on; nothing has run yet."""
    plan = plans.load(plan_path)
    base = read_workload(plan_path, plan)
    _claim(out, plan_path, resume)
    return kind(plan, base, out, about_plan(plan_path), resume, say)


def _all_of_it(sweep: Sweep, plan_path: Path, tune: bool, chunk_tokens: int | None) -> Path:
    plan, out, say = sweep.plan, sweep.out, sweep.say
    tuning = [*tuning_cases(plan), single_case(plan, chunk_tokens)] if tune else []
    sweep.expect([*tuning, *main_cases(plan, chunk_tokens)])
    single_goodput = None
    if tune:
        sweep.group(out / TUNING, plan_path, tuning_cases(plan))
        choice = tuned.choose(plan, tuning_runs(plan, out))
        tuned.keep(out / TUNING, choice)
        chunk_tokens = choice.chunk_tokens
        for line in choice.lines():
            say(line)
        say(f"aggregated serving is tuned to chunks of {chunk_tokens} tokens")
        alone = single_case(plan, chunk_tokens)
        sweep.group(out / TUNING, plan_path, [alone], among=tuning_cases(plan))
        single_goodput = goodput(plan, out / TUNING / alone.name)
    elif chunk_tokens is None:
        chunk_tokens = tuned.chosen(out / TUNING, say) or untuned(plan, say)
    sweep.single = (plan.comparison.offered_rates_rps[-1], single_goodput)
    sweep.group(out, plan_path, main_cases(plan, chunk_tokens))
    return out


def untuned(plan: plans.Plan, say: Say) -> int:
    """The first of the plan's chunk sizes; said where there are others, for no verdict rests on such an opponent."""
    sizes = chunk_sizes(plan)
    if len(sizes) > 1:
        say(f"NOT TUNED: aggregated serving gets chunks of {sizes[0]} tokens, the first of the plan's {len(sizes)} sizes, and may be "
            "the weaker for it. --tune tries them all; --chunk names one.")  # fmt: skip
    return sizes[0]


def tuning_runs(plan: plans.Plan, out: Path) -> dict[int, Path]:
    """Chunk size → the directory of its tuning run below ``out``."""
    return {size: out / TUNING / case.name for size, case in zip(chunk_sizes(plan), tuning_cases(plan), strict=True)}


def goodput(plan: plans.Plan, directory: Path) -> float | None:
    """Requests/s of one run that met the plan's targets."""
    return slo.analyse(records.read_run(directory), plan.acceptance).goodput_rps


class Sweep:
    """What the groups of one sweep share: plan, trace, and the count of what is done.

    Other servers behind the same client: a subclass with another ``_deploy`` and ``measure``.
    """

    measure = staticmethod(run_case)
    alone = True  # whether a second one in the same directory is refused

    def __init__(self, plan: plans.Plan, base: workload.Trace, out: Path, about: dict[str, Any],
                 resume: bool, say: Say) -> None:  # fmt: skip
        self.plan, self.base, self.out, self.about, self.resume, self.say = plan, base, out, about, resume, say
        self.single: tuple[float, float | None] = (0.0, None)
        self.left: dict[tuple[str, str], Case] = {}
        self.total = 0

    def expect(self, cases: Sequence[Case]) -> None:
        """What is to come, for the time left."""
        self.left, self.total = {case.key: case for case in cases}, len(cases)

    def _seconds(self, case: Case) -> float:
        requests = self.plan.comparison.warmup_requests + case.rate_rps * self.plan.comparison.duration_seconds
        return requests / case.rate_rps + 5

    def left_s(self) -> float:
        """A guess at the seconds until the end: runs as planned, and a start for each deployment."""
        deployments = {case.deployment for case in self.left.values()}
        return sum(map(self._seconds, self.left.values())) + START_S * len(deployments)

    def group(self, directory: Path, plan_path: Path, cases: Sequence[Case], among: Sequence[Case] = ()) -> None:
        """Run ``cases``, one deployment after the other; ``among`` are listed with them."""
        directory.mkdir(parents=True, exist_ok=True)
        records.write_sweep(directory, plan_path.name, [case.entry(directory) for case in [*among, *cases]])
        for deployment_key in dict.fromkeys(case.deployment for case in cases):
            same = [case for case in cases if case.deployment == deployment_key]
            missing = [case for case in same if not client.is_finished(directory / case.name)]
            for case in same:
                if case not in missing:
                    self.say(f"{case.name}: done before")
                    self._done(case)
            if missing:
                self._deploy(directory, missing)

    def _deploy(self, directory: Path, cases: Sequence[Case]) -> None:
        logs = self.out / "logs" / f"{cases[0].group or 'main'}-{cases[0].label.replace(' ', '-')}"
        logs.mkdir(parents=True, exist_ok=True)
        deployment = serve.Deployment(spec(self.plan, cases[0]), logs)
        self.say(f"starting {cases[0].label}: {deployment.describe_budget()}")
        comparison = self.plan.comparison
        with deployment:
            about = self.about | {"versions": deployment.provenance()["versions"] | {
                "model": deployment.provenance()["model"]}}  # fmt: skip
            rule = self.plan.deployments.disaggregated.routing
            # The client's deadline comes first: it is the plan's.
            late = str(comparison.request_deadline_seconds + 5)
            options = [] if cases[0].design == "aggregated" else ["--policy", rule]
            for name in ("prefill", "first-token", "request"):
                options += [f"--{name}-deadline", late]
            log = log_of(deployment)
            with routed(deployment, *options) as url:
                first_requests(url, deployment)
                for case in cases:
                    self._run(directory, case, deployment, url, log, about)

    def _run(self, directory: Path, case: Case, deployment: serve.Deployment, url: str, log: Path,
             about: dict[str, Any]) -> None:  # fmt: skip
        trace = requests(self.plan, case, self.base)
        number = self.total - len(self.left) + 1
        before = f"[{number}/{self.total}] {case.name}"
        self.say(f"{before}: {len(trace)} requests, about {_clock(self.left_s())} left in all")
        run = self.measure(
            self.plan, case, trace, deployment, url, directory / case.name, log, about, self.resume,
            _ticker(before, self),
        )  # fmt: skip
        rate, goodput = self.single
        if goodput is not None and case.rate_rps == rate and case.design == "aggregated" and not case.group:
            summary = run.provenance["summary"] | {"single_replica_goodput_rps": goodput}
            records.write_run(directory / case.name, run.table, run.provenance | {"summary": summary})
        counts: dict[str, int] = {}
        for status in run.table["status"].to_pylist():
            counts[status] = counts.get(status, 0) + 1
        self.say(f"{case.name}: {', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}")
        self._done(case)

    def _done(self, case: Case) -> None:
        self.left.pop(case.key, None)


def _ticker(before: str, sweep: Sweep) -> Callable[[float, float], None] | None:
    """Progress within a run, where somebody is watching."""
    if not sys.stderr.isatty():
        return None

    def tick(gone_s: float, planned_s: float) -> None:
        left = max(0.0, sweep.left_s() - gone_s)
        print(f"\r{before}: {gone_s:4.0f} of {planned_s:.0f} s, about {_clock(left)} left in all ",
              end="", file=sys.stderr, flush=True)  # fmt: skip

    return tick


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def read_workload(plan_path: Path, plan: plans.Plan) -> workload.Trace:
    """The trace that the plan names."""
    return traces.read_trace(traces.find(plan.comparison.workload_trace, plan_path))


def _claim(out: Path, plan_path: Path, resume: bool) -> None:
    """Take ``out`` for this plan; a directory of another plan, or unasked for, is refused."""
    kept = out / "plan.yaml"
    if kept.exists():
        if not resume:
            raise BadInput(f"a sweep in {out}", "an empty directory", do="Pass --resume to go on with it.")
        if kept.read_bytes() != plan_path.read_bytes():
            raise BadInput(f"a sweep of another plan in {out}", f"one of {plan_path}", str(kept))
        return
    out.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    shutil.copyfile(plan_path, part)
    part.replace(kept)


def _give_back(out: Path) -> None:
    """Undo ``_claim`` where nothing has run yet: whoever has mended what was wrong may start again."""
    if any(next(out.rglob(name), None) for name in (client.SPOOL, records.PARQUET)):
        return
    for name in (f"{TUNING}/{records.SWEEP}", records.SWEEP, "plan.yaml"):
        (out / name).unlink(missing_ok=True)
    for folder in (*sorted(out.glob("logs/*")), out / "logs", out / TUNING, out):
        with suppress(OSError):  # it is not there, or holds something
            folder.rmdir()


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """While it lasts, no other sweep takes ``out``; the lock goes with its process, however that ends."""
    with (out / "plan.yaml").open("rb") as kept:
        try:
            fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another sweep at work in {out}", "one at a time", "--out",
                           "Wait for its end, or choose another directory.") from None  # fmt: skip
        except OSError:
            pass  # a file system without locks
        yield


def about_plan(plan_path: Path) -> dict[str, Any]:
    """The part of the provenance that all runs of a sweep share."""
    return {
        "label": "measured",
        "source": "pdlab",
        "plan_sha256": plans.sha256(plan_path),
        "machine": provenance.machine(),
        "date": provenance.now(),
        "commit": provenance.commit(),
        "seed": None,
        "notes": None,
    }
