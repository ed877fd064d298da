# %% [markdown]
"""
# 07 · A plan for sixteen GPUs

**Time** 70 minutes, with a good place to stop after 35. **Before this** notebooks 05 and 06. **You need** percentiles, attainment and gates as 06 defines them. **Run from the top**: each cell needs those above it.

At the end you can write a comparison down before it is run, read the capacity of two designs off a sweep, and say what would have to be different for the other one to win. You can also look at somebody else's table and refuse to divide.
"""

# %%
import copy

import numpy as np
import yaml

from pdlab.course import *
from pdlab.errors import BadInput
from pdlab.measure import compare, plan, records, simcheck, slo
from pdlab.theory import queueing

SWEEP = recorded("sim-reference")  # AISimulate: a prediction, no GPU was there
SOURCE = "AISimulate, 16 × H100, Llama-3.1-70B, 2,000 in, 200 out"
PLANS = SWEEP.parents[1] / "plans"
PLAN_FILE = PLANS / "reference-16gpu.yaml"
the_plan = plan.load(PLAN_FILE)


def run(path):
    return records.read_run(SWEEP / path)


def reports(group, design, cache_state="cold", acceptance=the_plan.acceptance):
    """(offered rate, report) of every recorded run of one design."""
    entries = records.read_sweep(SWEEP / group).entries
    mine = [e for e in entries if e.design == design and e.cache_state == cache_state]
    return [(e.offered_rate_rps, slo.analyse(e.read(), acceptance)) for e in mine]


# %% [markdown]
"""
## A puzzle

Four engineers compare aggregated with disaggregated serving. Each has 16 H100 on both sides, the same model, the same trace of arrivals, the same targets. Each reports the highest request rate within the targets, and none has made a mistake of arithmetic.

| engineer | aggregated, requests/s | disaggregated, requests/s | ratio |
|---|---|---|---|
| Ana | 4 | 10 | 2.5 |
| Ben | 14 | 10 | 0.71 |
| Cho | 24 | 20 | 0.83 |
| Dee | 16 | 22 | 1.4 |

*Simulated: AISimulate, the runs of this notebook.* "Two and a half times!" writes one. "Nearly a third less," writes another. By the end you will know what each of them did, and which of the four questions you would have wanted asked.

Two guesses first. Nobody marks them.
"""

# %%
# At 4 requests/s, far from any limit: which side has the smaller P99 of TTFT?
smaller_ttft = ...
### BEGIN SOLUTION
smaller_ttft = "disaggregated"  # a fair guess: nothing disturbs its prefill
### END SOLUTION
predict("7.a", smaller_ttft, choices=["aggregated", "disaggregated"])

# %%
# A transfer of 2,000 tokens over 10 GB/s instead of 100: by how many ms does its median hand-off grow?
grows_by_ms = ...
### BEGIN SOLUTION
grows_by_ms = 7  # the difference of the two floors
### END SOLUTION
predict("7.b", grows_by_ms)

# %% [markdown]
"""
## The plan comes before the run

After a run everyone can explain why their side should have had another chunk size. So write it all down first. This is the course's reference plan, the file that every run below starts from. Not everything that was run stands in it. Look at its `offered_rates_rps`; we come back to them.
"""

# %%
shown = yaml.safe_load(PLAN_FILE.read_text())
for section in ("comparison", "deployments", "acceptance"):
    print(yaml.safe_dump({section: shown[section]}, sort_keys=False, width=90), end="")

# %% [markdown]
"""
Read it as a contract. `comparison` is what both sides share. `deployments` is the only thing that differs. `acceptance` says, before anybody has a number, what counts as good, out of how many, and how many have to be. `warmup_requests` are sent and not counted. `request_deadline_seconds` turns a hanging request into a timeout, and a timeout into a miss.

`pdlab plan check FILE` refuses a plan that can't be carried out as written. Suppose you make **one** of these changes to the file. Which does the check refuse? Give the letters.

| letter | change |
|---|---|
| A | `deployments.disaggregated.decode_replicas: 2` |
| B | `comparison.network_and_host_budget: <link and hosts>` |
| C | `acceptance.slo_attainment_min: 95` |
| D | `comparison.cache_state: [cold]` |
| E | a new key, `acceptance.p99_ttft_ms: 500` |
| F | `comparison.duration_seconds: 100` |
"""

# %% exercise="7.1"
# Exercise 7.1
refused = [...]
### BEGIN SOLUTION
refused = ["A", "B", "C", "E"]
### END SOLUTION

# %% check="7.1"
check("7.1", refused)

# %% [markdown]
"""
Afterwards, look at the messages: `try_change("A")`, and so on.
"""

# %%
CHANGES = {
    "A": ("deployments.disaggregated.decode_replicas", 2),
    "B": ("comparison.network_and_host_budget", "<link and hosts>"),
    "C": ("acceptance.slo_attainment_min", 95),
    "D": ("comparison.cache_state", ["cold"]),
    "E": ("acceptance.p99_ttft_ms", 500),
    "F": ("comparison.duration_seconds", 100),
}


def try_change(letter):
    """Make one change to the reference plan and say what the check says."""
    path, value = CHANGES[letter]
    changed = copy.deepcopy(shown)
    *parents, last = path.split(".")
    inner = changed
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    try:
        plan.from_dict(changed)
        print("accepted")
    except BadInput as problem:
        print(problem)


# %% [markdown]
"""
A plan can be sound and still be a poor one. Change F is such a case: at 1 request/s it leaves a hundred requests, and the interval of notebook 06 is wide for so few.

## The sweep

Now the two sides, run by run. Everything is **simulated**: AISimulate, a simulator from the Dynamo project, predicts the course of every request on 16 H100. It knows kernels and schedulers; it knows nothing of your network, your router or your luck. How far to trust it is asked further down. The rates above 8 are not the plan's: they were added, for a reason that follows the tables.
"""


