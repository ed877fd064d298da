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
from pdlab.live import LOOPBACK, budget, models
from pdlab.live.render import shell
from pdlab.live.spec import Role, Spec, chunk_sizes
from pdlab.measure import link_need
from pdlab.measure.plan import Plan

Design = Literal["aggregated", "disaggregated"]
DESIGNS: tuple[Design, ...] = ("aggregated", "disaggregated")
ROUTER_PORT, FIRST_PORT, FIRST_SIDE_CHANNEL, LINK_PORT = shell.ROUTER_PORT, shell.FIRST_PORT, 5600, 7600
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
    """What is to be rendered: a plan and its file, one design or both, and what replaces the plan's own words.

    ``tune`` renders what chooses aggregated serving's chunk size instead: each of the plan's sizes in turn.
    """

    plan: Plan
    path: Path
    target: str
    designs: tuple[Design, ...] = DESIGNS
    model: str | None = None
    chunk_tokens: int | None = None
    image: str | None = None  # the course's own, for targets whose pods need one
    tune: bool = False
    least_bad: bool = False

    @property
    def tuning(self) -> list[str]:
        """The options of a tuning, for the commands that take them."""
        return [*(["--tune"] if self.tune else []), *(["--least-bad"] if self.least_bad else [])]


@dataclass(frozen=True)
class Side:
    """One deployment of a rendering.  ``label`` tells it from the others; a chunk size is aggregated serving's."""

    design: Design
    chunk_tokens: int | None
    label: str


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
    """A :class:`Side` as commands: servers, router and the runs against it.  ``pdlab`` begins the last two."""

    design: Design
    label: str
    servers: tuple[Server, ...]
    router: tuple[str, ...]
    attach: tuple[str, ...]


def chunk_of(asked: Asked) -> int:
    """The chunk size of aggregated serving; BadInput where the plan names several and nobody has chosen."""
    if asked.chunk_tokens:
        return asked.chunk_tokens
    sizes = chunk_sizes(asked.plan)
    if len(sizes) > 1:
        raise BadInput(
            f"{len(sizes)} chunk sizes for aggregated serving ({', '.join(map(str, sizes))})", "one, chosen by a measurement", "--chunk",
            f"First run what `pdlab plan render {asked.path} --target {asked.target} --tune --out DIR` writes: its last words are the "
            "size to give with --chunk. Against an opponent that nobody tuned a comparison shows nothing.",
        )  # fmt: skip
    return sizes[0]


def remarks(plan: Plan, designs: Sequence[Design], chunk_tokens: int | None) -> list[str]:
    """What a reader should know of a choice beside the plan: that a chunk size is none of its own."""
    sizes = chunk_sizes(plan)
    if chunk_tokens is None or chunk_tokens in sizes or "aggregated" not in designs:
        return []
    return [
        f"Chunks of {chunk_tokens} tokens are none of the plan's sizes ({', '.join(map(str, sizes))}): no tuning of this plan tries "
        "them, and against an opponent that nobody tuned a comparison shows nothing."
    ]


def sides(asked: Asked) -> list[Side]:
    """What a rendering starts, in order: the designs, or for tuning aggregated serving with each chunk size."""
    if asked.tune:
        return [Side("aggregated", size, f"aggregated-{size}") for size in chunk_sizes(asked.plan)]
    return [Side(design, chunk_of(asked) if design == "aggregated" else None, design) for design in asked.designs]


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


def sheets(asked: Asked, plan_path: str, out: str, pdlab: str, naming: Naming = HERE) -> list[Sheet]:
    """All that is started, on paper.  ``plan_path``, ``out`` and ``pdlab`` are words as the target writes them."""
    return [_sheet(asked, side, plan_path, out, pdlab, naming) for side in sides(asked)]


def _sheet(asked: Asked, side: Side, plan_path: str, out: str, pdlab: str, naming: Naming) -> Sheet:
    plan, live = asked.plan, asked.plan.live_section
    spec = Spec.from_plan(plan, side.design, side.chunk_tokens)
    places = _places(plan, spec)
    model, shares = model_of(asked), budget.Budget(spec.device, tuple(units for _, units in places))  # type: ignore[arg-type]
    servers = []
    for index, (name, role) in enumerate(zip(spec.names(), spec.roles(), strict=True)):
        (node, units), port = places[index], FIRST_PORT + index
        own = naming.own(node, name)
        settings = spec.settings(model, shares, units, FIRST_SIDE_CHANNEL + SIDE_CHANNEL_STEP * index, own)
        command = _command(spec.arguments(role, model, live.device, port, own), live.device)
        servers.append(Server(name, role, node, units, f"http://{naming.seen(node, name)}:{port}", settings, command))
    log = f"{out}/logs/router-{side.label}.jsonl"
    runs = [*attach(asked, side, plan_path, out, pdlab), "--router-log", log]
    runs += [word for server in servers for word in ("--server", f"{server.name}={server.url}")]
    return Sheet(side.design, side.label, tuple(servers), _router(plan, side.design, servers, pdlab, log), tuple(runs))


def attach(asked: Asked, side: Side, plan_path: str, out: str, pdlab: str) -> list[str]:
    """What sends a side's load: the plan's runs, or for tuning the one run that a chunk size is judged by."""
    words = [pdlab, "attach", plan_path, "--design", side.design, "--url", ROUTER_URL, "--out", out]
    return [*words, *(["--chunk", str(side.chunk_tokens)] if side.chunk_tokens else []), *asked.tuning]


def link_first(asked: Asked) -> bool:
    """Whether the link is measured before anything else: for the plan's pair, and for a tuning, which comes before it."""
    return asked.tune or "disaggregated" in asked.designs


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
         "--at-least-gb-s", f"{need.gb_s:.4g}"),
        need.how,
    )  # fmt: skip


def analyze(plan_path: str, out: str, pdlab: str) -> tuple[str, ...]:
    """What judges the finished runs."""
    return (pdlab, "analyze", out, "--plan", plan_path, "--exit-zero")


def minutes(plan: Plan, sides: int, tune: bool = False) -> int:
    """All runs of so many sheets, warm-up included, and a start for each; tuning makes one run a sheet.

    Of the comparison each has one more, that of a single replica: enough for both, whichever it is of.
    """
    compared = plan.comparison
    every, last = compared.offered_rates_rps, compared.offered_rates_rps[-1:]
    rates = last if tune else every * len(compared.cache_state) + last
    runs_s = sum(compared.warmup_requests / rate + compared.duration_seconds + 10 for rate in rates)
    return math.ceil(sides * (START_MINUTES + runs_s / 60))


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
