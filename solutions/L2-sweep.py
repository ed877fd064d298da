# %% [markdown]
"""
# L2 · Two designs, two cores

**Time** 60 minutes. **Before this** notebooks 06 and 07: attainment, gates, and a plan that comes before its run. **You need** nothing but this machine. **Run from the top**: each cell needs those above it.

By default the lab shows a recorded run. After `make live-env`, start JupyterLab with `PDLAB_LIVE=1` in its environment, and the same cells measure here; that takes about eighteen minutes on two cores. Ask `.venv/bin/pdlab doctor --cores` first: it measures whether two of your cores slow each other down.

A sweep of your own from a cluster opens here as well: start JupyterLab with `PDLAB_RUN_L2=/path/to/its/folder`, and plan, tables and checks are those of your sweep (`labs/cluster.md` says how to make one). The text between them goes on telling of the recorded run: where your tables disagree with it, that is your result.

At the end you have compared aggregated with disaggregated serving on real vLLM servers, with the same requests and the same cores, against an opponent that was tuned first. And you have a verdict that you could defend, or a good reason to have none.

## Claim card

| part | in this lab |
|---|---|
| **claim** | "With the same hardware, disaggregated serving answers more requests a second within the targets than aggregated serving." |
| **expected** | you say so in a minute, before anything is measured |
| **a run would prove** | which of the two designs meets this plan's gates at which of its rates, on this machine, for this model and this trace; and where each of them spends a request's time |
| **a run would not prove** | anything about GPUs: none was run. Nothing about a network: the KV moves through the memory of one host. Nothing about a split other than one core and one core. |
"""

# %%
import json

import numpy as np

from pdlab.course import *
from pdlab.course import lab_sums
from pdlab.course.own import moved_bytes, served, shape_of
from pdlab.live import microscope, sweep, tuned
from pdlab.measure import compare, episodes, plan, records, slo
from pdlab.theory import kv

SHIPPED = recorded("miniature").parents[1] / "plans/miniature-2core.yaml"  # wherever this notebook lies
own = own_sweep("L2")  # the folder that PDLAB_RUN_L2 names, if it names one
PLAN_FILE = own / "plan.yaml" if own else SHIPPED
the_plan = plan.load(PLAN_FILE)

# %% [markdown]
"""
## A puzzle

A request reaches a server that is decoding four others. Its prompt has 768 tokens. In one design the four wait while the prompt is computed. In the other, nobody waits, since the prompt is computed by another core, and that core does nothing else.

The second design sounds better for everyone. Yet it has not one core more than the first. Whatever somebody gains, what was it paid with?

Three guesses, before any number. (Whoever has opened the table of these runs in notebook 07 writes down what they expected before that.)
"""

# %%
# The highest of the plan's rates at which each design still meets all gates: which design's is higher?
higher_capacity = ...
### BEGIN SOLUTION
higher_capacity = "disaggregated"
### END SOLUTION
predict("L2.a", higher_capacity, choices=["aggregated", "disaggregated", "the same"])

# %%
# The median over requests of the longest gap between two tokens, at the middle rate:
# how many times as long in the tuned aggregated design as in the disaggregated one?
times_as_long = ...
### BEGIN SOLUTION
times_as_long = 2
### END SOLUTION
predict("L2.b", times_as_long)

# %%
# The median TTFT at the middle rate: in which design is it shorter?
shorter_ttft = ...
### BEGIN SOLUTION
shorter_ttft = "aggregated"
### END SOLUTION
predict("L2.c", shorter_ttft, choices=["aggregated", "disaggregated"])

# %% [markdown]
"""
## The contract

The plan and its requests were fixed before the run that you see, but not at the first try. In trial runs with notebook 07's targets every design attained nothing, and zeros can't be compared. So rates, lengths and targets were set for this machine after those trials: even at the lowest rate a token takes about 55 ms here (you see it in the table of the plan's runs). Recordings made while the machine was busy with other work were thrown away, and so was one in which both sides of the pair had computed on the same core; the end of the lab tells how that was found. A reader should know all of it.
"""

# %%
c, a = the_plan.comparison, the_plan.acceptance
print(f"budget       {the_plan.budget} {the_plan.budget_unit}s on each side, model {c.model}")
loads = ", ".join(f"{rate:g}" for rate in c.offered_rates_rps)
print(f"load         {loads} requests/s, Poisson, {c.duration_seconds:g} s each")
print(f"warm-up      {c.warmup_requests} requests, not counted")
print(f"targets      TTFT {a.ttft_max_ms:,g} ms, TPOT {a.tpot_max_ms:g} ms", end="")
print(f", longest gap {a.max_itl_per_request_ms:g} ms")
print(f"gates        attainment {100 * a.slo_attainment_min:.0f} % of all offered", end="")
print(f", errors {100 * a.error_rate_max:.0f} % at most, no growing queue")