# %%
def sweep_table(design, caption):
    rows = []
    for rate, r in reports("main", design):
        if rate > 20:
            continue
        rows.append([
            f"{rate:g}", r.offered,
            " / ".join(f"{x:,.0f}" for x in (r.ttft_ms.p50, r.ttft_ms.p95, r.ttft_ms.p99)),
            " / ".join(f"{x:.1f}" for x in (r.tpot_ms.p50, r.tpot_ms.p95, r.tpot_ms.p99)),
            " / ".join(f"{x:.0f}" for x in (r.itl_ms.p50, r.itl_ms.p95, r.itl_ms.p99, r.itl_ms.max)),
            f"{100 * r.joint_attainment.all_offered:.1f} %", f"{100 * r.error_rate:.1f} %", r.queue_trend.result, r.verdict,
        ])
    show_table(
        rows,
        ["requests/s", "offered", "TTFT P50/95/99, ms", "TPOT P50/95/99, ms", "gap P50/95/99/max, ms",
         "attainment", "errors", "queue", "verdict"],
        caption=caption, label="simulated", source=SOURCE + ", cold cache",
    )


sweep_table("aggregated", "Two TP8 replicas, each prefills and decodes, chunk 2,048")
sweep_table("disaggregated", "One TP8 worker prefills, one TP8 worker decodes")

# %% [markdown]
"""
The second design has quiet gaps between its tokens and long waits for the first one. With the first design it is the other way round. Compare one row: at 4 requests/s the P99 gap is 94 ms against 11, and the P99 TTFT is 160 ms against 283. **Both designs pass, each with a tail that the other does not have.**

One word in the first table needs care. At 20 requests/s nothing is attained, the median first token takes seconds, and the queue is called *steady*.
"""

# %%
trend = slo.analyse(run("main/aggregated-cold-20rps"), the_plan.acceptance).queue_trend
quarters = ", ".join(f"{mean:.0f}" for mean in trend.quarter_means)
print(f"aggregated at 20/s, requests in the system, mean of each quarter: {quarters}")
print(f"rise from the second to the last: {trend.rise:.0f}, chance allows {trend.noise:.0f}   [simulated]")

# %% [markdown]
"""
The gate asks one thing: does the number of requests in the system *go on* rising, from the second quarter of the arrivals to the last, by more than chance explains? (Two standard deviations of the number of arrivals in that time.) Here a long queue has formed by the second quarter. From then on it grows by less than chance allows, so this run is too short to prove growth. *Steady* does not mean short, and it is no proof of balance. It is attainment that stops this run.

**Capacity** is the highest *tested* rate that passes every gate, with nothing but passes below it. None can be stated where a rate passes above one that fails, or where a rate can't be judged and no lower one fails ([notebook 06](06-four-metrics.ipynb), *Fourth metric*). Two words do the work. *Tested*: between 14 and 16 nothing was run, so nothing is known. And *highest* must not jump over a failure: if 8 fails and 12 passes, one of the two was luck, and the table can't say which.

Write it. `points` is a list of `[rate, verdict]` in any order; a verdict is `"pass"`, `"fail"` or `"not_evaluable"`. Return the capacity, or `0` where none can be stated or even the lowest rate fails.
"""

# %% exercise="7.2"
# Exercise 7.2
def capacity_rps(points):
    """The capacity in requests/s; 0 where none can be stated."""
    ...


### BEGIN SOLUTION
def capacity_rps(points):
    """The capacity in requests/s; 0 where none can be stated."""
    first_failure = min((rate for rate, verdict in points if verdict == "fail"), default=float("inf"))
    for rate, verdict in points:
        if verdict == "pass" and rate > first_failure or verdict == "not_evaluable" and rate < first_failure:
            return 0
    return max((rate for rate, verdict in points if verdict == "pass"), default=0)
### END SOLUTION

# %% check="7.2"
check("7.2", capacity_rps)

# %%
own_rates = the_plan.comparison.offered_rates_rps
for design in ("aggregated", "disaggregated"):
    points = reports("main", design)
    planned, found = slo.capacity([p for p in points if p[0] in own_rates]), slo.capacity(points)
    print(f"{design:<14} plan's own rates: {planned.rate_rps:g} requests/s ({planned.reason})")
    print(f"{'':<14} with those added: {found.rate_rps:g} requests/s ({found.reason})   [simulated]")

# %% [markdown]
"""
The second lines are Ben's: 14 and 10. The first are what the plan as written says. It names four rates, from 1 to 8, for 600 s each, and at these both sides pass everything. So its own answer is *at least 8, on both sides*: no difference.

The rates from 10 up were added to it, with the same trace and the same limits but 1,600 requests a run, because a sweep in which nothing fails finds no capacity. That has a price. Whoever adds rates can stop where the result pleases, and this plan does not forbid it. So read 14 against 10 as a finding with its rates named, not as the plan's promise kept. To confirm it, put these rates into a plan before the run, and meet them with a trace that was not used here: on this one a deterministic simulator can only repeat itself.

And the table above says *chunk 2,048*. Who chose that?

## Tune the opponent first

An aggregated worker puts the tokens of a prompt into its passes in chunks. The limit is `max_num_batched_tokens`. We call it the chunk size for short; it is the budget of a whole pass, and a prompt's piece is what the running decodes leave of it. A small chunk keeps each pass short, so that running answers hardly stutter. But each pass reads all the weights, however few tokens it carries. Somewhere between lies the best size, and *somewhere* is found by a sweep of its own. To leave it at a default would be to fight an opponent whose hands are tied.
"""

# %%
CHUNKS = (256, 512, 1024, 2048, 4096, 8192)
rows = []
for chunk in CHUNKS:
    points = reports("chunks", f"aggregated chunk {chunk}")
    found = slo.capacity(points)
    at_8 = dict(points)[8]
    rows.append([
        f"{chunk:,}", f"{found.rate_rps:g}" if found.rate_rps else found.result,
        f"{at_8.ttft_ms.p99:,.0f}", f"{at_8.itl_ms.p99:.0f}", f"{at_8.itl_ms.max:.0f}", found.reason,
    ])
