"""A deployment on paper: the servers of one side of a plan, where each stands, and its exact command.

The words are those of ``pdlab.live.spec``, with which this course starts servers itself.  What differs
from target to target is how machines are called (``Naming``); the words of a command may hold shell
variables (``shell.variable``), which the target's own text defines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pdlab.errors import BadInput
from pdlab.live import budget, models
from pdlab.live.render import shell
from pdlab.live.spec import LOOPBACK, Role, Spec
from pdlab.measure import link_need
from pdlab.measure.plan import Plan

Design = Literal["aggregated", "disaggregated"]
DESIGNS: tuple[Design, ...] = ("aggregated", "disaggregated")
ROUTER_PORT, FIRST_PORT, FIRST_SIDE_CHANNEL, LINK_PORT = 8000, 8100, 5600, 7600
SIDE_CHANNEL_STEP = 10  # vLLM adds the data-parallel rank to the port
ROUTER_URL = f"http://{LOOPBACK}:{ROUTER_PORT}"
MODELS = shell.variable("models")  # the folder of the models that ``pdlab model get`` makes
LIVE = shell.variable("live")  # the environment that servers run in
START_MINUTES = 15  # to load weights on every rank, and to compile
SMALL_BYTES = "1M"  # beside a whole prompt's KV, so that setup can be told from bandwidth


@dataclass(frozen=True)
class Naming:
    """How the server ``name`` of node ``n`` calls its own address, and how the others call it."""

    own: Callable[[int, str], str]
    seen: Callable[[int, str], str]


HERE = Naming(lambda node, name: LOOPBACK, lambda node, name: LOOPBACK)


@dataclass(frozen=True)
class Asked:
    """What is to be rendered: a plan and its file, one design or both, and what replaces the plan's own words."""

    plan: Plan
    path: Path
    designs: tuple[Design, ...] = DESIGNS
    model: str | None = None
    chunk_tokens: int | None = None
    image: str | None = None  # the course's own, for targets whose pods need one


@dataclass(frozen=True)
class Server:
    """One vLLM server.  ``units`` are GPUs of its node, or cores; ``settings`` its environment."""

    name: str
    role: Role
    node: int
    units: tuple[int, ...]
    url: str
    settings: dict[str, str]
    command: tuple[str, ...]


@dataclass(frozen=True)
class Preflight:
    """The two ends that measure the link before the sweep: where each runs, and its command."""

    listen_node: int
    listen_units: tuple[int, ...]
    listen: tuple[str, ...]
    peer_node: int
    peer_units: tuple[int, ...]
    peer: tuple[str, ...]
    how: str


@dataclass(frozen=True)
class Sheet:
    """One side of a plan: servers, router and the runs against it.  ``pdlab`` begins the last three."""

    design: Design
    servers: tuple[Server, ...]
    router: tuple[str, ...]
    attach: tuple[str, ...]


def chunk_of(asked: Asked) -> int:
    """The chunk size of aggregated serving: what was asked for, else the plan's largest."""
    return asked.chunk_tokens or max(asked.plan.live_section.max_num_batched_tokens)


def model_of(asked: Asked) -> models.Model:
    """The plan's model, or a folder (it need not be on this machine) or hub id instead of it."""
    name = asked.model or asked.plan.live_section.model
    if name in models.MADE:
        return models.Model(name, f"{MODELS}/{name}", True, None)
    if name.startswith("/") and (folder := Path(name).name) and not folder.startswith("-"):
        return models.Model(folder, name, True, None)
    if models.HUB_ID.fullmatch(name):
        return models.Model(name, name, False, None)
    expected = f"{', '.join(models.MADE)}, an absolute path, or a Hugging Face id such as org/name"
    raise BadInput(f"model {name!r}", expected, "--model")


