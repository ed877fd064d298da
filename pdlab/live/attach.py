"""A sweep's runs of one design, on servers that somebody else has started.

Client, requests and records are those of ``pdlab.live.sweep``.  What runs is asked of the servers
themselves: their version, and with VLLM_SERVER_DEV_MODE=1 their whole configuration.  Which GPUs they
stand on is not seen from here: the budget is the plan's, and the record says so.
"""

from __future__ import annotations

import http.client
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pdlab.documents import parse_json
from pdlab.errors import BadInput
from pdlab.live import client, load, sweep
from pdlab.measure import plan as plans
from pdlab.measure import records, workload

TOLD = ("max_num_batched_tokens", "max_num_seqs", "block_size", "tensor_parallel_size", "gpu_memory_utilization",
        "max_model_len", "dtype", "enforce_eager", "kv_connector", "kv_role", "enable_prefix_caching")  # fmt: skip


class Servers:
    """What a sweep needs to know of a deployment, of one that it did not start."""

    def __init__(self, plan: plans.Plan, design: str, url: str, servers: Mapping[str, str], chunk_tokens: int | None) -> None:
        self.url, self.design, self.plan = url.rstrip("/"), design, plan
        self.servers = [SimpleNamespace(name=name, base_url=address.rstrip("/")) for name, address in servers.items()]
        listed = _first(_get(f"{self.url}/v1/models"), self.url)
        self.model_name = str(listed["id"])
        self.model = SimpleNamespace(name=self.model_name, path=str(listed.get("root") or self.model_name))
        self.budget = SimpleNamespace(units=plan.used(design))  # type: ignore[arg-type]
        self.versions = {server.name: str(_get(f"{server.base_url}/version").get("version")) for server in self.servers}
        self.told = {server.name: told(server.base_url) for server in self.servers}
        if len(found := set(self.versions.values())) > 1:
            raise BadInput(f"engines {', '.join(sorted(found))}", "one version behind one router", "--server")
        for name, settings in self.told.items():
            chunk = settings.get("max_num_batched_tokens")
            if design == "aggregated" and chunk_tokens is not None and chunk not in (None, chunk_tokens):
                raise BadInput(f"{name} with chunks of {chunk} tokens", f"{chunk_tokens}, as --chunk says", "--server",
                               "Start it with that --max-num-batched-tokens, or give --chunk what it has.")  # fmt: skip

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
    """What a server says of its own settings; empty where it keeps that to itself."""
    try:
        document = _get(f"{base_url}/server_info?config_format=json")["vllm_config"]
    except (BadInput, KeyError):
        return {}
    found: dict[str, Any] = {}
    parts = [document] if isinstance(document, dict) else []
    while parts:
        part = parts.pop()
        found |= {key: part[key] for key in TOLD if isinstance(part.get(key), (str, int, float, bool))}
        parts += [value for value in part.values() if isinstance(value, dict)]
    return found


def run(
    plan_path: Path, out: Path, design: str, url: str, servers: Mapping[str, str], router_log: Path | None,
    chunk_tokens: int | None = None, say: sweep.Say | None = None,
) -> Path:  # fmt: skip
    """The plan's runs of ``design`` below ``out``; those of the other design are left for another call.

    What is there already is kept, and an interrupted run goes on.  ``servers`` is name → address.
    Without a ``router_log`` something else than the course's router stands in front (Ray's proxy):
    rows then carry no route, and a cold run makes cached prefixes useless by a salt, since nobody
    there can be asked to empty the caches.
    """
    if router_log and not servers:
        raise BadInput("no --server", "each server behind the router, as NAME=URL", "--server")
    attached = Servers(plans.load(plan_path), design, url, servers, chunk_tokens)

    class Attached(sweep.Sweep):
        """Starts nothing."""

        measure = staticmethod(sweep.run_case if router_log else _run_case)
        alone = False  # the other design's servers may be up at the same time

        def expect(self, cases: Sequence[sweep.Case]) -> None:
            super().expect([case for case in cases if case.design == design])

        def _deploy(self, directory: Path, cases: Sequence[sweep.Case]) -> None:
            if cases[0].design != design:
                return
            about = self.about | {"versions": attached.provenance()["versions"] | {"model": attached.provenance()["model"]}}
            sweep.first_requests(attached.url, attached)  # type: ignore[arg-type]
            for case in cases:
                self._run(directory, case, attached, attached.url, router_log, about)  # type: ignore[arg-type]

    options = {"say": say} if say else {}
    return sweep.run_sweep(plan_path, out, True, False, chunk_tokens, kind=Attached, **options)


def _run_case(
    plan: plans.Plan, case: sweep.Case, trace: workload.Trace, servers: Servers, url: str, directory: Path, log: None,
    about: dict[str, Any], resume: bool, progress: Callable[[float, float], None] | None = None,
) -> records.Run:  # fmt: skip
    """``sweep.run_case`` without a router of ours: the client alone."""
    size, warmup = sweep.vocab_size(servers.model.path), plan.comparison.warmup_requests
    sent = load.offers(trace, servers.model_name, size, warmup, sweep.ids(case))
    if case.cache_state == "cold":
        salt = f"{case.name} {time.time_ns()}"
        sent = [replace(offer, body=offer.body | {"cache_salt": salt}) for offer in sent]
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
    client.endpoint(url)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = parse_json(answer.read(), url)
        if not isinstance(found, dict):
            raise BadInput(f"a JSON {type(found).__name__}", "a JSON object", url)
        return found
    except (OSError, http.client.HTTPException) as error:
        raise BadInput(f"no answer ({error})", "a running server", url) from error