show_table(
    rows,
    ["chunk, tokens", "capacity, requests/s", "P99 TTFT at 8/s, ms", "P99 gap at 8/s, ms", "largest gap at 8/s, ms", "because"],
    caption="Six chunk sizes for two TP8 replicas", label="simulated", source=SOURCE + ", cold cache",
)

# %% [markdown]
"""
At 8/s the chunk of 2,048 has a P99 TTFT of 215 ms here and of 196 ms in the first table. It is one design on one trace, and the number of requests differs: 1,000 a run here, 4,800 there, of which these are the first. A P99 of a thousand rests on its ten slowest. So compare rows within a table.

The last line is vLLM's default on an H100, and its capacity is *refused*: one rate can't be judged, and no lower one fails. Your function returns 0 for such a list. At 12 requests/s the largest gap of the whole run is 257 ms. The simulator reports no gaps by request, so nobody can say how many requests had one above 200 ms. An analyser that guessed here would be making the number up.

Choose. `chunk` is the size you run the comparison with: the highest capacity, and of equals the smallest gap. `why_not_4096` and `why_not_8192` are each one of `"lower capacity"`, `"larger gap"`, `"not evaluable"`.
"""

# %% exercise="7.3"
# Exercise 7.3
choice = {"chunk": ..., "why_not_4096": ..., "why_not_8192": ...}
### BEGIN SOLUTION
choice = {"chunk": 2048, "why_not_4096": "larger gap", "why_not_8192": "not evaluable"}
### END SOLUTION

# %% check="7.3"
check("7.3", choice)

# %% [markdown]
"""
Ana compared with a chunk of 256. Her aggregated side carried 4. Why so little? Past its limit, every pass is full. So count what a full pass gets done:

    ceiling = replicas × chunk_tokens / (tokens_per_request × pass_s)

In the head: one replica, 100 tokens a pass, 10 passes a second, 500 tokens a request: 2 requests a second.

A request brings 2,000 + 200 tokens through the passes. With a chunk of **256** a full pass takes **28.08 ms**, and there are **two replicas**. What is the ceiling, in requests a second, to two decimals?
"""

# %% exercise="7.4"
# Exercise 7.4
ceiling_rps = ...
### BEGIN SOLUTION
ceiling_rps = 2 * 256 / (2200 * 0.02808)
### END SOLUTION

# %% check="7.4"
check("7.4", ceiling_rps)

# %% tags=["reveals"]
print("chunk  full pass ms  ceiling by the formula  completed at 16/s offered   [simulated]")
for chunk in (256, 512, 1024):
    full = run(f"chunks/aggregated-chunk-{chunk}-cold-16rps")
    pass_ms = full.provenance["summary"]["itl_p50_ms"]
    ends = np.sort(full.table["end_ns"].to_numpy()) / 1e9
    quarter = len(ends) // 4
    completed = (len(ends) - 2 * quarter) / (ends[-quarter] - ends[quarter])
    print(f"{chunk:>5}  {pass_ms:>12.2f}  {2 * chunk / (2200 * pass_ms / 1000):>22.2f}  {completed:>25.2f}")

# %% [markdown]
"""
One line of arithmetic with the simulator's own pass time, and the simulator, agree within half a per cent where the passes are full, and within 4 % at 1,024. Remember this when we ask whether to believe it.

A ceiling is not a capacity. One prompt needs eight such passes, and at 8 requests/s nearly all passes are full: prompts queue, and TTFT breaks its limit. Between 4 and 8 nothing was run: hence 4.

## What the 1:1 split does to TTFT

Back to the other side. Its capacity is 10, though its decode pool has hardly begun to work. Follow the first token. It has four waits behind it:
"""

# %%
PARTS = ("wait for the prefill worker", "prefill", "hand-off", "first decode step")


def ttft_parts(path):
    """Mean ms of the four parts of TTFT in a run with a prefill pool."""
    one = run(path)
    total = (one.table["first_token_ns"].to_numpy() - one.table["sent_ns"].to_numpy()) / 1e6
    parts = [simcheck.prefill_wait_ms(one), simcheck.prefill_service_ms(one), simcheck.transfer_ms(one)]
    return [float(part.mean()) for part in (*parts, total - sum(parts))]


rates = (1, 4, 8, 10)
ax = figure(
    "At 10 requests/s most of TTFT is a queue for one worker",
    label="simulated", source=SOURCE + ", cold cache, 1 × TP8 + 1 × TP8",
    xlabel="mean TTFT (ms)", ylabel="offered requests/s", size=(8, 3.8),
)
LOOK = (("#D55E00", "//"), ("#0072B2", ""), ("#009E73", ".."), ("#595959", ""))
for row, rate in enumerate(rates):
    left = 0.0
    for (colour, hatch), value in zip(LOOK, ttft_parts(f"main/disaggregated-cold-{rate}rps")):
        ax.barh(row, value, left=left, height=0.62, color=colour, hatch=hatch, edgecolor="white")
        left += value
    name_at(ax, left, row, f"{left:.0f}", dx=6)
for x, (colour, _), words in zip((2, 190, 250, 289), LOOK, ("wait for the worker", "prefill", "hand-off", "first step")):
    name_at(ax, x, 3.7, words, colour, dx=0)
ax.set(xlim=(0, 330), ylim=(-0.5, 4.0))
ax.set_yticks(range(4), [f"{rate}" for rate in rates])
ax.grid(axis="y", visible=False)
lines = [ttft_parts(f"main/disaggregated-cold-{rate}rps") for rate in rates]
show_figure(ax, alt=(
    "Mean TTFT in ms, split into wait for the prefill worker, prefill, hand-off and first decode step, "
    "at 1, 4, 8 and 10 requests/s. " + " ".join(
        f"At {rate}: {parts[0]:.0f} + {parts[1]:.0f} + {parts[2]:.0f} + {parts[3]:.0f}."
        for rate, parts in zip(rates, lines)
    )
))