def sheet(asked: Asked, design: Design, plan_path: str, out: str, pdlab: str, naming: Naming = HERE) -> Sheet:
    """One side of the plan.  ``plan_path``, ``out`` and ``pdlab`` are words as the target writes them."""
    plan = asked.plan
    live, chunk = plan.live_section, chunk_of(asked)
    spec = Spec.from_plan(plan, design, chunk if design == "aggregated" else None)
    places = _places(plan, spec)
    model, shares = model_of(asked), budget.Budget(spec.device, tuple(units for _, units in places))  # type: ignore[arg-type]
    servers = []
    for index, (name, role) in enumerate(zip(spec.names(), spec.roles(), strict=True)):
        (node, units), port = places[index], FIRST_PORT + index
        own = naming.own(node, name)
        settings = spec.settings(model, shares, units, FIRST_SIDE_CHANNEL + SIDE_CHANNEL_STEP * index, own)
        command = _command(spec.arguments(role, model, live.device, port, own), live.device)
        servers.append(Server(name, role, node, units, f"http://{naming.seen(node, name)}:{port}", settings, command))
    log = f"{out}/logs/router-{design}.jsonl"
    runs = [pdlab, "attach", plan_path, "--design", design, "--url", ROUTER_URL, "--router-log", log, "--out", out]
    if design == "aggregated":
        runs += ["--chunk", str(chunk)]
    runs += [word for server in servers for word in ("--server", f"{server.name}={server.url}")]
    return Sheet(design, tuple(servers), _router(plan, design, servers, pdlab, log), tuple(runs))


def preflight(plan: Plan, pdlab: str, naming: Naming = HERE) -> Preflight | None:
    """What measures the link between a prefill and a decode server; None where the plan asks nothing of it."""
    if (need := link_need.of(plan)) is None:
        return None
    spec = Spec.from_plan(plan, "disaggregated")
    places, first_decode = _places(plan, spec), spec.prefill
    (there, units), (here, others) = places[0], places[first_decode]
    memory = "vram" if plan.live_section.device == "cuda" else "dram"
    both = ("--memory", memory)
    return Preflight(
        there, units[:1], (pdlab, "link", "--listen", f"{naming.own(there, 'link')}:{LINK_PORT}", *both),
        here, others[:1],
        (pdlab, "link", "--peer", f"{naming.seen(there, 'link')}:{LINK_PORT}", *both,
         "--sizes", f"{SMALL_BYTES},{need.message_bytes}", "--descriptor-bytes", str(need.piece_bytes),
         "--at-least-gb-s", f"{need.gb_s:.2f}"),
        need.how,
    )  # fmt: skip


def analyze(plan_path: str, out: str, pdlab: str) -> tuple[str, ...]:
    """What judges the finished runs."""
    return (pdlab, "analyze", out, "--plan", plan_path)


def minutes(plan: Plan, designs: int) -> int:
    """All runs of the plan, warm-up included, and a start for each design."""
    compared = plan.comparison
    runs_s = sum(compared.warmup_requests / rate + compared.duration_seconds + 10 for rate in compared.offered_rates_rps)
    return math.ceil(designs * (START_MINUTES + len(compared.cache_state) * runs_s / 60))


def _places(plan: Plan, spec: Spec) -> list[tuple[int, tuple[int, ...]]]:
    """Node and units of each server, dealt in order; a replica never crosses a node (the plan is refused)."""
    live, count = plan.live_section, len(spec.roles())
    each = spec.tensor_parallel if live.device == "cuda" else live.threads_per_server
    per_node = live.gpus_per_node or count * each
    starts = [index * each for index in range(count)]
    return [(start // per_node, tuple(range(start % per_node, start % per_node + each))) for start in starts]


def _command(arguments: list[str], device: str) -> tuple[str, ...]:
    """vLLM's command line.  Its CPU package has no working ``vllm`` command, so there it is a module."""
    if device == "cpu":
        return (f"{LIVE}/bin/python", *arguments)
    words = arguments[2:]  # after -m and the module's name
    at = words.index("--model")
    return (f"{LIVE}/bin/vllm", "serve", words[at + 1], *words[:at], *words[at + 2 :])


def _router(plan: Plan, design: Design, servers: Sequence[Server], pdlab: str, log: str) -> tuple[str, ...]:
    """As the sweep starts it: the same rule, and deadlines that leave the first word to the client's."""
    flags = {"aggregated": "--worker", "prefill": "--prefill", "decode": "--decode"}
    words = [pdlab, "router", *(word for server in servers for word in (flags[server.role], server.url))]
    if design == "disaggregated":
        words += ["--policy", plan.deployments.disaggregated.routing]
    late = f"{plan.comparison.request_deadline_seconds + 5:g}"
    for name in ("prefill", "first-token", "request"):
        words += [f"--{name}-deadline", late]
    return (*words, "--port", str(ROUTER_PORT), "--log", log)
