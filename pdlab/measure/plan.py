"""The comparison plan: one YAML file that says, before anything runs, what will be compared and how it is judged.

A plan is refused when it has an unknown key, an unfilled ``<placeholder>``, an impossible value,
or two sides with different budgets.  Every message gives the path, what was found, and what was expected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pdlab.documents import parse_yaml, read_yaml
from pdlab.errors import BadInput
from pdlab.theory._check import shown

MOST = 10**9  # of anything: beyond it, a product of two numbers of a plan no longer means anything
Count = Annotated[int, Field(ge=1, le=MOST)]
Positive = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

NUMERATOR = "successful_requests_meeting_all_three_latency_conditions"
ALL_OFFERED = "all_offered_requests_after_warmup_including_rejections_and_timeouts"
SUCCESSFUL_ONLY = "successful_requests_after_warmup"
PLACEHOLDER = re.compile(r"<[^<>]*>")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


class Comparison(_Section):
    """What both sides share.  The budget is ``total_gpus``, or ``total_cpu_cores`` where there is no GPU."""

    model_revision: str  # name, or name@revision
    engine_version: str
    total_gpus: Count | None = None
    total_cpu_cores: Count | None = None
    gpu_type: str | None = None
    cpu_type: str | None = None
    network_and_host_budget: str
    warmup_requests: Annotated[int, Field(ge=0, le=MOST)]
    offered_rates_rps: Annotated[list[Positive], Field(min_length=1)]
    output_tokens_minimum_for_tpot: Annotated[int, Field(ge=2, le=MOST)] = 2
    request_deadline_seconds: Positive
    precision: str
    workload_trace: str
    cache_state: Annotated[list[Literal["cold", "warm"]], Field(min_length=1)]
    duration_seconds: Positive

    @model_validator(mode="after")
    def _check(self) -> Comparison:
        if (self.total_gpus is None) == (self.total_cpu_cores is None):
            raise ValueError("exactly one of total_gpus and total_cpu_cores is the budget")
        if self.total_gpus is not None and self.gpu_type is None:
            raise ValueError("gpu_type is missing: a number of GPUs is no budget without their type")
        if self.total_cpu_cores is not None and self.cpu_type is None:
            raise ValueError("cpu_type is missing: a number of cores is no budget without their type")
        if sorted(set(self.offered_rates_rps)) != self.offered_rates_rps:
            raise ValueError("offered_rates_rps must rise, each rate once (requests/s)")
        if len(set(self.cache_state)) != len(self.cache_state):
            raise ValueError("cache_state names a state twice")
        return self

    @property
    def model(self) -> str:
        """The model's name, without its revision."""
        return self.model_revision.partition("@")[0]

    @property
    def revision(self) -> str | None:
        """The revision after ``@``, if any."""
        return self.model_revision.partition("@")[2] or None


class Aggregated(_Section):
    """Every replica prefills and decodes."""

    description: str = ""
    replicas: Count
    tensor_parallel: Count
    pipeline_parallel: Count = 1

    @property
    def workers(self) -> int:
        """Accelerators used, one for each tensor- and pipeline-parallel rank."""
        return self.replicas * self.tensor_parallel * self.pipeline_parallel


class Disaggregated(_Section):
    """A pool that prefills and a pool that decodes."""

    description: str = ""
    prefill_replicas: Count
    decode_replicas: Count
    tensor_parallel_per_replica: Count
    pipeline_parallel_per_replica: Count = 1
    kv_transport: str
    routing: Annotated[str, Field(min_length=1)] = "all-remote"  # a rule's name, as the router takes it

    @property
    def workers(self) -> int:
        """Accelerators used by both pools."""
        per_replica = self.tensor_parallel_per_replica * self.pipeline_parallel_per_replica
        return (self.prefill_replicas + self.decode_replicas) * per_replica


class Deployments(_Section):
    """The two sides."""

    aggregated: Aggregated
    disaggregated: Disaggregated


class Metrics(_Section):
    """What is recorded on both sides."""

    client: list[Literal["ttft", "tpot", "itl", "e2e", "errors", "goodput"]]
    scheduler: list[Literal["prefill_queue", "decode_queue", "running", "rejected"]]
    kv_transfer: list[Literal["bytes", "setup_ms", "transfer_ms", "failures"]]