# %% [markdown]
"""
In notebook 05 a prefill pool that was 33 % busy looked comfortable. At 10 requests/s it is 84 %, and each further request finds a longer line. Two replicas would have shared that line. One pool of the same eight GPUs can't: **the split made a bottleneck out of half a cluster and left the other half nearly empty.**

The hand-off in that figure is small. Would a better link make it smaller? Here are three links, with a factor of ten between the ends. A rank's floors for 2,000 tokens are 8.192, 3.277 and 0.819 ms.
"""


# %%
def show_links(tokens, rate, title, xmax):
    """The distribution of the hand-off over three links, for prompts of one length."""
    ax = figure(
        title, label="simulated", source=f"AISimulate, 16 × H100, 1 × TP8 + 1 × TP8, {tokens:,} tokens, 400 requests a line",
        xlabel="from the end of prefill until decode may begin (ms)", ylabel="share of hand-offs at or below", size=(8, 4.2),
    )
    medians = []
    for index, gb_s in enumerate((10, 25, 100)):
        times = np.sort(simcheck.transfer_ms(run(f"links/disaggregated-{tokens}-tokens-{gb_s}-GB_s-cold-{rate:g}rps")))
        medians.append(float(np.median(times)))
        colour, dash = ("#0072B2", "#D55E00", "#009E73")[index], ("-", (0, (5, 2)), (0, (1, 1.3)))[index]
        ax.step(times, np.arange(1, len(times) + 1) / len(times), where="post", color=colour, linestyle=dash, marker="")
        height = 0.1 + 0.1 * index
        ax.plot([times[0]] * 2, [0, height], color=colour, linestyle=dash, marker="", linewidth=1)
        name_at(ax, times[0], height, f"{gb_s} GB/s", colour, dx=-5 if times[0] > 0.2 * xmax else 5)
    ax.set(xlim=(0, xmax), ylim=(0, 1.02))
    words = ", ".join(f"{m:.1f} ms at {gb_s} GB/s" for m, gb_s in zip(medians, (10, 25, 100)))
    show_figure(ax, alt=f"Cumulative distribution of the simulated hand-off of {tokens:,} tokens. Medians: {words}.")


show_links(2000, 2, "Ten times the link, and the hand-off of 2,000 tokens takes as long", 24)

# %% [markdown]
"""
The upright lines stand at each link's quickest hand-off, its floor. Nearly all hand-offs take longer, 10 to 20 ms, even where the wire takes 0.8. A decode step takes 10. Where does the rest go? The simulator notes two moments: when decode has reserved room for the KV, and when it takes the request in.
"""

# %%
rows = []
for gb_s in (10, 25, 100):
    one = run(f"links/disaggregated-2000-tokens-{gb_s}-GB_s-cold-2rps")
    stages = [r["stage_ns"] for r in records.rows(one.table)]
    until_room = [(s["transfer_start"] - s["prefill_end"]) / 1e6 for s in stages]
    until_in = [(s["transfer_end"] - s["transfer_start"]) / 1e6 for s in stages]
    rows.append([f"{gb_s} GB/s", f"{min(until_in):.1f}", f"{np.median(until_room):.1f}", f"{np.median(until_in):.1f}"])
show_table(
    rows, ["link", "floor, ms", "until room is reserved, ms (median)", "from then until taken in, ms (median)"],
    caption="The two waits of a hand-off of 2,000 tokens", label="simulated",
    source="AISimulate, 16 × H100, 1 × TP8 + 1 × TP8, 400 requests a line",
)

# %% [markdown]
"""
Both moments lie between two steps of decode. So a hand-off meets two boundaries. First it waits for the step that is running, half a step on average; then room is reserved and the bytes move. They arrive while the next step runs, and decode takes the request in when that one ends: a whole step, whether the wire takes 0.8 ms or 8. Only an idle decode pool takes it at the floor. **Whatever the wire saves below a step, the boundary takes back.** (That is how this simulator's decode works; an engine that reserves sooner has one boundary less. And its links have no set-up time; yours has.)

So what happens at other lengths? For **300 tokens** the floors of a rank are 1.23 ms at 10 GB/s and 0.12 ms at 100. For **8,192 tokens** they are 33.55 and 3.36 ms. From 10 to 100 GB/s, what does the **median** hand-off become? One of `"a tenth"`, `"a third"`, `"about the same"`.
"""

# %% exercise="7.5"
# Exercise 7.5
becomes = {"300 tokens": ..., "8,192 tokens": ...}
### BEGIN SOLUTION
becomes = {"300 tokens": "about the same", "8,192 tokens": "a third"}
### END SOLUTION

# %% check="7.5"
check("7.5", becomes)

# %% [markdown]
"""
To see them, call `show_links(300, 8, "What 300 tokens make of the link", 24)` and `show_links(8192, 0.5, "What 8,192 tokens make of the link", 60)`. A faster link pays where the floor is several decode steps long.

**A good place to stop**, after 35 of the 70 minutes. The plan is fixed, the opponent tuned, and one split has been tried. Ahead: the other splits, a measurement in miniature, and what would turn the answer. When you come back, click this text and choose *Run*, *Run All Above Selected Cell*.

## The best of the splits

Nobody said that half and half is right. Sixteen GPUs can be cut otherwise, once workers are smaller. First without any simulator: a prefill pool does at most `workers / service_s` prompts a second, **84.07 ms** on a TP8 worker and **127.40 ms** on a TP4 worker (2,000 tokens, simulated). Five splits:

| split | prefill | decode |
|---|---|---|
| A | 1 × TP8 | 1 × TP8 |
| B | 3 × TP4 | 1 × TP4 |
| C | 2 × TP4 | 2 × TP4 |
| D | 1 × TP4 | 3 × TP4 |
| E | 2 × TP4 | 1 × TP8 |

Which of them does that line alone rule out at **16 requests/s**, whatever decode does? Give the letters.
"""

