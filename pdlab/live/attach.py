"""A sweep's runs of one design, on servers that somebody else has started.

Client, requests and records are those of ``pdlab.live.sweep``.  What runs is asked of the servers
themselves: their version, and with VLLM_SERVER_DEV_MODE=1 their whole configuration (else what their
metrics tell of the cache).  Which GPUs they stand on is not seen from here: the budget is the plan's,
and the record says so.
"""

from __future__ import annotations

import copy
import http.client
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pdlab.documents import parse_object
from pdlab.errors import BadInput, Failed
from pdlab.live import client, direct, load, metrics, sweep, tuned
from pdlab.live.spec import chunk_sizes
from pdlab.measure import plan as plans
from pdlab.measure import records, workload

TOLD = ("max_num_batched_tokens", "max_num_seqs", "block_size", "tensor_parallel_size", "gpu_memory_utilization",
        "max_model_len", "dtype", "enforce_eager", "kv_connector", "kv_role", "enable_prefix_caching")  # fmt: skip
CACHE = "vllm:cache_config_info"


class Servers:
    """What a sweep needs to know of a deployment, of one that it did not start."""

    def __init__(self, plan: plans.Plan, design: str, url: str, servers: Mapping[str, str], chunk_tokens: int | None) -> None:
        self.url, self.design, self.plan = load.base(url), design, plan
        self.servers = [SimpleNamespace(name=name, base_url=load.base(address)) for name, address in servers.items()]
        listed = _first(_get(f"{self.url}/v1/models"), self.url)
        self.model_name = str(listed["id"])
        self.model = SimpleNamespace(name=self.model_name, path=str(listed.get("root") or self.model_name))
        self.budget = SimpleNamespace(units=plan.used(design))  # type: ignore[arg-type]
        self.versions = {server.name: str(_get(f"{server.base_url}/version").get("version")) for server in self.servers}
        self.told = {server.name: told(server.base_url) for server in self.servers}
        if len(found := set(self.versions.values())) > 1:
            raise BadInput(f"engines {', '.join(sorted(found))}", "one version behind one router", "--server")
        self.chunk_tokens = self._chunk(chunk_tokens) if design == "aggregated" else chunk_sizes(plan)[0]  # not used there

    def _chunk(self, stated: int | None) -> int:
        """The chunk size of aggregated servers: what was stated, if none contradicts it, else what they or the plan leave no choice of."""
        sizes = {name: size for name, settings in self.told.items() if (size := settings.get("max_num_batched_tokens"))}
        for name, size in sizes.items():
            if stated is not None and size != stated:
                raise BadInput(f"{name} with chunks of {size} tokens", f"{stated}, as --chunk says", "--server",
                               "Start it with that --max-num-batched-tokens, or give --chunk what it has.")  # fmt: skip
        known = {stated} if stated else set(sizes.values()) or set(chunk_sizes(self.plan))
        if len(known) > 1:
            raise BadInput(f"chunk sizes {', '.join(map(str, sorted(known)))}, and no word on which one", "the servers' own", "--chunk",
                           "Give the --max-num-batched-tokens that they were started with.")  # fmt: skip
        return known.pop()

    def alone(self) -> Servers:
        """The first of these servers without the others: asked directly, on its share of the budget."""
        one = copy.copy(self)
        one.servers, one.url = self.servers[:1], self.servers[0].base_url
        one.budget = SimpleNamespace(units=self.budget.units // len(self.servers))
        return one

    def describe_budget(self) -> str:
        """The plan's budget; nobody here has counted."""
        unit = self.plan.budget_unit
        return f"{self.budget.units} {unit}s by the plan, dealt where the servers were started; not counted here"

    def provenance(self) -> dict[str, Any]:
        """Versions and settings as the servers tell them, and who they are."""
        return {
            "versions": {"vllm": next(iter(self.versions.values()), None)},
            "model": {"name": self.model_name, "revision": self.plan.comparison.revision},
            "spec": {
                "started": "elsewhere",
                "servers": {server.name: {"url": server.base_url, **self.told[server.name]} for server in self.servers},
            },
        }


def told(base_url: str) -> dict[str, Any]:
    """What a server says of its own settings; of its cache alone, as text, where it keeps the rest to itself."""
    try:
        document = _get(f"{base_url}/server_info?config_format=json")["vllm_config"]
    except (BadInput, KeyError):
        return _of_its_cache(base_url)
    found: dict[str, Any] = {}
    parts = [document] if isinstance(document, dict) else []
    while parts:
        part = parts.pop()
        found |= {key: part[key] for key in TOLD if isinstance(part.get(key), (str, int, float, bool))}
        parts += [value for value in part.values() if isinstance(value, dict)]
    return found


def _of_its_cache(base_url: str) -> dict[str, Any]:
    try:
        page = metrics.scrape(base_url, names=(CACHE,))
    except (OSError, http.client.HTTPException):
        return {}
    return {key: value for sample in page.samples for key, value in sample.labels.items() if key in TOLD}


def run(
    plan_path: Path, out: Path, design: str, url: str, servers: Mapping[str, str], router_log: Path | None,
    chunk_tokens: int | None = None, say: sweep.Say | None = None, tune: bool = False, least_bad: bool = False,
) -> int | None:  # fmt: skip
    """The plan's runs of ``design`` below ``out``; those of the other design are left for another call.

    What is there already is kept, and an interrupted run goes on.  ``servers`` is name → address.
    Without a ``router_log`` something else than the course's router stands in front (Ray's proxy):
    rows then carry no route.  A cold run makes cached prefixes useless by a salt: servers on a network
    should take no orders.

    Aggregated servers that are named, in a directory where their chunk size was tuned, first show what
    one replica does alone, as in ``pdlab sweep --tune``: it is asked directly while the others are idle.

    ``tune`` sends the one run by which ``pdlab sweep --tune`` judges a chunk size, that of these
    servers.  The call that makes the last of the plan's sizes gives the choice; where no request met its
    targets with any size, which tells none from another, only with ``least_bad``.
    """
    if router_log and not servers:
        raise BadInput("no --server", "each server behind the router, as NAME=URL", "--server")
    plan = plans.load(plan_path)
    if tune and (design != "aggregated" or chunk_tokens not in chunk_sizes(plan)):
        raise BadInput(f"--design {design} with chunks of {chunk_tokens} tokens", "aggregated, and --chunk with one of the plan's sizes", "--tune",
                       f"They are {', '.join(map(str, chunk_sizes(plan)))}.")  # fmt: skip
    attached, say = Servers(plan, design, url, servers, chunk_tokens), say or sweep.aloud

    class Attached(sweep.Sweep):
        """Starts nothing, and sends to the one deployment that is up."""

        measure = staticmethod(_measure)
        alone = False  # the other design's servers may be up at the same time

        def expect(self, cases: Sequence[sweep.Case]) -> None:
            super().expect([case for case in cases if self.is_up(case)])

        @staticmethod
        def is_up(case: sweep.Case) -> bool:
            return case.design == design and (not tune or case.chunk_tokens == chunk_tokens)

        def _deploy(self, directory: Path, cases: Sequence[sweep.Case]) -> None:
            if not self.is_up(cases[0]):
                return
            up, log = (attached.alone(), None) if cases[0].replicas else (attached, router_log)
            about = self.about | {"versions": up.provenance()["versions"] | {"model": up.provenance()["model"]}}
            sweep.first_requests(up.url, up)  # type: ignore[arg-type]
            for case in cases:
                self._run(directory, case, up, up.url, log, about)  # type: ignore[arg-type]

    opened = sweep.opened(plan_path, out, True, say, Attached)
    if tune:
        return _tune(opened, plan_path, least_bad)
    chunk, choice = attached.chunk_tokens, tuned.chosen(out / sweep.TUNING, say) if design == "aggregated" else None
    if choice not in (None, chunk):
        say(f"NOT AS TUNED: these servers have chunks of {chunk} tokens; the tuning in {out} chose {choice}.")
    single = [sweep.single_case(plan, chunk)] if choice == chunk and len(attached.servers) > 1 else []
    main = sweep.main_cases(plan, chunk)
    opened.expect([*single, *main])
    for case in single:
        opened.group(out / sweep.TUNING, plan_path, [case], among=sweep.tuning_cases(plan))
        opened.single = (case.rate_rps, sweep.goodput(plan, out / sweep.TUNING / case.name))
    opened.group(out, plan_path, main)
    return None


def _tune(attached: sweep.Sweep, plan_path: Path, least_bad: bool) -> int | None:
    """This chunk size's run; with all there, the choice."""
    plan, directory, cases = attached.plan, attached.out / sweep.TUNING, sweep.tuning_cases(attached.plan)
    attached.expect(cases)
    attached.group(directory, plan_path, cases)
    if left := [str(case.chunk_tokens) for case in cases if not client.is_finished(directory / case.name)]:
        attached.say(f"still to be tried: chunks of {', '.join(left)} tokens")
        return None
    choice = tuned.choose(plan, sweep.tuning_runs(plan, attached.out))
    for line in choice.lines():
        attached.say(line)
    if not choice.told_apart and not least_bad:
        raise Failed(
            f"At {choice.rate_rps:g} requests/s, the plan's highest rate, no chunk size let any request meet its targets: that "
            "tells none from another. Tune with a plan whose highest rate is lower. To take the size with the shortest gaps "
            "all the same: --least-bad, which `pdlab plan render --tune` takes as well."
        )
    tuned.keep(directory, choice)
    best = choice.chunk_tokens
    attached.say(f"TUNED: chunks of {best} tokens. Render the comparison with --chunk {best} (pdlab plan render).")
    return best


def _measure(
    plan: plans.Plan, case: sweep.Case, trace: workload.Trace, servers: Servers, url: str, directory: Path, log: Path | None, *more: Any
) -> records.Run:
    """One run, its cold requests salted; without a log of the course's router with the client alone."""
    if log is None:
        return _run_case(plan, case, trace, servers, url, directory, *more)
    return sweep.run_case(plan, case, trace, servers, url, directory, log, *more, salted=True)  # type: ignore[arg-type]


def _run_case(
    plan: plans.Plan, case: sweep.Case, trace: workload.Trace, servers: Servers, url: str, directory: Path,
    about: dict[str, Any], resume: bool, progress: Callable[[float, float], None] | None = None,
) -> records.Run:  # fmt: skip
    """``sweep.run_case`` without a router of ours: the client alone."""
    size, warmup = sweep.vocab_size(servers.model.path), plan.comparison.warmup_requests
    sent = sweep.salt(case, load.offers(trace, servers.model_name, size, warmup, sweep.ids(case)))
    document = sweep.described(plan, case, trace, about, {
        "budget": {"count": servers.budget.units, "unit": plan.budget_unit},
        "servers": servers.provenance()["spec"], "budget_split": servers.describe_budget(),
    })  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    options = sweep.client_options(plan, case, len(sent))
    return client.run_load(f"{url}/v1/completions", sent, directory, document, options, resume, progress)


def _first(answer: Mapping[str, Any], url: str) -> Mapping[str, Any]:
    listed = answer.get("data")
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict) or "id" not in listed[0]:
        raise BadInput("no list of models", "a server that lists its model", url)
    return listed[0]


def _get(url: str) -> dict[str, Any]:
    try:
        with direct.opened(url, 30) as answer:
            return parse_object(answer.read(), url)
    except (OSError, http.client.HTTPException) as error:
        raise BadInput(f"no answer ({error})", "a running server", url) from error
