"""What the reference plan's simulation consists of: eight small sweeps, point by point.

``main`` is the plan itself; the others vary one thing that a fair comparison has to look at
before it is believed: the chunk size of aggregated serving (for the plan's replicas and for
smaller ones), the split of the GPUs into pools, the draw of the arrivals, the link, and the prompt
length.  Every point keeps the plan's GPU count but those of ``single``: one replica alone, which
two replicas have to beat before a comparison with them says anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pdlab.errors import BadInput
from pdlab.measure.plan import Plan
from pdlab.measure.workload import Trace, cold, head, poisson_ms, scale_time, uniform

UPWARD_RPS = (10, 12, 14, 16, 20, 24, 28, 32)  # beyond the plan's own rates, until both sides saturate
UPWARD_REQUESTS = 1600  # at those rates a run is this many requests, at least 50 s of arrivals

DEFAULT_CHUNK = 8192  # the simulator's own max_batched_tokens, and vLLM's on an H100
CHUNKS = (256, 512, 1024, 2048, 4096, DEFAULT_CHUNK)
CHUNK_RPS, CHUNK_REQUESTS = (4, 8, 12, 14, 16), 1000
TUNED_CHUNK = 2048  # the choice that ``chunks`` justifies, and ``chunks-4xtp4``; tests hold it to the records
SMALL_CHUNK_RPS = (16, 18)  # what the smaller replicas carry with that chunk, and the next rate

SPLIT_RPS, SPLIT_REQUESTS = (12, 16, 18, 20, 22, 24), 1200

SINGLE_RPS = (8, 12)

DRAW_SEEDS = (101, 202, 303)  # three further draws of the same Poisson load

LINK_GB_S = 25.0  # sustained payload bandwidth of one rank's link, as the plan's text says
LINKS_GB_S = (10.0, LINK_GB_S, 100.0)
LINK_REQUESTS = 300

PROMPT_RPS = {300: (8, 24, 48), 2000: (2, 8, 12), 8192: (0.5, 2, 3)}
PROMPT_REQUESTS = 600


@dataclass(frozen=True, slots=True)
class Pool:
    """Identical workers: ``replicas`` of ``tensor`` GPUs each."""

    replicas: int
    tensor: int

    @property
    def gpus(self) -> int:
        """GPUs in the pool."""
        return self.replicas * self.tensor

    def __str__(self) -> str:
        return f"{self.replicas}xtp{self.tensor}"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the GPUs are used: one pool that does everything, or two."""

    aggregated: Pool | None = None
    prefill: Pool | None = None
    decode: Pool | None = None

    @property
    def pools(self) -> dict[str, Pool]:
        """The pools by the simulator's role names."""
        roles = {"aggregated": self.aggregated, "prefill": self.prefill, "decode": self.decode}
        return {role: pool for role, pool in roles.items() if pool}

    @property
    def gpus(self) -> int:
        """GPUs in all pools."""
        return sum(pool.gpus for pool in self.pools.values())

    def __str__(self) -> str:
        if self.aggregated:
            return f"aggregated {self.aggregated}"
        return f"disaggregated {self.prefill} to {self.decode}"