# %% exercise="7.6"
# Exercise 7.6
ruled_out = [...]
### BEGIN SOLUTION
ruled_out = ["A", "C", "D", "E"]
### END SOLUTION

# %% check="7.6"
check("7.6", ruled_out)

# %% [markdown]
"""
Sums first, then runs: the search has one candidate left before it starts. And fairness again: if P/D may use TP4 workers, so may aggregation.
"""

# %%
LAYOUTS = {
    "2 × TP8, aggregated": ("main", "aggregated"),
    "4 × TP4, aggregated": ("splits", "aggregated 4xtp4"),
    "1 × TP8 + 1 × TP8": ("main", "disaggregated"),
    "3 × TP4 + 1 × TP4": ("splits", "disaggregated 3xtp4 to 1xtp4"),
    "2 × TP4 + 2 × TP4": ("splits", "disaggregated 2xtp4 to 2xtp4"),
    "1 × TP4 + 3 × TP4": ("splits", "disaggregated 1xtp4 to 3xtp4"),
    "2 × TP4 + 1 × TP8": ("splits", "disaggregated 2xtp4 to 1xtp8"),
}
rows, curves, carried = [], {}, {}
for name, (group, design) in LAYOUTS.items():
    points = reports(group, design)
    found = slo.capacity(points)
    carried[name] = found.rate_rps
    curves[name] = [(rate, r.joint_attainment.all_offered) for rate, r in points if 8 <= rate <= 24]
    at_12 = dict(points)[12]
    rows.append([
        name, f"{found.rate_rps:g}" if found.rate_rps else "below 12",
        f"{at_12.ttft_ms.p99:,.0f}", f"{at_12.tpot_ms.p99:.1f}", f"{at_12.itl_ms.p99:.0f}",
        f"{100 * at_12.joint_attainment.all_offered:.1f} %",
    ])
show_table(
    rows,
    ["16 GPUs as", "capacity, requests/s", "P99 TTFT at 12/s, ms", "P99 TPOT at 12/s, ms", "P99 gap at 12/s, ms",
     "attainment at 12/s"],
    caption="Seven ways to use sixteen GPUs", label="simulated", source=SOURCE + ", cold cache",
)

# %%
ax = figure(
    "Of four ways to use 16 GPUs, the best and the worst are both disaggregated",
    label="simulated", source=SOURCE + ", cold cache",
    xlabel="offered requests/s", ylabel="requests that meet all targets",
)
for index, name in enumerate(("1 × TP8 + 1 × TP8", "2 × TP8, aggregated", "4 × TP4, aggregated", "3 × TP4 + 1 × TP4")):
    colour = ("#D55E00", "#0072B2", "#000000", "#009E73")[index]
    rate, share = zip(*curves[name])
    ax.plot(rate, share, color=colour, marker="osD^"[index], linestyle=("-", (0, (5, 2)), (0, (1, 1.3)), "-")[index])
    at = {0: (13.5, 0.12, 0), 1: (24, 0, 0), 2: (24, 0.132, 4), 3: (24, 0.672, 6)}[index]
    name_at(ax, at[0], at[1], name, colour, dx=10 if index else -10, dy=at[2])
ax.axhline(0.95, color="#595959", linewidth=1.2)
name_at(ax, 25, 0.95, "gate 95 %", "#595959", dx=6, dy=-11)
ax.set(xlim=(7.5, 30.5), ylim=(-0.04, 1.04), xticks=[8, 10, 12, 14, 16, 18, 20, 22, 24],
       yticks=[0, 0.25, 0.5, 0.75, 1], yticklabels=["0", "25 %", "50 %", "75 %", "100 %"])
show_figure(ax, alt=(
    "Share of requests within all targets against the offered rate, with the 95 % gate. One TP8 prefill "
    "worker with one TP8 decode worker falls from 100 % at 10 to 42 % at 12 requests/s. Two aggregated TP8 "
    "replicas hold until 14 and have 74 % at 16. Four aggregated TP4 replicas hold until 16. Three TP4 "
    "prefill workers with one TP4 decode worker hold until 22 and have 67 % at 24."
))

# %% [markdown]
"""
That is Dee's line: 16 against 22, each side at the best layout that was searched. It is the strongest case for disaggregation in this notebook. It also says where the gain came from: not from *splitting*, which loses in A, C, D and E, but from sizing the two pools for this mix. The TP4 replicas' chunk was swept too, at 16 and 18 requests/s: of five other sizes none passes, and two can't be judged at 16.

All of it rests on *one* draw of arrivals. So here are three more Poisson draws of the same load, each run at the trace's figure and at two rates above it.
"""

# %%
DRAWS = (101, 202, 303)  # their seeds
rows = []
for name, design in (
    ("2 × TP8, aggregated", "aggregated 2xtp8"), ("1 × TP8 + 1 × TP8", "disaggregated 1xtp8 to 1xtp8"),
    ("4 × TP4, aggregated", "aggregated 4xtp4"), ("3 × TP4 + 1 × TP4", "disaggregated 3xtp4 to 1xtp4"),
):
    others = [slo.capacity(reports("draws", f"{design} draw {seed}")).rate_rps for seed in DRAWS]
    rows.append([name, *(f"{rate:g}" for rate in (carried[name], *others))])
show_table(
    rows, ["16 GPUs as", "the trace", *(f"draw {seed}" for seed in DRAWS)],
    caption="Capacity in requests/s, by four draws of the arrivals", label="simulated", source=SOURCE + ", cold cache",
)
for design, asked, workers in (("1xtp8-to-1xtp8", 12, 1), ("3xtp4-to-1xtp4", 24, 3)):
    one = run(f"draws/disaggregated-{design}-draw-101-cold-{asked}rps")
    sent_s = one.table["sent_ns"].to_numpy() / 1e9
    brought, ceiling = (len(sent_s) - 1) / (sent_s[-1] - sent_s[0]), 1000 * workers / simcheck.prefill_service_ms(one).mean()
    print(f"draw 101 at {asked}/s brought {brought:.1f}/s; its prefill workers can do {ceiling:.1f}/s   [simulated]")