# %% [markdown]
"""
Aggregated: two vLLM servers of one core, each of which prefills and decodes; requests go to them in turn. Disaggregated: one core prefills, the other decodes, and NIXL moves the KV. In both, every request passes through the course's router, so the boundary at which we measure is the same.

Which of these statements can a run of this plan prove or refute? Give the letters.

| letter | statement |
|---|---|
| A | On this machine and this trace, design X has the higher capacity among the tested rates. |
| B | On an H100 the same design has the higher capacity. |
| C | At 3 requests/s the longest gaps are shorter in design X, here. |
| D | Over a 25 GB/s network the hand-off stays within 20 ms. |
| E | For prompts of 8,000 tokens design X is better. |
| F | With this trace, the choice of the chunk size changes what aggregated serving attains, here. |
"""

# %% exercise="L2.1"
# Exercise L2.1
provable = [...]
### BEGIN SOLUTION
provable = ["A", "C", "F"]
### END SOLUTION

# %% check="L2.1"
check("L2.1", provable)

# %% [markdown]
"""
## The run

The next cell gets the sweep, recorded or live, and says which.
"""

# %%
run = lab_run(
    "miniature", lambda folder: sweep.run_sweep(PLAN_FILE, folder, resume=True, tune=True), own=own,
)

# %%
def runs(group="."):
    """The runs of one group of the sweep, by name."""
    return {entry.name: entry.read() for entry in records.read_sweep(run / group).entries}


tuning, main = runs("tuning") if (run / "tuning").exists() else {}, runs()
for name, one in (tuning | main).items():
    status = one.table["status"].to_pylist()
    unique = len(set(one.table["request_id"].to_pylist()))
    assert unique == len(status) and set(status) <= {"ok", "failed", "rejected", "timeout", "cancelled"}