class Acceptance(_Section):
    """When a request is good, and when a run is.

    A latency limit of null means that the condition is not asked for.
    ``one_token_policy``: an answer with fewer tokens than TPOT needs is ``not_met`` (counts, is not
    good), ``met_without_tpot`` (judged on its other conditions), or ``excluded`` (leaves numerator
    and denominator).
    """

    ttft_max_ms: Positive | None
    tpot_max_ms: Positive | None
    max_itl_per_request_ms: Positive | None
    numerator: Literal["successful_requests_meeting_all_three_latency_conditions"] = NUMERATOR
    denominator: Literal[
        "all_offered_requests_after_warmup_including_rejections_and_timeouts",
        "successful_requests_after_warmup",
    ] = ALL_OFFERED
    slo_attainment_min: Share
    error_rate_max: Share
    require_no_sustained_queue_growth: bool
    one_token_policy: Literal["not_met", "met_without_tpot", "excluded"] = "not_met"


class Nixl(_Section):
    """Transfer settings of the live pair."""

    backends: Annotated[list[str], Field(min_length=1)] = ["UCX"]
    buffer_device: Literal["cpu", "cuda", "xpu"] = "cpu"
    lease_seconds: Positive = 30
    progress_thread_delay_us: Annotated[int, Field(ge=0, le=MOST)] = 200
    load_failure_policy: Literal["fail", "recompute"] = "fail"


class Link(_Section):
    """What the link between a prefill rank and a decode rank has to give, to be measured before a sweep.

    Either its rate is stated, or a budget for the hand-off of one prompt, from which the rate follows
    (``pdlab.measure.link_need``).  ``kv_config`` is a model's config.json, or the name of a shipped one.
    """

    kv_config: str
    prompt_tokens: Count
    gb_s_per_rank: Positive | None = None  # sustained payload
    handoff_budget_ms: Positive | None = None
    setup_ms: Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)] = 0

    @model_validator(mode="after")
    def _check(self) -> Link:
        if (self.gb_s_per_rank is None) == (self.handoff_budget_ms is None):
            raise ValueError("exactly one of gb_s_per_rank and handoff_budget_ms says what the link must give")
        if self.handoff_budget_ms is not None and self.setup_ms >= self.handoff_budget_ms:
            raise ValueError("setup_ms leaves nothing of handoff_budget_ms for the bytes")
        return self


class Live(_Section):
    """How the servers of a live run are started.  Left out of a plan that is only simulated.

    KV space is ``kv_cache_bytes`` a server on a CPU, ``gpu_memory_utilization`` of each GPU there.
    """

    device: Literal["cpu", "cuda"]
    model: str  # the launcher's short name for a model, a local path, or a hub id
    dtype: Literal["float32", "bfloat16", "float16"]
    threads_per_server: Count = 1  # on CPU: cores a rank may use
    kv_cache_bytes: Annotated[int, Field(ge=1, le=10**15)] | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    gpus_per_node: Count | None = None
    max_model_len: Count
    block_size: Count
    max_num_batched_tokens: Annotated[list[Count], Field(min_length=1)]  # chunk sizes to tune over
    max_num_seqs: Count = 64
    enforce_eager: bool = True
    nixl: Nixl = Nixl()
    link: Link | None = None

    @model_validator(mode="after")
    def _check(self) -> Live:
        if self.device == "cpu" and self.kv_cache_bytes is None:
            raise ValueError("kv_cache_bytes is missing: a server on a CPU has to be told")
        for name in ("gpu_memory_utilization", "gpus_per_node"):
            if (getattr(self, name) is None) == (self.device == "cuda"):
                raise ValueError(f"{name} belongs to device cuda, and only there")
        return self


class Plan(_Section):
    """A whole plan file."""

    comparison: Comparison
    deployments: Deployments
    metrics: Metrics
    acceptance: Acceptance
    live: Live | None = None

    @property
    def live_section(self) -> Live:
        """How servers start; BadInput for a plan that does not say."""
        if self.live is None:
            raise BadInput("a plan without a live section", "one that says how servers start", "plan",
                           "Without it a plan can only be simulated.")  # fmt: skip
        return self.live

    @property
    def budget_unit(self) -> str:
        """``GPU`` or ``CPU core``."""
        return "GPU" if self.comparison.total_gpus is not None else "CPU core"

    @property
    def budget(self) -> int:
        """What each side may use, in ``budget_unit``."""
        return self.comparison.total_gpus or self.comparison.total_cpu_cores or 0

    @property
    def nodes(self) -> int:
        """Machines that one side stands on."""
        return self.budget // self.live.gpus_per_node if self.live and self.live.gpus_per_node else 1

    def used(self, design: Literal["aggregated", "disaggregated"]) -> int:
        """What one side uses, in ``budget_unit``: ranks, times the cores a rank may use on CPUs."""
        workers = getattr(self.deployments, design).workers
        cores = self.live.threads_per_server if self.live and self.budget_unit == "CPU core" else 1
        return workers * cores


# ---------------------------------------------------------------- reading and checking


def load(path: str | Path) -> Plan:
    """The plan in a YAML file, checked; ``BadInput`` names the path of what is wrong."""
    return from_dict(read_yaml(path), str(path))