# %% [markdown]
"""
The order is the same in all four. Two draws repeat every figure. Draw 101 lifts three of them by a step. Its requests came about 2 % more slowly than asked, so at 12 and 24 a second the prefill workers of the two splits had a hair less to do than they can. That makes a pass possible. For the four TP4 replicas we have not looked for the reason. **Read the order, and each figure to the nearest step.** The simulator is deterministic; a load is not.

## Cold and warm

Half of the prompts' tokens (1,024 of 2,000) may be a prefix that many requests share. In the *warm* runs they are: one of eight system prompts. In the *cold* runs every block is new. Arrivals and lengths are the same.

A warm prefill takes 44.86 ms instead of 84.07; decode steps are as long as before. Before you run the cell after the next: which way does each capacity move, and which side gains more, in proportion, for *2 × TP8* against *1 × TP8 + 1 × TP8*? Use `"rises"`, `"falls"` or `"stays"`, and `"aggregated"` or `"disaggregated"`.
"""

# %% exercise="7.7"
# Exercise 7.7
warm = {"aggregated": ..., "disaggregated": ..., "gains more": ...}
### BEGIN SOLUTION
warm = {"aggregated": "rises", "disaggregated": "rises", "gains more": "disaggregated"}
### END SOLUTION

# %% check="7.7"
check("7.7", warm)

# %% [markdown]
"""
The cell prints what the sweep says once you ask it: `cold_and_warm()`.
"""


# %%
def cold_and_warm():
    """Capacity of the plan's two sides with a cold and a warm cache."""
    for design in ("aggregated", "disaggregated"):
        cold, warm = (slo.capacity(reports("main", design, state)).rate_rps for state in ("cold", "warm"))
        hits = 100 * run(f"main/{design}-warm-8rps").provenance["summary"]["prefix_cache_hit_ratio"]
        print(f"{design:<14} cold {cold:g}, warm {warm:g} requests/s; hit ratio {hits:.0f} %   [simulated]")


# %% [markdown]
"""
The bottleneck gains what the cache saves. On the split side prefill *is* the bottleneck, so nearly all of the saving turns into capacity. An aggregated worker spends a good part of its time on decode, which the cache does not shorten. And still aggregation stays ahead: that is Cho's line.

**What would change this answer?** A hit needs the block to be on the worker that gets the request. Eight prefixes are soon everywhere. Eight thousand fit nowhere: one is 336 MB, and a TP8 worker has room for 1,300 (notebook 05). Two replicas hold twice as many as the one prefill worker, if each prefix goes to the replica that has it. Then the router matters: notebook 08.

## Why believe a simulator?

Don't. Check it, with laws that hold whatever is inside.

**Little's law.** In any system that fills and empties, the mean number inside equals arrivals a second times the mean stay: L = λ × W. Count L by looking in at many moments, take W from each request's own clock. If a unit were wrong, or a request missing, the two would disagree.

Write the left side. Given the start and end times of requests, return the mean number of requests inside, from the earliest start to the latest end. They come in any order: the last of the list need not be the last to end. In the head: one request that is inside all the time gives 1.
"""

# %% exercise="7.8"
# Exercise 7.8
def mean_in_system(starts, ends):
    """Mean number of requests inside, over the time from the first start to the last end."""
    ...


### BEGIN SOLUTION
def mean_in_system(starts, ends):
    """Mean number of requests inside, over the time from the first start to the last end."""
    stays = sum(end - start for start, end in zip(starts, ends))
    return stays / (max(ends) - min(starts))
### END SOLUTION

# %% check="7.8"
check("7.8", mean_in_system)

# %%
print("                         L counted   λ × W      prefill pool's own ceiling   [simulated]")
for path in ("main/aggregated-cold-8rps", "main/disaggregated-cold-8rps", "main/disaggregated-cold-16rps"):
    one = run(path)
    law = simcheck.littles_law(one)
    tail = ""
    if "16rps" in path:
        service_s = simcheck.prefill_service_ms(one).mean() / 1000
        tail = f"1 / {service_s:.4f} s = {1 / service_s:.3f}/s, served {simcheck.served_rps(one):.3f}/s"
    print(f"{path.split('/')[1]:<24} {law.in_system:>9.2f}  {law.expected:>9.2f}   {tail}")

# %% [markdown]
"""
**Saturation.** A server that is never idle serves at one over its service time. At 16 requests/s offered, the single prefill worker is never idle; the last line shows both numbers.

**M/D/1.** One server, Poisson arrivals, equal services: notebook 04 compared that formula with the mean time to the end of prefill, and at 10 requests/s they were 10 % apart. Was the simulator wrong? There is a way to know. Work the same arrivals through by hand: each prompt begins when it has arrived *and* the one before it is done.
"""

# %%
print("mean wait, ms   [simulated; the M/D/1 form: hypothetical]")
print("requests/s  simulated   by hand   M/D/1 at the trace's own rate")
for rate in (2, 4, 8, 10):
    one = run(f"main/disaggregated-cold-{rate}rps")
    arrivals_ms = one.table["scheduled_ns"].to_numpy() / 1e6
    service_ms = float(np.median(simcheck.prefill_service_ms(one)))
    by_hand = simcheck.queue_by_hand_ms(arrivals_ms, service_ms).mean()
    own_rate = (len(arrivals_ms) - 1) / (arrivals_ms[-1] - arrivals_ms[0]) * 1000
    formula = queueing.md1_mean_wait_s(own_rate, service_ms / 1000) * 1000
    print(f"{rate:>10}  {simcheck.prefill_wait_ms(one).mean():>9.2f}  {by_hand:>8.2f}  {formula:>29.2f}")