rates, cache = c.offered_rates_rps, c.cache_state[0]
middle_rate = rates[len(rates) // 2]
servers = served(the_plan, main) if own else "SmolLM2-135M on vLLM, two cores"
print(f"{len(tuning)} tuning runs and {len(main)} runs of the plan;")
print("every offered request has one row and one status")

# %% [markdown]
"""
## First, a worthy opponent

A chunk size is the budget of one step, running decodes included. vLLM 0.32 has a default for it: 2,048 tokens on a processor, 8,192 on an H100, 16,384 on the largest GPUs (`arg_utils.py`). Nobody chose it for this trace. To compare disaggregation with that would be to beat somebody who has not warmed up. So the sweep began with aggregated serving alone, at the highest rate, once for each chunk size of the plan.
"""

# %%
def report(one):
    return slo.analyse(one, the_plan.acceptance)


rows = []
shown = tuning or {name: one for name, one in main.items() if name == f"aggregated-{cache}-{rates[-1]:g}rps"}
for name, one in shown.items():
    r = report(one)
    what = one.provenance["design"].removeprefix("aggregated ")
    rows.append([
        what, r.offered, f"{r.joint_attainment.all_offered:.3f}", f"{r.ttft_ms.p50:,.0f}",
        f"{r.tpot_ms.p50:.0f}", f"{r.max_itl_ms.p50:.0f}", f"{r.itl_ms.p99:,.0f}",
    ])
chunk = main[f"aggregated-{cache}-{rates[0]:g}rps"].provenance["summary"]["chunk_tokens"]
if not tuning:
    print(f"this sweep holds no tuning: aggregated serving ran with chunks of {chunk} tokens,")
    print("chosen elsewhere or by nobody")
if passed_by_none := tuned.warning(run / "tuning"):
    print(passed_by_none)
show_table(
    rows,
    ["aggregated with", "requests", "attainment", "TTFT p50 (ms)", "TPOT p50 (ms)", "longest gap p50 (ms)",
     "gaps p99 (ms)"],
    caption=f"Aggregated serving at {rates[-1]:g} requests/s, by chunk size, and one replica alone",
    label="measured", source=servers, run=run / ("tuning" if tuning else ".") / next(iter(shown)),
)

# %% [markdown]
"""
In the recorded run, chunks of 1,024 tokens let a long prompt pass in one step. Its neighbours wait for that step: that is the p99 of their gaps, and more than a quarter of the requests miss a target. Chunks of 64 keep the gaps shortest and make every prompt pay for more steps, so their TTFT is the longest.

One run a size is a thin basis for a choice. Further down the chosen size meets this rate a second time, with the same requests: its two attainments lie as far apart there as the highest and the second highest of this table's chunk sizes do. So the choice is within what one run differs from the next, and it is made by a rule that was fixed before.

The opponent is the chunk size with the highest attainment; of equals, the one with the lower p99 of its gaps. Which is it, in **tokens**?
"""

# %% exercise="L2.2"
# Exercise L2.2
opponent = ...
### BEGIN SOLUTION
opponent = max(
    (one for one in tuning.values() if "chunk" in one.provenance["design"]),
    key=lambda one: (report(one).joint_attainment.all_offered, -report(one).itl_ms.p99),
).provenance["summary"]["chunk_tokens"]
### END SOLUTION

# %% check="L2.2"
check("L2.2", opponent, expected=tuned.chosen(run / "tuning") or chunk)

# %% [markdown]
"""
Look at the last row of the table. One replica alone, on one core, met the same requests. Two replicas have to beat it, or the second core did nothing and any comparison with them is about a broken set-up.

## Before any ratio: may these runs be compared?

A colleague could not wait for the lab. He ran something himself and sends you this. *[hypothetical: made up for this exercise]*

| row | aggregated | disaggregated |
|---|---|---|
| servers | 1 replica of 1 core | 1 prefill + 1 decode, 1 core each |
| requests | 28 | 28 |
| prompts | one prompt, sent 28 times | one prompt, sent 28 times |
| dispatch lag p99 | 1 ms | 1 ms |
| answered | 28 | 28 |
| goodput, as good requests a second | 0.9 | 1.6 |

"1.8 times!" Which of the course's validity gates does his table fail? The plan's attainment gate of 90 % needs 35 requests before a perfect run can show it.

Words: `"equal_budget"`, `"enough_requests"`, `"prompts_do_not_repeat"`, `"small_dispatch_lag"`, `"same_requests_answered"`.
"""

# %% exercise="L2.3"
# Exercise L2.3
failed_gates = [...]
### BEGIN SOLUTION
failed_gates = ["equal_budget", "enough_requests", "prompts_do_not_repeat"]
### END SOLUTION

# %% check="L2.3"
check("L2.3", failed_gates)

# %% [markdown]
"""
Now our own runs through the gates that a program can check, rate by rate. That prompts do not repeat is in none of the rows: you see it in the trace. `pdlab compare A B --plan PLAN` prints this too.
"""

# %%
def pair(rate):
    """The two designs' runs at one rate."""
    return tuple(main[f"{design}-{cache}-{rate:g}rps"] for design in ("aggregated", "disaggregated"))


single = next((one for one in tuning.values() if one.provenance["design"] == "aggregated 1 replica"), None)
compared = {
    rate: compare.compare(*pair(rate), the_plan.acceptance, single=single if rate == rates[-1] else None)
    for rate in rates
}
marks = {"pass": "ok", "fail": "FAIL", "not_carried": "not carried"}
names = [check.name for check in compared[rates[0]].checks]
show_table(
    [
        [name, *(marks[found.checks[row].result] for found in compared.values())]
        for row, name in enumerate(names)
    ],
    ["gate", *(f"{rate:g} requests/s" for rate in rates)],
    caption="May the two designs' runs be compared?", label="measured",
    source=servers, run=run / f"aggregated-{cache}-{rates[0]:g}rps",
)
for how_many, held in (("one replica", single), ("two replicas", pair(rates[-1])[0])) if single else ():
    counts = report(held)
    chunk = held.provenance["summary"]["chunk_tokens"]
    good = f"{counts.joint_attainment.good} of {counts.offered} requests good"
    print(f"{how_many:<12}  chunks of {chunk}: {good}   [measured]")

# %% [markdown]
"""
`not carried` is no pass. It says that nobody looked: one replica alone was run at the highest rate only, so at the others nothing holds two against one.

And `ok` is a mild word for `replicas_beat_one`. The gate compares the two counts under the table and asks only that two replicas have the larger. Both ran with the tuned chunk size. In the recorded run their two attainments are closer to each other than two runs of the *same* two replicas are; the tuning table has the other one. So the gate does not prove here that two attain more than one. It keeps out a broken baseline, such as two replicas at a fifth of one. What the second core is good for shows elsewhere: in the tuning table, one replica's median TTFT is more than twice that of two with the same chunks.

A fair critic has one more question, and no gate asks it for you. Aggregation was tuned over its chunk sizes. Was disaggregation tuned over anything? Here it was not: two cores leave one split, one and one. Write such a sentence under your own tables before somebody else does.

## Who computed what, and what moved

In a disaggregated pair each prompt should be computed on prefill and only *arrive* on decode. vLLM counts a server's prompt tokens by where they came from: `local_compute`, `local_cache_hit`, `external_kv_transfer`. For each of the two servers, which of the three grew by (nearly) all prompt tokens of the run?
"""

# %% exercise="L2.4"
# Exercise L2.4
source_of_tokens = {"prefill": ..., "decode": ...}
### BEGIN SOLUTION
source_of_tokens = {"prefill": "local_compute", "decode": "external_kv_transfer"}
### END SOLUTION

# %% check="L2.4"
check("L2.4", source_of_tokens)

# %% tags=["reveals"]
def grown(name, server):
    """How much each counter of a server rose over a run, from the samples taken beside it."""
    samples = [json.loads(line) for line in (run / name / sweep.SERVER_METRICS).read_text().splitlines()]
    mine = [one for one in samples if one["server"] == server and "error" not in one]
    return {key: mine[-1][key] - mine[0].get(key, 0) for key in mine[-1] if key not in ("t_ns", "server")}


slow = f"disaggregated-{cache}-{rates[0]:g}rps"
looks = (run / slow / sweep.SERVER_METRICS).read_text().splitlines()
listed = dict.fromkeys(json.loads(line)["server"] for line in looks)
for server in listed:
    rose = grown(slow, server)
    kind = "prompt_tokens_by_source"
    tokens = [f"{k.split('[')[1][:-1]} {v:,.0f}" for k, v in rose.items() if k.startswith(kind)]
    print(f"{server:<10} {', '.join(tokens)}   [measured]")

# %% [markdown]
"""
Then predict the bytes. The run at the lowest rate sent the requests below, warm-up included. SmolLM2-135M has 30 layers and 3 KV heads of 64 in BF16; the engine moves whole blocks of 128 tokens, as in notebook 02.
"""

# %%
sent = main[slow].table.to_pandas()["prompt_tokens"].value_counts().sort_index()
print("; ".join(f"{count} prompts of {tokens} tokens" for tokens, count in sent.items()))
if own:
    print(f"your sweep: the shape of {shape_of(the_plan)}, blocks of {the_plan.live.block_size} tokens")

# %% [markdown]
"""
How many **bytes** exactly should NIXL have moved in that run?
"""

# %% exercise="L2.5"
# Exercise L2.5
moved = ...
### BEGIN SOLUTION
shape = kv.from_config(kv.load("smollm2-135m"))
moved = sum(count * kv.block_bytes_total(shape, tokens, 128) for tokens, count in sent.items())
### END SOLUTION

# %% check="L2.5"
check("L2.5", moved, **({"expected": moved_bytes(the_plan, dict(sent))} if own else {}))

# %% tags=["reveals"]
decoding = [name for name in listed if name.startswith("decode")]
counted = sum(int(grown(slow, name)["nixl_bytes_transferred_sum"]) for name in decoding)
print(f"NIXL counted {counted:,} B in the run   [measured]")

# %% [markdown]
"""
## Where the hand-off shows

Notebook 03 left a question open: does the hand-off fall into TTFT, or between the first and the second token? The client kept the time of every token, and the router noted when it did what. Here are the medians of the disaggregated run at the middle rate.
"""

# %%
def stages(one):
    """Medians in ms over the requests of a disaggregated run, after warm-up."""
    rows = [r for r in records.rows(one.table) if r["status"] == "ok" and not r["warmup"]]
    # a local answer has no hand-off
    rows = [r for r in rows if len(r["frame_ns"]) > 2 and "router_prefill_done" in r["stage_ns"]]
    step = lambda r, name: r["stage_ns"][f"router_{name}"]  # noqa: E731
    spans = {
        "in the router, before prefill": [step(r, "prefill_sent") - r["sent_ns"] for r in rows],
        "prefill, its queue included": [step(r, "prefill_done") - step(r, "prefill_sent") for r in rows],
        "decode's queue, pull, and first token": [r["frame_ns"][0] - step(r, "prefill_done") for r in rows],
        "first to second token": [r["frame_ns"][1] - r["frame_ns"][0] for r in rows],
        "each later gap": [(r["frame_ns"][-1] - r["frame_ns"][1]) / (len(r["frame_ns"]) - 2) for r in rows],
    }
    return {name: float(np.median(values)) / 1e6 for name, values in spans.items()}


middle = stages(pair(middle_rate)[1])
show_table(
    [[name, f"{ms:,.1f}"] for name, ms in middle.items()],
    ["span", "median (ms)"],
    caption=f"A disaggregated request at {middle_rate:g} requests/s, step by step",
    label="measured", source=servers if own else "SmolLM2-135M on vLLM, one core each",
    run=run / f"disaggregated-{cache}-{middle_rate:g}rps",
)

# %% [markdown]
"""
In which latency does vLLM's hand-off fall here: `"ttft"`, `"first gap"` or `"both"`?
"""

# %% exercise="L2.6"
# Exercise L2.6
handoff_in = ...
### BEGIN SOLUTION
handoff_in = "ttft"
### END SOLUTION

# %% check="L2.6"
check("L2.6", handoff_in)

# %% [markdown]
"""
**What would change this answer?** Who streams the first token. In vLLM the decode server does, so the client waits for the pull before it sees anything. A runtime that streams the first token from prefill shows a shorter TTFT, and the pull shows up between the first token and the second. The reader of the answer waits as long either way.

## The verdict, first from the gates

**Capacity** is notebook 06's: the highest *tested* rate that passes every gate, with nothing but passes below it.

Write that down once, for rates that could all be judged. `points` is a list of (rate, passed), in any order; the result is a rate, or `0` where even the lowest rate fails, or where one passes above one that fails: no capacity can be stated then.
"""

# %% exercise="L2.7"
# Exercise L2.7
def capacity(points):
    """The capacity in requests/s; 0 where none can be stated."""
    ...


### BEGIN SOLUTION
def capacity(points):
    """The capacity in requests/s; 0 where none can be stated."""
    passed = [rate for rate, ok in points if ok]
    failed = [rate for rate, ok in points if not ok]
    if passed and failed and max(passed) > min(failed):
        return 0
    return max(passed, default=0)
### END SOLUTION

# %% check="L2.7"
check("L2.7", capacity)

# %%
rows = []
for design in ("aggregated", "disaggregated"):
    for rate in rates:
        r = report(main[f"{design}-{cache}-{rate:g}rps"])
        low, high = r.joint_attainment.interval
        failing = [gate.name for gate in r.gates if gate.result != "pass"]
        rows.append([
            design, f"{rate:g}", r.offered, f"{r.joint_attainment.all_offered:.3f}",
            f"{low:.2f} to {high:.2f}", f"{r.ttft_ms.p50:,.0f}", f"{r.ttft_ms.p95:,.0f}",
            f"{r.tpot_ms.p50:.0f}", f"{r.max_itl_ms.p50:.0f}", ", ".join(failing) or "none",
        ])
show_table(
    rows,
    ["design", "req/s", "offered", "attainment", "95 % interval", "TTFT p50 (ms)", "TTFT p95 (ms)",
     "TPOT p50 (ms)", "longest gap p50 (ms)", "gates not passed"],
    caption="The plan's six runs" if len(rates) == 3 else "The plan's runs",
    label="measured", source=servers, run=run / f"aggregated-{cache}-{rates[0]:g}rps",
)

# %%
at_middle = [report(one) for one in pair(middle_rate)]
axes = figure(
    f"At {middle_rate:g} requests/s the designs differ in both waits of a reader",
    label="measured", source=servers, run=run / f"aggregated-{cache}-{rates[0]:g}rps",
    panels=(1, 2), size=(9.5, 4.4), sharey=True,
)
waits = {}  # design → TTFT and longest gap of each request
for design in ("aggregated", "disaggregated"):
    table = main[f"{design}-{cache}-{middle_rate:g}rps"].table
    finished = [r for r in records.rows(table) if r["status"] == "ok" and not r["warmup"]]
    ttft = sorted((r["frame_ns"][0] - r["sent_ns"]) / 1e6 for r in finished)
    waits[design] = ttft, sorted(max(np.diff(r["frame_ns"])) / 1e6 for r in finished)
for panel, ax in enumerate(axes):
    shorter = min(waits, key=lambda design: np.median(waits[design][panel]))
    for design, colour, dash in (("aggregated", "#D55E00", "-"), ("disaggregated", "#0072B2", "--")):
        values = waits[design][panel]
        share = np.arange(1, len(values) + 1) / len(values)
        ax.step(values, share, where="post", color=colour, linestyle=dash)
        left = design == shorter  # names stand on the outer sides of the two curves
        at = int(len(values) * (0.9 if left else 0.15))
        name_at(ax, values[at], share[at], design, colour, -8 if left else 8, 0 if left else -14)
axes[0].set(xlabel="TTFT (ms)", xscale="log", ylabel="share of requests")
axes[1].set(xlabel="longest gap of a request (ms)", xscale="log")
marked = [100, 300, 1000, 3000], [50, 100, 200, 400]
for ax, ticks, limit in zip(axes, marked, (a.ttft_max_ms, a.max_itl_per_request_ms)):
    if not own:  # marks that fit the recorded run
        ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
        ax.set_xticks([], minor=True)
    ax.axvline(limit, color="#1B1B1B", linestyle=":")
    name_at(ax, limit, 0.5, "target", dx=5)
show_figure(axes[0].figure, alt=f"""
    Two distribution curves over the requests at {middle_rate:g} requests/s. Median TTFT: aggregated
    {at_middle[0].ttft_ms.p50:,.0f} ms, disaggregated {at_middle[1].ttft_ms.p50:,.0f} ms; the target is
    {a.ttft_max_ms:g} ms. Median of the longest gap: aggregated {at_middle[0].max_itl_ms.p50:,.0f} ms,
    disaggregated {at_middle[1].max_itl_ms.p50:,.0f} ms; the target is {a.max_itl_per_request_ms:g} ms.
""")

# %% [markdown]
"""
Read the table by columns before you read it by rows: which of them move with the rate, and in which design? Then the intervals: where one holds the 0.90 of the gate, the run passed or failed by a hair. And one run is one draw. The tuned aggregated design met the highest rate twice, once in the tuning table and once here; see how far its two attainments lie apart before you rank anything at that rate.

Give your verdict. `capacity` of each design is the highest tested rate that passes all gates, from your own function, or `0` where there is none. `claim` is `"supported"` where the pair's capacity is the higher one, `"refuted"` where it is the lower one, and `"open"` where the tested rates show no difference: what lies between them nobody has run. `longest_gaps` and `ttft` name the design with the lower median at the middle rate.
"""

# %% exercise="L2.8"
# Exercise L2.8
verdict = {"aggregated": ..., "disaggregated": ..., "claim": ..., "longest_gaps": ..., "ttft": ...}
### BEGIN SOLUTION
judged = {
    design: [(rate, report(main[f"{design}-{cache}-{rate:g}rps"])) for rate in rates]
    for design in ("aggregated", "disaggregated")
}
reached = {name: capacity([(x, r.verdict == "pass") for x, r in points]) for name, points in judged.items()}
lower = lambda pick: min(judged, key=lambda design: pick(judged[design][1][1]))  # noqa: E731
more = reached["disaggregated"] - reached["aggregated"]
verdict = reached | {
    "claim": "supported" if more > 0 else "refuted" if more < 0 else "open",
    "longest_gaps": lower(lambda r: r.max_itl_ms.p50),
    "ttft": lower(lambda r: r.ttft_ms.p50),
}
### END SOLUTION

# %% check="L2.8"
gates_passed = lab_sums.capacities({
    name: [(rate, report(main[f"{name}-{cache}-{rate:g}rps"])) for rate in rates]
    for name in ("aggregated", "disaggregated")
})
nearer = lambda pick: ("aggregated", "disaggregated")[pick(at_middle[0]) > pick(at_middle[1])]  # noqa: E731
check("L2.8", verdict, expected=gates_passed | {
    "claim": lab_sums.claim(gates_passed), "longest_gaps": nearer(lambda r: r.max_itl_ms.p50),
    "ttft": nearer(lambda r: r.ttft_ms.p50),
})

# %% [markdown]
"""
What stands behind it: the prefill core computes every prompt alone and hands it over, so a first token comes late, and later as the queue grows with the rate. The decode core never holds a prompt, so its token times hardly move with the rate. An aggregated core does both. Its first token comes sooner, and its gaps grow with the rate. In the recorded run each design is better at one of the two waits, and they pass and fail at the same rates.

Mind the intervals. At 1.5 requests/s both lie above the 0.90 of the gate. At 3 the aggregated design passes by a hair: its interval holds 0.90. The pair's lies above it altogether. At 4.5 both fail, and their intervals overlap. There the two draws of the tuned aggregated design differ by more than the two designs do, so whoever ranks the designs at that rate ranks noise.

The gaps deserve a second look. No step on the decode core holds a prompt, and still a request's longest gap is nearly twice its usual one. The core also answers HTTP, takes newcomers in and looks after transfers; this run doesn't tell which of them it is. Isolation removes the long step of somebody else's prompt. It does not make the core faster.

About half of the pair's TTFT passes after prefill is done, although the blocks only move from one part of a host's memory to another. Is it the pull? NIXL times each one (`vllm:nixl_xfer_time_seconds`), and if bytes made the wait, longer prompts would wait longer.
"""

# %%
def pull_ms(name):
    """NIXL's own clock: mean ms of a transfer in a run; None where the samples do not hold it."""
    rose = [grown(name, server) for server in decoding]
    seconds, count = (
        sum(one.get(f"nixl_{key}", 0) for one in rose) for key in ("xfer_time_seconds_sum", "bytes_transferred_count")
    )
    return 1000 * seconds / count if seconds and count else None


split = {rate: pair(rate)[1] for rate in rates}
usual = int(np.median([n for one in split.values() for n in one.table["prompt_tokens"].to_pylist()]))
rows = []
for rate, one in split.items():
    pulled, waited = pull_ms(f"disaggregated-{cache}-{rate:g}rps"), lab_sums.waits_after_prefill(records.rows(one.table), usual)
    cells = pulled, *waited, stages(one)["each later gap"]
    rows.append([f"{rate:g}", *("not known" if ms is None else f"{ms:,.1f}" for ms in cells)])
show_table(
    rows,
    ["req/s", "a pull, by NIXL's clock (mean, ms)", f"wait of prompts up to {usual:,} tokens (median, ms)",
     "wait of longer prompts (median, ms)", "each later gap (median, ms)"],
    caption="From the end of prefill to the first token", label="measured", source=servers,
    run=run / f"disaggregated-{cache}-{middle_rate:g}rps",
)

# %% [markdown]
"""
In the recorded run it is not the pull: 4 to 5 ms, where about 150 and more are waited. Nor the bytes: prompts of one block wait about as long as those of six. What the wait fits is some three of decode's steps: the one that is running, one in which the newcomer is taken in, and its own first. Notebook 07 has the same three in a simulator. What else the core does in that time, we don't know.

**What would change this answer?** A rate between the two highest, to begin with, and more requests at it. Then the targets: a stricter one on gaps favours the pair, a stricter one on TTFT the replicas. And another split. With more cores, prefill and decode could be given shares that fit the load; with two, one and one is all there is.

Longer answers give decode more to do; longer prompts give prefill more. And a faster machine moves every number: the gap of a long prompt shrinks with the prefill, while the cost of waking two servers stays.

## A law that the run must obey

Before you trust a table, check it with something that nobody tuned. Little's law says: mean requests in the system = arrival rate × mean time in the system. It holds for any system, aggregated or not, as long as what comes in also goes out.

Take the tuned aggregated run at the middle rate, warm-up included, from the first sending to the last end.
"""

# %%
law = pair(middle_rate)[0].table.to_pandas()
span_s = (law["end_ns"].max() - law["sent_ns"].min()) / 1e9
mean_s = (law["end_ns"] - law["sent_ns"]).mean() / 1e9
print(f"{len(law)} requests in {span_s:.3f} s; mean time in the system {mean_s:.4f} s   [measured]")

# %% [markdown]
"""
How many **requests** were in the system on average over that span?
"""

# %% exercise="L2.9"
# Exercise L2.9
in_system = ...
### BEGIN SOLUTION
in_system = len(law) / span_s * mean_s
### END SOLUTION

# %% check="L2.9"
by_law = lab_sums.mean_in_system(law["sent_ns"], law["end_ns"])
check("L2.9", in_system, expected=by_law)

# %%
# The other side of the law: look at the system every 5 ms and count.
looks = np.arange(law["sent_ns"].min(), law["end_ns"].max(), 5_000_000)
sent_ns, end_ns = law["sent_ns"].to_numpy(), law["end_ns"].to_numpy()
inside = [int(((sent_ns <= t) & (end_ns > t)).sum()) for t in looks]
share = np.mean(inside) / by_law
near = "within 2 %" if abs(share - 1) < 0.02 else f"{share:.3f}"
print("counted by looking, over the law's figure:", near)

# %% [markdown]
"""
## Under the microscope

Attainment says that requests were late. It doesn't say why. So a second run, with nothing random in it: four streams decode steadily, one long prompt arrives, and the token gaps of the four are aligned on its arrival. Three chunk sizes with both cores for one server, and then one core for each phase.
"""

# %%
scene_dir = lab_run("interference", microscope.record)

# %%
scene = {
    entry.name: [e for e in episodes.episodes(entry.read()) if e.prompt_tokens == 1024]
    for entry in records.read_sweep(scene_dir).entries
}
NAMES = {
    "chunk-4096": "whole prompt", "chunk-512": "chunks of 512", "chunk-128": "chunks of 128",
    "disaggregated": "another core",
}
ax = figure(
    "Small chunks or a core of its own shorten the longest gap, and the long prompt waits longer",
    label="measured", source="SmolLM2-135M on vLLM, four streams, prompt of 1,024 tokens",
    run=scene_dir / "chunk-4096", xlabel="TTFT of the long prompt (ms)",
    ylabel="longest gap (ms)", xlog=True, ylog=True,
)
rows, points = [], []
for index, (key, name) in enumerate(NAMES.items()):
    ttft = [e.first_token_ms for e in scene[key]]
    gap = [e.during.max() for e in scene[key]]
    quiet = float(np.median(np.concatenate([e.quiet for e in scene[key]])))
    each = [float(np.median(e.quiet)) for e in scene[key]]
    colour = ("#D55E00", "#CC79A7", "#009E73", "#0072B2")[index]
    ax.plot(ttft, gap, linestyle="", marker="os^D"[index], color=colour, markersize=9)
    name_at(ax, max(ttft), gap[ttft.index(max(ttft))], name, colour, 9, 4)
    spread = [f"{min(values):,.0f} to {max(values):,.0f}" for values in (each, gap, ttft)]
    points.append(f"{name}: gap {spread[1]} ms, TTFT {spread[2]} ms")
    rows.append([name, f"{quiet:.0f}", *spread])
ax.set(xlim=(350, 3200), ylim=(60, 1000))
for axis, ticks in ((ax.xaxis, [400, 700, 1000, 2000]), (ax.yaxis, [100, 200, 400, 800])):
    axis.set_ticks(ticks, [f"{t:,}" for t in ticks])
    axis.set_ticks([], minor=True)
show_figure(ax, alt="Longest gap of four streams against the TTFT of the long prompt that disturbs them, "
    "log scales, one point a repetition. Least to greatest: " + "; ".join(points) + ".")

# %%
show_table(
    rows,
    ["the prompt is computed as", "usual gap (ms, median)", "that, by repetition (ms)",
     "longest gap while it is (ms)", "its TTFT (ms)"],
    caption="Four steady streams and one prompt of 1,024 tokens", label="measured",
    source="SmolLM2-135M on vLLM", run=scene_dir / "chunk-4096",
)

# %% [markdown]
"""
Look for what each setting paid. One server with both cores that takes the prompt whole has it done soon, and its streams stand still that long. Chunks cut the standstill, the more the smaller they are. A core of its own for the prompt shortens the gap as well, and nobody had to choose a size; but the prompt now has one core where it had two, and it waits longer than where two cores take it whole.

Then the usual gap, taken before any long prompt comes. No prompt is there to be cut, so the first three rows should agree. They don't: 35, 36 and 47 ms, and by repetition anything from 32 to 51. We don't know why. With a core of its own for each phase it is the longest of the four, 77 ms, but 42 in one repetition, which is among the others. Decode has one core there in place of two, so a longer gap would be no surprise; this run is too small to say how much longer.

Compare the smallest chunks with the separate core. vLLM's own documentation says that chunked prefill with a well-chosen chunk can reach the same tail, and that choosing well is the hard part. So it calls disaggregation the much more reliable way. Here you see how near it comes, and what each of the two charges the prompt for it. Look at every point before you rank: in the recorded run two points of the separate core lie beside those of the smallest chunks. The third has a gap such as chunks of 512 have, and the longest TTFT of all. Where one of three repetitions lies far from the others, three are too few to say which setting is the better one. Such a point is kept; it happened. With the prompt of 3,000 tokens in notebook 01 the two ranges of the gap lie apart, and the separate core's is the lower one.

A learner writes four sentences under this figure. Which does the run **not** carry? Give the letters.

| letter | sentence |
|---|---|
| A | "Smaller chunks bound the gap; each of them still costs the streams a step that is longer than usual." |
| B | "With a core of its own, the long prompt waited longer for its first token than where two cores took it whole." |
| C | "So disaggregation answers more requests a second." |
| D | "With the same budget and a fast network between two hosts, the picture would be the same." |
"""

# %% exercise="L2.10"
# Exercise L2.10
not_carried = [...]
### BEGIN SOLUTION
not_carried = ["C", "D"]
### END SOLUTION

# %% check="L2.10"
check("L2.10", not_carried)

# %% [markdown]
"""
## Whose core was it?

An earlier recording of this lab told another story. While one core prefilled, the usual gap on the other doubled; chunks of 128 tokens did better by the streams than the core of their own; and the pair lost at every rate. We had an explanation ready, that two cores share memory and caches, so two workers on them are never quite apart. It sounded right, and nobody had checked it.

Then somebody looked at which core each thread ran on. vLLM's NIXL connector moves the thread that sets it up to the last core of the machine. On a processor that is the thread which computes. So prefill and decode had both computed on core 1, while core 0 was idle most of the time. The plan said one core each, and so did the budget line under the run. Both were true of the processes that we had started.

The course's servers now stay on their cores, and everything above was recorded again. **An equal budget on paper is not yet one on the machine.** Before you believe a comparison, ask for the cores of every thread, not of the process: `taskset -acp PID` prints them, for each process that a server consists of.

A colleague has done that for her own pair, during a long prefill. Prefill was dealt core 0 and decode core 1; threads that did nothing are left out. *[hypothetical: made up for this exercise]*

| server | thread | may run on core | share of a core (%) |
|---|---|---|---|
| prefill-0 | first process, HTTP | 0 | 4 |
| prefill-0 | engine, the one that computes | 1 | 57 |
| prefill-0 | engine, transfers | 0 | 2 |
| decode-0 | first process, HTTP | 1 | 3 |
| decode-0 | engine, the one that computes | 1 | 38 |
| decode-0 | engine, transfers | 1 | 2 |

Which side has left its share, `"prefill"`, `"decode"` or `"neither"`? For how much of the time was core 0 idle, in per cent? And which look finds the fault: at `"the plan"`, `"the budget line"`, `"the first process"` or `"every thread"`?
"""

# %% exercise="L2.11"
# Exercise L2.11
on_core = {"side": ..., "idle_percent": ..., "found_by": ...}
### BEGIN SOLUTION
on_core = {"side": "prefill", "idle_percent": 100 - 4 - 2, "found_by": "every thread"}
### END SOLUTION

# %% check="L2.11"
check("L2.11", on_core)

# %% [markdown]
"""
## Your guesses, and what came out
"""

# %%
guesses({
    "L2.a": max(gates_passed, key=gates_passed.get) if len(set(gates_passed.values())) > 1 else "the same",
    "L2.b": f"{at_middle[0].max_itl_ms.p50 / at_middle[1].max_itl_ms.p50:.1f} times as long",
    "L2.c": nearer(lambda r: r.ttft_ms.p50),
})

# %% [markdown]
"""
## Recap

1. A comparison needs one budget, one trace, one boundary, and an opponent that somebody tried to make good. The budget is what the threads have, not what the plan says.
2. Validity gates come before ratios. A refused ratio is a result.
3. The hand-off falls into TTFT when decode streams the first token. Look at the arrival times, not at the diagram.
4. A fixed split trades: one phase gets quiet, the other gets fewer cores. Which matters depends on the trace.
5. A run on two cores decides about two cores. What travels is the method.

## Two questions from before

Answer from memory, aloud or on paper. Then open the line.

<details><summary>From 06: a run of 100 requests has 95 good ones. Why does it not prove an attainment of 95 %?</summary>
Its interval reaches from 89 to 98 %. Most of the true shares that fit such a run lie below the gate or above it, and the run can't tell which.
</details>

<details><summary>From 02: why do the transfers of a prompt of 100 tokens and of one of 128 move the same bytes?</summary>
Blocks are whole. With a block size of 128 each of the two takes one block, and one block travels.
</details>
"""

# %% [markdown]
"""
**Next** is lab L3: the transfer breaks.

## Sources

Accessed in November 2026.

- vLLM 0.32, source: the default chunk sizes in `arg_utils.py`; metrics: `prompt_tokens_by_source`, `nixl_bytes_transferred`, `nixl_xfer_time_seconds`.
- vLLM documentation, *Disaggregated Prefilling* and *Optimization and Tuning* (chunked prefill), version 0.33.0.
- J. D. C. Little, *A Proof for the Queuing Formula L = λW*, Operations Research 9, 1961.
- util-linux, `taskset(1)`: the cores of every thread.
"""