def parse(text: str, where: str = "plan") -> Plan:
    """The plan in YAML ``text``, checked."""
    return from_dict(parse_yaml(text, where), where)


def from_dict(document: Any, where: str = "plan") -> Plan:
    """The plan in a mapping, checked: placeholders first, then keys and values, then the budget."""
    if not isinstance(document, dict):
        raise BadInput(f"a {type(document).__name__}", "a mapping with comparison, deployments, …", where)
    unfilled = list(_placeholders(document))
    if unfilled:
        found = "; ".join(f"{path}: {text!r}" for path, text in unfilled[:20])
        raise BadInput(
            f"{len(unfilled)} unfilled placeholder{'s' * (len(unfilled) > 1)} ({found})", "a value", where,
            "Fill each in before running anything: a plan is a promise about what will be compared.",
        )  # fmt: skip
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        raise _bad(error, where) from None
    _check_budget(plan, where)
    _check_nodes(plan, where)
    return plan


def _placeholders(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _placeholders(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _placeholders(value, f"{path}[{i}]")
    elif isinstance(node, str) and (match := PLACEHOLDER.search(node)):
        yield path, match.group()


def _unit(path: str) -> str:
    """The unit that a key's name says, for messages."""
    for ending, unit in (("_ms", "ms"), ("_rps", "requests/s"), ("_seconds", "s"), ("_bytes", "bytes"),
                         ("_gpus", "GPUs"), ("_cores", "cores")):  # fmt: skip
        if ending in path.rsplit(".", 1)[-1]:
            return f" ({unit})"
    return ""


def _bad(error: ValidationError, where: str) -> BadInput:
    """pydantic's complaints as one ``BadInput``, the first in full and the others counted."""
    problems = error.errors()
    first = problems[0]
    path = ""
    for part in first["loc"]:
        path += f"[{part}]" if isinstance(part, int) else (f".{part}" if path else str(part))
    path = path or "plan"
    if first["type"] == "extra_forbidden":
        parent = Plan
        for part in first["loc"][:-1]:
            parent = _section(parent, str(part))
        found, expected = "an unknown key", "one of " + ", ".join(parent.model_fields)
    elif first["type"] == "missing":
        found, expected = "nothing", "a value" + _unit(path)
    elif first["type"] == "value_error":
        found, expected = str(first["ctx"]["error"]), "a plan that can be carried out"
    else:
        message = first["msg"]
        found, expected = shown(first["input"]), message[0].lower() + message[1:] + _unit(path)
    more = f"{len(problems) - 1} more to mend after it." if len(problems) > 1 else ""
    return BadInput(found, expected, f"{where}, {path}", more)


def _section(model: type[BaseModel], name: str) -> type[BaseModel]:
    annotation = model.model_fields[name].annotation
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return model


def _check_budget(plan: Plan, where: str) -> None:
    unit, allowed = plan.budget_unit, plan.budget
    total = "comparison.total_gpus" if unit == "GPU" else "comparison.total_cpu_cores"
    used = {design: plan.used(design) for design in ("aggregated", "disaggregated")}
    if used["aggregated"] != used["disaggregated"]:
        raise BadInput(
            f"{used['aggregated']} {unit}s for aggregated and {used['disaggregated']} {unit}s for disaggregated",
            f"the same number on both sides ({total}: {allowed})", f"{where}, deployments",
            "An unequal budget answers another question.",
        )  # fmt: skip
    if used["aggregated"] != allowed:
        raise BadInput(
            f"{used['aggregated']} {unit}s on each side", f"{total}: {allowed}", f"{where}, deployments"
        )


def _check_nodes(plan: Plan, where: str) -> None:
    """Every node full, and no replica across nodes: its ranks talk too often for the network between."""
    if plan.live is None or plan.live.gpus_per_node is None:
        return
    each, sides = plan.live.gpus_per_node, plan.deployments
    if plan.budget % each:
        raise BadInput(
            f"{plan.budget} GPUs on nodes of {each}", "whole nodes", f"{where}, live.gpus_per_node"
        )
    both = (sides.aggregated.tensor_parallel * sides.aggregated.pipeline_parallel,
            sides.disaggregated.tensor_parallel_per_replica * sides.disaggregated.pipeline_parallel_per_replica)  # fmt: skip
    for ranks in both:
        if each % ranks:
            raise BadInput(
                f"a replica of {ranks} GPUs on nodes of {each}", "replicas that fill a node without a rest",
                f"{where}, live.gpus_per_node",
            )  # fmt: skip


def sha256(path: str | Path) -> str:
    """The digest of a plan file, for a run's ``plan_sha256``."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