# %% [markdown]
"""
The simulator and the hand agree to the last digit shown. What differs from M/D/1 is the *sample*: one trace of some thousand arrivals is not the average of all traces. So the formula is checked where it applies, and only there: not for 3 × TP4 (three servers), not with a warm cache (two service times), not for an aggregated worker (prefill and decode share it).

These checks show that the simulator keeps its books. They do not show that a real H100 takes 84 ms. That is what *simulated* on every table means.

## Whether you may divide at all

`pdlab compare A B` puts gates before ratios. Here are both sides of our plan at 12 requests/s, and then the split side with a warm cache against the other with a cold one:
"""

# %%
honest = compare.compare(
    run("main/aggregated-cold-12rps"), run("main/disaggregated-cold-12rps"), the_plan.acceptance,
    single=run("single/aggregated-one-replica-cold-12rps"),
)
crooked = compare.compare(
    run("main/aggregated-cold-12rps"), run("main/disaggregated-warm-12rps"), the_plan.acceptance
)
for name, both in (("cold against cold", honest), ("cold against warm", crooked)):
    print(f"{name}: ratios {'may be printed' if both.valid else 'refused'}   [simulated]")
    for gate in both.checks:
        print(f"   {gate.name:<23} {gate.result}")

# %% [markdown]
"""
Now do the gates' work yourself. A blog post compares aggregated with disaggregated serving on the same eight GPUs. Its table is made up for this exercise, after tables that people publish (hypothetical):

| row | about | aggregated | disaggregated | the post says |
|---|---|---|---|---|
| A | throughput, requests/s | one replica: 9.8; **two replicas: 1.9** | 4.1 | 2.2 times two replicas |
| B | latency, ms | 1,840, mean of a batch of eight | 1,210, mean of a request | 34 % faster |
| C | TTFT, ms | 98, streamed | 2,310, through a proxy that sends the whole answer at once (E2E 2,310) | 24 times slower |
| D | P95 of TTFT, ms | 412, one request | 388, one request | better tail |
| E | throughput, requests/s | 11, chunk at its default, never tuned | 13 | 18 % more |
| F | prompts | a different text each time | the same text 500 times | a fair trace |
| G | errors | 2 of 2,000 offered | 3 of 2,000 offered | no difference |

What is wrong with each row? One of `"broken baseline"`, `"two quantities"`, `"buffered stream"`, `"sample of one"`, `"untuned opponent"`, `"cached prompts"`, or `"sound"`. And in how many of the seven may you divide one number by the other?
"""

# %% exercise="7.9"
# Exercise 7.9
faults = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ..., "F": ..., "G": ..., "may divide": ...}
### BEGIN SOLUTION
faults = {
    "A": "broken baseline",
    "B": "two quantities",
    "C": "buffered stream",
    "D": "sample of one",
    "E": "untuned opponent",
    "F": "cached prompts",
    "G": "sound",
    "may divide": 0,
}
### END SOLUTION

# %% check="7.9"
check("7.9", faults)

# %% [markdown]
"""
Row A is the one to remember. Two replicas at a fifth of one is no baseline. It is a broken router, or a shared lock, or a benchmark client at its own limit. Whatever stands beside it looks like progress. And row G is sound because its author did *not* divide: 3 by 2 is 1.5, and at such counts means nothing.

## The miniature, measured

All of this was predicted. The same question can be put to real servers, on a smaller stage: two CPU cores, SmolLM2-135M, vLLM, NIXL over loopback. Aggregated is two replicas of one core each. Disaggregated is one core that prefills and one that decodes. The plan has the same keys (`data/plans/miniature-2core.yaml`), with limits that a CPU can meet (TTFT 2,000 ms, TPOT 100 ms, no gap above 250 ms) and a gate of 90 %, since its runs are short. Prompts have 64 tokens, one in seven has 768, and answers have 24. Aggregation was tuned over three chunk sizes first, and one replica alone was run beside the two.

The runs have 45 to 135 requests. A P99 of so few would be the word of one. So the table shows medians, the worst case, and the interval of the attainment.

Lab L2 takes these runs apart, and it asks you for three guesses first. If you mean to do it, leave the table and the closed line below it until you come back. Otherwise call `show_miniature()`.
"""

# %%
MINIATURE = recorded("miniature")
small_plan = plan.load(PLANS / "miniature-2core.yaml")
rows = []
for entry in records.read_sweep(MINIATURE).entries:
    r = slo.analyse(entry.read(), small_plan.acceptance)
    low, high = r.joint_attainment.interval
    rows.append([
        entry.design, f"{entry.offered_rate_rps:g}", r.offered,
        f"{r.ttft_ms.p50:,.0f} / {r.ttft_ms.max:,.0f}", f"{r.tpot_ms.p50:.0f} / {r.tpot_ms.max:.0f}",
        f"{r.max_itl_ms.p50:.0f} / {r.max_itl_ms.max:.0f}",
        f"{100 * r.joint_attainment.all_offered:.0f} % ({100 * low:.0f} % to {100 * high:.0f} %)", r.verdict,
    ])


def show_miniature():
    """The six measured runs as a table."""
    show_table(
        rows,
        ["design", "requests/s", "offered", "TTFT P50/max, ms", "TPOT P50/max, ms", "largest gap P50/max, ms",
         "attainment (95 % interval)", "verdict"],
        caption="The same comparison on two CPU cores, with real servers",
        label="measured", source="vLLM 0.32 on CPU, SmolLM2-135M, NIXL over loopback", run=MINIATURE / "aggregated-cold-1.5rps",
    )