SMALL_REPLICAS = Layout(Pool(4, 4))
BEST_SPLIT = Layout(prefill=Pool(3, 4), decode=Pool(1, 4))
OTHER_LAYOUTS = (
    SMALL_REPLICAS,
    BEST_SPLIT,
    Layout(prefill=Pool(2, 4), decode=Pool(2, 4)),
    Layout(prefill=Pool(1, 4), decode=Pool(3, 4)),
    Layout(prefill=Pool(2, 4), decode=Pool(1, 8)),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One simulated run."""

    group: str
    design: str
    layout: Layout
    rate_rps: float
    requests: int  # measured ones, after the plan's warm-up
    cache_state: str = "cold"
    chunk_tokens: int = DEFAULT_CHUNK
    link_gb_s: float = LINK_GB_S
    prompt_tokens: int | None = None  # None: as the plan's trace says
    arrivals_seed: int | None = None  # None: the gaps of the plan's trace

    @property
    def name(self) -> str:
        """A directory name, unique within the group."""
        return f"{self.design.replace(',', '').replace(' ', '-')}-{self.cache_state}-{self.rate_rps:g}rps"

    @property
    def path(self) -> str:
        """The run's directory below the output folder."""
        return f"{self.group}/{self.name}"


def points(plan: Plan) -> list[Point]:
    """Every point of the sweep, in the order in which they are run."""
    sweeps = (_main, _single, _chunks, _small_chunks, _splits, _draws, _links, _prompts)
    return [point for sweep in sweeps for point in sweep(plan)]


def plan_layouts(plan: Plan) -> dict[str, Layout]:
    """The plan's two sides, by name."""
    one, two = plan.deployments.aggregated, plan.deployments.disaggregated
    if (one.pipeline_parallel, two.pipeline_parallel_per_replica) != (1, 1):
        raise BadInput("pipeline_parallel above 1", "1", "deployments",
                       "The sweep models tensor parallelism only.")  # fmt: skip
    tensor = two.tensor_parallel_per_replica
    return {
        "aggregated": Layout(Pool(one.replicas, one.tensor_parallel)),
        "disaggregated": Layout(
            prefill=Pool(two.prefill_replicas, tensor), decode=Pool(two.decode_replicas, tensor)
        ),
    }


def _main(plan: Plan) -> Iterator[Point]:
    own = plan.comparison.offered_rates_rps
    upward = [rate for rate in UPWARD_RPS if rate > max(own)]
    for cache_state in plan.comparison.cache_state:
        for design, layout in plan_layouts(plan).items():
            chunk = TUNED_CHUNK if layout.aggregated else DEFAULT_CHUNK
            for rate in own:
                requests = round(rate * plan.comparison.duration_seconds)
                yield Point("main", design, layout, rate, requests, cache_state, chunk)
            for rate in upward:
                yield Point("main", design, layout, rate, UPWARD_REQUESTS, cache_state, chunk)


def _single(plan: Plan) -> Iterator[Point]:
    own = plan_layouts(plan)["aggregated"].aggregated
    alone = Layout(Pool(1, own.tensor))
    for rate in SINGLE_RPS:
        yield Point("single", "aggregated, one replica", alone, rate, UPWARD_REQUESTS, chunk_tokens=TUNED_CHUNK)


def _by_chunk(
    group: str, design: str, layout: Layout, chunks: Sequence[int], rates: Sequence[float], requests: int
) -> Iterator[Point]:
    for chunk in chunks:
        for rate in rates:
            yield Point(group, f"{design} chunk {chunk}", layout, rate, requests, chunk_tokens=chunk)


def _chunks(plan: Plan) -> Iterator[Point]:
    yield from _by_chunk("chunks", "aggregated", plan_layouts(plan)["aggregated"], CHUNKS, CHUNK_RPS, CHUNK_REQUESTS)


def _small_chunks(plan: Plan) -> Iterator[Point]:
    if SMALL_REPLICAS.gpus != plan.comparison.total_gpus:
        return
    others = [chunk for chunk in CHUNKS if chunk != TUNED_CHUNK]  # the runs with that one are among the splits
    yield from _by_chunk("chunks-4xtp4", "aggregated 4xtp4", SMALL_REPLICAS, others, SMALL_CHUNK_RPS, SPLIT_REQUESTS)


def _draws(plan: Plan) -> Iterator[Point]:
    if SMALL_REPLICAS.gpus != plan.comparison.total_gpus:
        return
    own = plan_layouts(plan)
    # What the layout carries on the plan's own trace, and two rates above.
    swept = (
        (own["aggregated"], UPWARD_REQUESTS, (14, 16, 20)),
        (own["disaggregated"], UPWARD_REQUESTS, (10, 12, 14)),
        (SMALL_REPLICAS, SPLIT_REQUESTS, (16, 18, 20)),
        (BEST_SPLIT, SPLIT_REQUESTS, (22, 24, 28)),
    )
    for seed in DRAW_SEEDS:
        for layout, requests, rates in swept:
            chunk = TUNED_CHUNK if layout.aggregated else DEFAULT_CHUNK
            for rate in rates:
                yield Point("draws", f"{layout} draw {seed}", layout, rate, requests,
                            chunk_tokens=chunk, arrivals_seed=seed)  # fmt: skip


def _splits(plan: Plan) -> Iterator[Point]:
    for layout in OTHER_LAYOUTS:
        if layout.gpus != plan.comparison.total_gpus:  # another budget answers another question
            continue
        chunk = TUNED_CHUNK if layout.aggregated else DEFAULT_CHUNK
        for rate in SPLIT_RPS:
            yield Point("splits", str(layout), layout, rate, SPLIT_REQUESTS, chunk_tokens=chunk)


def _links(plan: Plan) -> Iterator[Point]:
    layout = plan_layouts(plan)["disaggregated"]
    for prompt, rates in PROMPT_RPS.items():
        for link in LINKS_GB_S:
            design = f"disaggregated {prompt} tokens {link:g} GB_s"
            yield Point("links", design, layout, rates[0], LINK_REQUESTS,
                        link_gb_s=link, prompt_tokens=prompt)  # fmt: skip


def _prompts(plan: Plan) -> Iterator[Point]:
    for prompt, rates in PROMPT_RPS.items():
        for design, layout in plan_layouts(plan).items():
            chunk = TUNED_CHUNK if layout.aggregated else DEFAULT_CHUNK
            for rate in rates:
                yield Point("prompts", f"{design} {prompt} tokens", layout, rate, PROMPT_REQUESTS,
                            chunk_tokens=chunk, prompt_tokens=prompt)  # fmt: skip


def workload(point: Point, plan: Plan, base: Trace) -> Trace:
    """The point's requests: the plan's trace (one request/s), cut, made cold, and sped up.

    The first request comes at 0.  Every rate and every design meets the same prompts in the same
    pattern of gaps; a point with a seed of its own meets the gaps of that draw.
    """
    count = plan.comparison.warmup_requests + point.requests
    if len(base) < count:
        raise BadInput(
            f"{len(base)} requests in {base.origin}", f"at least {count}", "workload_trace",
            f"A run at {point.rate_rps:g} requests/s needs them.",
        )  # fmt: skip
    trace = head(base, count)
    arrivals_ms = [request.at_ms for request in trace]
    if point.arrivals_seed is not None:
        arrivals_ms = poisson_ms(1.0, count, point.arrivals_seed)
    arrivals_ms = [at - arrivals_ms[0] for at in arrivals_ms]
    if point.prompt_tokens is not None:
        output = trace.requests[0].output_tokens
        trace = uniform(point.prompt_tokens, output, arrivals_ms, base.block_tokens)
    else:
        moved = zip(trace, arrivals_ms, strict=True)
        trace = replace(trace, requests=tuple(replace(r, at_ms=at) for r, at in moved))
    return scale_time(cold(trace) if point.cache_state == "cold" else trace, 1 / point.rate_rps)