# %% [markdown]
"""
<details><summary>What came out of the miniature: open this after lab L2, or if you leave the lab out</summary>
Both sides pass at the two lower rates and fail at the highest: one capacity, two characters. The split keeps its gaps short and makes everybody wait longer for the first token; with the replicas it is the other way round. At 3 requests/s the intervals lie apart, and the split is ahead. At 4.5 they overlap, and nothing can be said.

The two characters are those of the simulated tables. The verdict is not: on 16 GPUs the single prefill pool was full first, and Ben found 14 against 10; on two cores both sides stop at the same rate.
</details>

One thing can be said without opening it. **A simulation of one machine and a measurement of another may agree in the reason and differ in the verdict**, or the other way round. So neither may be quoted for the other.

## What would change this answer?

The plan says 200 ms for the largest gap of a request. Where does that come from? From somebody's idea of a pleasant stream. Suppose yours is stricter: **50 ms**. `capacity_at` reads the same records by another limit:
"""


# %%
def capacity_at(gap_limit_ms, group, design):
    """Capacity in requests/s under another limit for the largest gap of a request."""
    stricter = the_plan.acceptance.model_copy(update={"max_itl_per_request_ms": gap_limit_ms})
    found = slo.capacity(reports(group, design, acceptance=stricter))
    return found.rate_rps if found.rate_rps else found.reason


# capacity_at(50, "main", "disaggregated"), capacity_at(50, "chunks", "aggregated chunk 512"), and so on
# for each chunk of CHUNKS

# %% [markdown]
"""
Stay with two TP8 workers on both sides. At each limit, give aggregation the best chunk that can be judged. Who wins, and with what chunk does aggregation run at 50 ms?
"""

# %% exercise="7.10"
# Exercise 7.10
flips = {"winner at 200 ms": ..., "winner at 50 ms": ..., "chunk at 50 ms": ...}
### BEGIN SOLUTION
flips = {"winner at 200 ms": "aggregated", "winner at 50 ms": "disaggregated", "chunk at 50 ms": 512}
### END SOLUTION

# %% check="7.10"
check("7.10", flips)

# %% [markdown]
"""
So now all four engineers have their place:

| engineer | what was asked |
|---|---|
| Ana, 4 and 10 | a split against an opponent with a bad chunk size |
| Ben, 14 and 10 | the plan's two sides, opponent tuned, at rates added above the plan's |
| Cho, 24 and 20 | the same with a warm cache |
| Dee, 16 and 22 | each side at the best layout that was searched |

Four right answers to four questions. One of the questions, Ana's, nobody should ask. The others differ in what they hold fixed, and a plan exists to say that *before* the run.

Other things may turn the answer as well: longer answers (decode fills up), another GPU, a TTFT target of 300 ms in place of 2,000.

Other lengths of prompt were run too. With 8,192 tokens Ben's answer stands: aggregation passes 3 requests/s, the highest that was tried, and the split 2. With 300 tokens both sides pass all three rates, so nothing is decided; notebook 09 looks closer. Short prompts disturb decodes as well: at 24/s the P95 gap is 32 ms on the aggregated side, and 12 on the other.

## Recap

1. Write the plan first: what both sides share, what differs, what counts, out of how many, at which rates. What is added later is called added.
2. Capacity is the highest *tested* rate with nothing but passes below it. A gate without data is *not evaluable*, never a guess.
3. Tune the opponent's chunk size, and search the split, before you compare.
4. The 1:1 split turns one prefill worker into the queue; for this mix the best of the five splits tried is 3 : 1. The same GPUs, from 10 to 22 requests/s, each to the nearest step.
5. Check a simulation by laws that need no trust: Little, saturation, the queue by hand. Then call it *simulated* all the same.

Your guesses from the start:
"""

# %%
four = {design: dict(reports("main", design))[4].ttft_ms.p99 for design in ("aggregated", "disaggregated")}
slow, fast = (run(f"links/disaggregated-2000-tokens-{gb_s}-GB_s-cold-2rps") for gb_s in (10, 100))
grown_ms = np.median(simcheck.transfer_ms(slow)) - np.median(simcheck.transfer_ms(fast))
guesses({
    "7.a": f"{min(four, key=four.get)}: {four['aggregated']:.0f} ms against {four['disaggregated']:.0f} ms",
    "7.b": f"{grown_ms:.1f} ms",
})

# %% [markdown]
"""
## Two questions from before

Answer from memory, aloud or on paper. Then open the line.

<details><summary>From 06: 95 of 100 requests succeed, 90 of them within both targets. Two attainments can be computed. Which one does this notebook's plan use, and does the run pass?</summary>
90 % over all offered, 94.7 % over the successful ones. The plan's denominator is all offered requests after warm-up, so it is 90 %, and it fails the 95 % gate. (The other would fail as well, by a hair; a gate of 94 % would split them.)
</details>

<details><summary>From 02: at 16 requests/s each prompt leaves 655,360,000 bytes. What is the payload rate out of the prefill pool, and why is it no promise about one hand-off?</summary>
10.5 GB/s. It is an average over all ranks and over time; one hand-off also waits for its set-up, for a free buffer, for others on the same link, and for decode's next step.
</details>
"""

# %% [markdown]
"""
**Next** is notebook 08: which requests should leave at all.

## Sources

Accessed in November 2026.

- AISimulate 0.13.0.dev202610270000000085 (NVIDIA Dynamo project), performance data 0.24.0. `pdlab simulate data/plans/reference-16gpu.yaml --out data/runs/sim-reference --check` makes every run again and compares it with the recording.
- vLLM documentation, *Optimization and Tuning* (chunked prefill) and *Disaggregated Prefilling*, version 0.33.0.
- J. D. C. Little, *A Proof for the Queuing Formula L = λW*, Operations Research 9, 1961.
- Y. Zhong et al., *DistServe*, OSDI 2024: M/D/1 for prefill, goodput per GPU, search of the placement.
- J. Li et al., *Revisiting Disaggregated Large Language Model Serving for Performance and Energy Implications*, arXiv 2601.08833: with equal GPUs on both sides, the gain of P/D is not guaranteed.
"""
