# %% [markdown]
"""
# L4 · Who should leave

**Time** 60 minutes. **Before this** notebook 08 and labs L1 and L2: the rules, the bytes of a transfer, and what a run of two cores can carry. **You need** nothing but this machine. **Run from the top**: each cell needs those above it.

By default the lab shows a recorded run. After `make live-env`, start JupyterLab with `PDLAB_LIVE=1` in its environment, and the same cells measure here; that takes about nine minutes on two cores.

A run of your own, from another machine, opens here as well: `pdlab record routing --out DIR` there, then start JupyterLab with `PDLAB_RUN_L4=DIR`. Plan, tables and checks are then those of your run. The text between them goes on telling of the recorded one: where your tables disagree with it, that is your result.

At the end you have sent one trace through one pair of servers under five routing rules, checked what the router believed against what a server counted, and you can say which differences between two rules this run carries, and which it does not.

## Claim card

| part | in this lab |
|---|---|
| **claim** | "Selective routing beats both extremes: keep short and cached prompts local, send long uncached ones away, and more requests meet their targets than with all local or all remote." |
| **expected** | you say so in a minute, before anything is measured |
| **a run would prove** | where each rule sent each request of this trace and why; which bytes moved; and what TTFT, token gaps and attainment were, here, once |
| **a run would not prove** | which rule is better on GPUs, where both the prefill and the transfer are other numbers. Nothing about a pool of several servers on each side. Nothing about differences smaller than those between two runs of one and the same rule. |
"""

# %%
import json
from collections import Counter

import numpy as np

from pdlab.course import *
from pdlab.course.own import served
from pdlab.live import policy, routing, sweep
from pdlab.measure import compare, plan, records, slo

own = own_routing("L4")  # the folder that PDLAB_RUN_L4 names, if it names one
PLAN_FILE = own / "plan.yaml" if own else routing.PLAN
the_plan = plan.load(PLAN_FILE)
RULES = routing.RULES

# %% [markdown]
"""
## A puzzle

A pair of servers, one core each. One prefills what it is sent. The other decodes, and prefills whatever stays with it.

You may set a threshold: prompts with fewer missing tokens than that stay. Set it to nothing, and everything leaves: the decode core never prefills, and every short question makes a journey first. Set it to infinity, and nothing leaves: the prefill core idles, and you have bought two servers to use one. Somewhere between there should be a best value.

Now the awkward part. Two teams, each with a good reason, put the *same number*, 200, into their routers. On this lab's trace one of them sends away a third of the requests, the other four in five. How can a number mean so little?

Two guesses first.
"""

# %%
# Attainment, the share of all offered requests that meet every target: under which rule is it highest?
best_rule = ...
### BEGIN SOLUTION
best_rule = "llm-d:200"
### END SOLUTION
predict("L4.a", best_rule, choices=list(RULES))

# %%
# KV bytes on the wire under llm-d:200, as a share of those under all-remote: 0 to 1.
share_of_bytes = ...
### BEGIN SOLUTION
share_of_bytes = 0.6
### END SOLUTION
predict("L4.b", share_of_bytes)

# %% [markdown]
"""
## The trace and the rules

The trace was drawn before any run. All answers have 32 tokens.
"""

# %%
base = sweep.read_workload(PLAN_FILE, the_plan)
trace = sweep.requests(the_plan, routing.cases(the_plan)[0], base)
WHAT = {
    "short": "cold, nothing in common with any other",
    "long": "cold, nothing in common with any other",
    "shared": "the first 384 are those of its group, one of three",
}
rows = []
for kind, what in WHAT.items():
    lengths = [r.prompt_tokens for r in trace if r.kind == kind]
    rows.append([kind, len(lengths), ", ".join(f"{n:,}" for n in sorted(set(lengths))), what])
show_table(
    rows, ["kind", "requests", "prompt (tokens)", "its tokens are"],
    caption="The requests of one run, warm-up included", label="hypothetical",
    source="data/traces/selective-2core.jsonl, drawn with a seed",
)
c, a = the_plan.comparison, the_plan.acceptance
print(f"load     {c.offered_rates_rps[0]:g} requests/s, Poisson, {c.duration_seconds:g} s after {c.warmup_requests} requests "
      "for warm-up")
print(f"servers  {c.model}, chunks of {the_plan.live.max_num_batched_tokens[0]} tokens, blocks of {the_plan.live.block_size}")

# %% [markdown]
"""
Five rules meet it, each on empty caches:

- `all-local` and `all-remote`, the extremes;
- `local-below:200`, this course's rule: local while fewer than 200 prompt tokens are missing on decode;
- `llm-d:200`, llm-d's rule with `nonCachedTokens: 200`;
- `dynamo:200:0.7`, the rule of Dynamo's default policy `isl_bounding`: local only while fewer than 200 tokens are missing *and* they are less than 0.7 of the prompt. The share is as shipped; the length is scaled down from 2,048, since our prompts are shorter than a GPU's.

For each kind of prompt, predict the decision of two of them. A `shared` prompt is meant once its group has been seen, so that decode holds 384 of its tokens.
"""

# %% exercise="L4.1"
# Exercise L4.1
# "local" or "remote", each.
sides = {
    "llm-d, short of 100": ..., "dynamo, short of 100": ...,
    "llm-d, long of 560": ..., "dynamo, long of 560": ...,
    "llm-d, shared of 560": ..., "dynamo, shared of 560": ...,
    "llm-d, shared of 640": ..., "dynamo, shared of 640": ...,
}
### BEGIN SOLUTION
sides = {
    "llm-d, short of 100": "local", "dynamo, short of 100": "remote",
    "llm-d, long of 560": "remote", "dynamo, long of 560": "remote",
    "llm-d, shared of 560": "local", "dynamo, shared of 560": "local",
    "llm-d, shared of 640": "remote", "dynamo, shared of 640": "remote",
}
### END SOLUTION

# %% check="L4.1"
check("L4.1", sides)

# %% [markdown]
"""
## What a router may believe

`cached_on_decode` stands in every rule, and no server tells it to the router. The course's router keeps a record instead: a prompt that a server has computed or received is there, in whole blocks, until the longest unused blocks are pushed out. A chain of hashes names the blocks, as in notebook 08.

One trap hides at the end. An engine never takes the *last* token of a prompt from its cache: the answer starts from that token's result, so it has to be computed. With whole blocks this means that a prompt of exactly two blocks, held to its last token, gives a hit of one block.

Write it: the tokens of a prompt that count as cached, when the server holds its first `held_blocks` full blocks.
"""

# %% exercise="L4.2"
# Exercise L4.2
def cached_tokens(prompt_tokens, held_blocks, block_size):
    """Tokens of the prompt that the engine takes from its cache."""
    ...


### BEGIN SOLUTION
def cached_tokens(prompt_tokens, held_blocks, block_size):
    """Tokens of the prompt that the engine takes from its cache."""
    return min(held_blocks, (prompt_tokens - 1) // block_size) * block_size
### END SOLUTION

# %% check="L4.2"
check("L4.2", cached_tokens)

# %% [markdown]
"""
## The run

The next cell gets the runs, recorded or live, and says which. One pair of servers stays up for all five rules. A sixth run, at the same rate, has two aggregated replicas of one core each: the same two cores without any split.
"""

# %%
run = lab_run("routing", routing.record, own=own)

# %%
runs = {entry.design: entry.read() for entry in records.read_sweep(run).entries}
decided = {rule: routing.read_decisions(run / rule.replace(":", "-")) for rule in RULES}
for design, one in runs.items():
    status = one.table["status"].to_pylist()
    assert len(set(one.table["request_id"].to_pylist())) == len(status) == len(trace)
    assert set(status) <= {"ok", "failed", "rejected", "timeout", "cancelled"}
rate_rps = runs["all-remote"].provenance["offered_rate_rps"]
servers = served(the_plan, runs) if own else "SmolLM2-135M on vLLM, two cores"
print(f"{len(runs)} runs of {len(trace)} requests, every offered request with one row and one status")
print(f"offered: {rate_rps:g} requests/s")

# %% [markdown]
"""
### The targets, and where they come from

A target chosen after the run proves what one likes. These stand in the plan and were written down before any loaded run: multiples of what a request takes that is **alone** on the pair. The run measures that again before it starts with the rules, the shortest and the longest prompt of the trace twice each, once prefilled on decode and once elsewhere.
"""

# %%
lone = {
    rule: [r for r in records.rows(records.read_run(run / routing.ALONE / rule).table) if not r["warmup"]]
    for rule in routing.ALONE_RULES
}
order = [r.prompt_tokens for r in routing.alone(base)]


def first_ms(r):
    return (r["frame_ns"][0] - r["sent_ns"]) / 1e6


def tpot_ms(r):
    return (r["frame_ns"][-1] - r["frame_ns"][0]) / 1e6 / (sum(r["frame_tokens"]) - r["frame_tokens"][0])


show_table(
    [
        [rule, f"{order[r['seq']]:,}", f"{first_ms(r):,.0f}", f"{tpot_ms(r):.0f}", f"{max(np.diff(r['frame_ns'])) / 1e6:.0f}"]
        for rule, found in lone.items() for r in found
    ],
    ["prefill", "prompt (tokens)", "TTFT (ms)", "TPOT (ms)", "longest gap (ms)"],
    caption="Requests that were alone on the pair", label="measured", source=servers,
    run=run / routing.ALONE / "all-remote",
)
slowest = max(first_ms(r) for found in lone.values() for r in found)
usual = float(np.median([tpot_ms(r) for found in lone.values() for r in found]))
print(f"TTFT         at most {a.ttft_max_ms:>5,g} ms, {a.ttft_max_ms / slowest:.1f} times the slowest lone request")
print(f"TPOT         at most {a.tpot_max_ms:>5,g} ms, {a.tpot_max_ms / usual:.1f} times the median lone request's")
print(f"longest gap  at most {a.max_itl_per_request_ms:>5,g} ms, {a.max_itl_per_request_ms / usual:.1f} times the same")

# %% [markdown]
"""
An earlier measurement had given about 0.65 s and 50 ms, and the plan allows twice each, and five times the 50 ms for a gap. Where the multiples printed above come out differently, the machine was not equally fast both times. The targets stay as they were written.

## Who left
"""

# %%
rows = []
for rule in RULES:
    away = Counter(one["kind"] for one in decided[rule] if one["side"] == "remote")
    offered = Counter(one.kind for one in trace)
    rows.append([rule, *(f"{away[kind]} of {offered[kind]}" for kind in WHAT), sum(away.values())])
show_table(
    rows, ["rule", *(f"{kind}: sent away" for kind in WHAT), "all sent away"],
    caption="Who left, by rule and kind of prompt",
    label="measured", source="the router's log", run=run / "all-remote",
)

# %% [markdown]
"""
## Where the two rules part

Both routers had the number 200 and the same servers. Put their logs side by side.
"""

# %%
pairs = list(zip(decided["llm-d:200"], decided["dynamo:200:0.7"], strict=True))
apart = [(x, y) for x, y in pairs if x["side"] != y["side"]]
shown = {(x["kind"], x["reason"]): (x, y) for x, y in apart}
show_table(
    [
        [x["kind"], f"{x['prompt_tokens']:,}", x["side"], x["reason"], y["side"], y["reason"]]
        for x, y in list(shown.values())[:6]
    ],
    ["kind", "prompt (tokens)", "llm-d:200", "its reason", "dynamo:200:0.7", "and its reason"],
    caption="Requests on which the two rules disagreed, one of each sort", label="measured",
    source="the router's log", run=run / "llm-d-200",
)

# %% [markdown]
"""
The table shows one of each sort. How many of the run's requests did the two rules part on, warm-up included? Of which kind were most of them? And which of Dynamo's two conditions sent those away: `"length"` or `"share"`? The variable `pairs` holds every request twice, as each router decided it.
"""

# %% exercise="L4.3"
# Exercise L4.3
parted = {"requests": ..., "kind": ..., "condition": ...}
### BEGIN SOLUTION
kind = Counter(x["kind"] for x, _ in apart).most_common(1)[0][0]
parted = {"requests": len(apart), "kind": kind, "condition": "share"}
### END SOLUTION

# %% check="L4.3"
check("L4.3", parted, expected={
    "requests": sum(x["side"] != y["side"] for x, y in pairs), "kind": "short", "condition": "share",
})

# %% [markdown]
"""
So the number is not the rule. 200 bounds the *missing tokens* in both. Dynamo asks in addition that they be a small part of the prompt, and of a cold prompt everything is missing, however short it is. That is what notebook 08's map showed on a grid; here it is on a run.

## Belief and fact

The router's record is a belief about another process's memory. Check it. Each server counts where its prompt tokens came from; `local_cache_hit` on decode is what it really took from its cache.
"""

# %%
def grown(name, server="decode-0"):
    """How much each counter of a server rose over a run, from the samples taken beside it."""
    samples = [json.loads(line) for line in (run / name.replace(":", "-") / sweep.SERVER_METRICS).read_text().splitlines()]
    mine = [one for one in samples if one["server"] == server and "error" not in one]
    return {key: mine[-1][key] - mine[0].get(key, 0) for key in mine[-1] if key not in ("t_ns", "server")}


SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
rows = []
for rule in RULES:
    rose = grown(rule)
    known = [one["cached_tokens"] for one in decided[rule]]
    believed = None if None in known else sum(known)
    rows.append([rule, believed, *(int(rose.get(f"prompt_tokens_by_source_total[{s}]", 0)) for s in SOURCES)])
show_table(
    rows, ["rule", "believed cached on decode", *SOURCES],
    caption="Prompt tokens of a run: the router's belief, and decode's own count by source", label="measured",
    source="the router's log and vLLM's counters", run=run / "llm-d-200",
)

# %% [markdown]
"""
Compare the second column with `local_cache_hit`. The record asked nobody. It knows what was sent where, and an engine that keeps whole blocks is predictable. The two extremes show no belief, since they never look, and for them the router hashes no prompt. Decode hits its cache all the same: a prefix that has come over the wire once is not pulled again.

Where fact is larger than belief, look for two prompts of one group that came close together. The second was placed before the first had been computed; when its turn came at decode, the prefix was there. Each such prompt makes 384 tokens of difference. The record errs on the side that costs a few bytes. One that counted promises would err on the other, and keep prompts on a server that has nothing of them yet.

A colleague starts his router with `--cache-blocks 4096`. His decode server has room for 340 blocks, and his traffic has far more prefixes than that. His router goes on believing in blocks that the server pushed out long ago, and keeps prompts local that it should send away. Which of decode's three counters grows beyond what his router's log predicts?
"""

# %% exercise="L4.4"
# Exercise L4.4
grows = ...
### BEGIN SOLUTION
grows = "local_compute"
### END SOLUTION

# %% check="L4.4"
check("L4.4", grows)

# %% [markdown]
"""
## Bytes

A cached prefix saves twice. A prompt that stays moves nothing. And of a prompt that leaves, decode pulls only the blocks that it doesn't hold already.

Under `llm-d:200`, how many **bytes** exactly should NIXL have moved in the whole run, warm-up included? A block is 128 slots of 23,040 B; a prompt's last block travels whole. `decided["llm-d:200"]` has `side`, `prompt_tokens` and `cached_tokens` of each request.
"""

# %% exercise="L4.5"
# Exercise L4.5
moved = ...
### BEGIN SOLUTION
away = [one for one in decided["llm-d:200"] if one["side"] == "remote"]
moved = sum(-(-one["prompt_tokens"] // 128) - one["cached_tokens"] // 128 for one in away) * 128 * 23_040
### END SOLUTION

# %% check="L4.5"
check("L4.5", moved, expected=routing.bytes_to_move(decided["llm-d:200"]))

# %% tags=["reveals"]
counted = {rule: int(grown(rule).get("nixl_bytes_transferred_sum", 0)) for rule in RULES}
for rule in RULES:
    percent = 100 * counted[rule] / counted["all-remote"]
    print(f"{rule:<16} {counted[rule]:>13,} B counted by NIXL, {percent:3.0f} % of all-remote   [measured]")
from_log = routing.bytes_to_move(decided["llm-d:200"])
BLOCK_BYTES = 128 * 23_040
hits = grown("llm-d:200")["prompt_tokens_by_source_total[local_cache_hit]"]
hits -= sum(one["cached_tokens"] for one in decided["llm-d:200"])
print(f"llm-d:200: the log says {from_log:,} B, NIXL {from_log - counted['llm-d:200']:,} B less")
print(f"           that is {(from_log - counted['llm-d:200']) / BLOCK_BYTES:g} blocks;", end="")
print(f" belief and cache hits differ by {hits / 128:g} blocks")

# %% [markdown]
"""
The last section had a prompt whose prefix decode held by the time it was wanted. The log counts those blocks, NIXL does not. So the two differences should name the same number of blocks: counters that know nothing of each other, and an account that closes to the byte.

Set the bytes beside the requests that left. What Dynamo's rule adds are short prompts, of one block each: its share of the requests grows by more than its share of the bytes.

**What would change this answer?** Room. With a small cache decode pushes the shared prefixes out, and then the same prompts leave again, whole. And time between two uses of a prefix: the record and the server both forget the longest unused first.

## Who waits

TTFT by kind of prompt. Every point is one request, warm-up left out.
"""

# %%
kind_of = {r.seq: r.kind for r in trace}


def judged(one):
    """The finished rows of a run after warm-up."""
    return [r for r in records.rows(one.table) if r["status"] == "ok" and not r["warmup"]]


def ttft_ms(one, kind=None):
    return [first_ms(r) for r in judged(one) if kind in (None, kind_of[r["seq"]])]


def longest_gaps_ms(one, kind=None):
    return [max(np.diff(r["frame_ns"])) / 1e6 for r in judged(one) if kind in (None, kind_of[r["seq"]])]


middle = {design: {kind: float(np.median(ttft_ms(one, kind))) for kind in WHAT} for design, one in runs.items()}
axes = figure(
    f"A short prompt waits {middle['all-remote']['short']:,.0f} ms with all remote, "
    f"{middle['llm-d:200']['short']:,.0f} ms under llm-d:200 (medians)",
    label="measured", source=servers, run=run / "all-remote",
    panels=(1, 3), size=(10.5, 4.6), xlog=True, sharex=True, sharey=True,
)
for ax, kind in zip(axes, WHAT):
    for row, design in enumerate(reversed(list(runs))):
        strip(ax, ttft_ms(runs[design], kind), row, design, index=row)
        ax.plot([middle[design][kind]] * 2, [row - 0.32, row + 0.32], color="#1B1B1B", linewidth=2)
    ax.set_xlabel(f"{kind}: TTFT (ms)")
    ax.axvline(a.ttft_max_ms, color="#595959", linestyle=":")
medians = "; ".join(
    f"{design}: " + ", ".join(f"{kind} {ms:,.0f}" for kind, ms in by.items()) for design, by in middle.items()
)
show_figure(axes[0].figure, alt=(
    "TTFT of each request by kind and rule; bars are medians, the dotted line the target of "
    f"{a.ttft_max_ms:,.0f} ms. Medians in ms: {medians}."
))

# %% [markdown]
"""
Read it panel by panel, and ask each time who stood in front of whom. What you would expect of two separate machines:

- **short**: where it stays, it shares decode's steps with whatever else is being prefilled there. Where it leaves, it stands in prefill's queue, perhaps behind a long prompt, and then pays for the hand-off.
- **long**: where it stays, it has to share one core with every running answer, 128 tokens a step. Where it leaves, it has a core that does nothing else.
- **shared**: most of it is held already. Where it stays, about as much is left to do as for a short prompt. Where it leaves, prefill's own cache helps it too, and only the missing blocks travel.

Check each sentence against its panel before you read on.

In the recorded run the first holds twice over. A short prompt waited 136 to 174 ms where it could stay on a decode core that prefills little else. Under `all-local` it waited 266 ms, since the long prompts stayed too. Where it had to leave it stood in a queue: 427 ms under Dynamo's rule, 753 under `all-remote`.

The second does not hold. At the median a long prompt waited 0.8 s under `all-local`, and 0.9 to 1.2 s where it left for "a core that does nothing else": that core had other prompts to do first. What its stay costs the answers beside it stands in the next table.

The third holds: a shared prompt waited about 0.3 s under the rules that keep it, and 0.7 s where everything leaves.

## Everything on one page
"""

# %%
reports = {design: slo.analyse(one, the_plan.acceptance) for design, one in runs.items()}
rows = []
for design, r in reports.items():
    low, high = r.joint_attainment.interval
    rows.append([
        design, r.offered, f"{r.joint_attainment.all_offered:.3f}", f"{low:.2f} to {high:.2f}", f"{r.ttft_ms.p50:,.0f}",
        f"{r.tpot_ms.p50:.0f}", f"{r.max_itl_ms.p50:.0f}", f"{r.max_itl_ms.max:,.0f}",
        f"{counted[design] / 1e6:,.0f}" if design in counted else "0",
    ])
show_table(
    rows,
    ["rule", "offered", "attainment", "95 % interval", "TTFT p50 (ms)", "TPOT p50 (ms)", "longest gap p50 (ms)",
     "longest gap of all (ms)", "moved (MB)"],
    caption=f"Six runs of one trace at {rate_rps:g} requests/s", label="measured",
    source=servers, run=run / "all-remote",
)

# %% [markdown]
"""
The claim speaks of attainment, and here that column has something to say: about a half under each extreme, nine in ten and more under the rule between them, three quarters under Dynamo's. Attainment is joint: one missed target of three makes a request bad. Here are the three apart.
"""

# %%
def share_within(one):
    """Per target, the share of all offered requests after warm-up that met it."""
    good = judged(one)
    offered = sum(not r["warmup"] for r in records.rows(one.table))
    met = {
        "TTFT": sum(ms <= a.ttft_max_ms for ms in ttft_ms(one)), "TPOT": sum(tpot_ms(r) <= a.tpot_max_ms for r in good),
        "longest gap": sum(ms <= a.max_itl_per_request_ms for ms in longest_gaps_ms(one)),
    }
    return {name: count / offered for name, count in met.items()}


within = {design: share_within(one) for design, one in runs.items()}
show_table(
    [[design, *(f"{share:.2f}" for share in shares.values())] for design, shares in within.items()],
    ["rule", *(f"met {name}" for name in within["all-remote"])],
    caption="Share of the offered requests that met each target by itself", label="measured",
    source=servers, run=run / "all-remote",
)

# %% [markdown]
"""
For each row, find the target on which it loses most. Attainment is the right judge and a poor witness: it says that a request was bad, and not what it died of. In the recorded run most of them died of TPOT. Under `all-local` the cause is plain: each prefill holds up every answer beside it. Under `all-remote` no prefill runs on the decode core, and still only 0.62 of the requests met the target. Every prompt that leaves is pulled by decode, 120 of them in a minute, and two busy cores share one memory. Is it the pull? NIXL times each one (`vllm:nixl_xfer_time_seconds`).
"""

# %%
for rule in RULES:
    rose, table = grown(rule), runs[rule].table.to_pandas()
    pulls, pulled_s = rose.get("nixl_bytes_transferred_count", 0), rose.get("nixl_xfer_time_seconds_sum")
    whole_s = (table["end_ns"].max() - table["sent_ns"].min()) / 1e9
    if pulls and pulled_s is None:
        print(f"{rule:<16} {pulls:4.0f} pulls; this run holds no clock of NIXL's")
    elif pulls:
        share = f"{100 * pulled_s / whole_s:.1f} %"
        print(f"{rule:<16} {pulls:4.0f} pulls in {pulled_s:.2f} s, {share} of the run   [measured]")

# %% [markdown]
"""
In the recorded run the copying is not it: it took 1.4 % of the time under `all-remote`, while a token took 82 ms in place of the 63 under `llm-d:200`. What else comes with each newcomer, and what the shared memory costs, the tables don't say. One more run would: the prefill core computes the same prompts, and nobody pulls them. If TPOT stays as bad, it is the memory.

Back to the attainment. It is a share of a sample, so it has an interval, Wilson's, with k good of n and z = 1.96:

    centre = (k/n + z²/2n) / (1 + z²/n)
    half   = z × √( (k/n)(1 − k/n)/n + z²/4n² ) / (1 + z²/n)

How small may the true share under `llm-d:200` be? The lower end of its interval, centre minus half, as a **fraction** with three decimals. The counts are printed.
"""

# %%
mixed = reports["llm-d:200"].joint_attainment
of_all = reports["llm-d:200"].offered
print(f"llm-d:200: {mixed.good} of {of_all} offered requests met every target   [measured]")

# %% exercise="L4.6"
# Exercise L4.6
lower_end = ...
### BEGIN SOLUTION
lower_end = slo.wilson(mixed.good, reports["llm-d:200"].offered)[0]
### END SOLUTION

# %% check="L4.6"
check("L4.6", lower_end, expected=mixed.interval[0])

# %% [markdown]
"""
## How much of this is noise?

One pair of rows gives a first answer without any formula. `local-below:200` and `llm-d:200` are **the same rule** under two names. They met the same requests on the same servers. Whatever differs between their rows was not made by a rule.
"""

# %%
twins = zip(decided["local-below:200"], decided["llm-d:200"], strict=True)
same = [x["side"] == y["side"] for x, y in twins]
print(f"the two routers decided alike on {sum(same)} of {len(same)} requests")


def against(one, other):
    """What the run says to "ONE attains more than OTHER": only intervals apart decide."""
    (low, high), (other_low, other_high) = (reports[name].joint_attainment.interval for name in (one, other))
    return "shown" if low > other_high else "contradicted" if high < other_low else "not shown"


def waits_less(one, other, kind):
    """What the run says to "under ONE this kind waits less": only more than equals differ decides."""
    yardstick = abs(middle["local-below:200"][kind] - middle["llm-d:200"][kind])
    gained = middle[other][kind] - middle[one][kind]
    return "shown" if gained > yardstick else "contradicted" if gained < -yardstick else "not shown"


for kind in WHAT:
    one, other = middle["local-below:200"][kind], middle["llm-d:200"][kind]
    print(f"{kind:<7} median TTFT {one:7,.0f} and {other:7,.0f} ms   [measured]")

# %% [markdown]
"""
Which of these sentences does the run carry? For each: `"shown"`, `"contradicted"` or `"not shown"`. Where a sentence is about what the runs showed, use the two equal rules and the intervals as yardsticks: a difference that is no larger than the one between equals, or whose intervals overlap, is not shown. A sentence about the rules themselves needs no yardstick: what the rules are can contradict it.

| letter | sentence |
|---|---|
| A | Under `llm-d:200` fewer KV bytes moved than under `all-remote`. |
| B | One of `local-below:200` and `llm-d:200` is the better rule: the one with the higher attainment. |
| C | On a GPU pair, `llm-d:200` attains more than `all-remote` as well. |
| D | Here, `llm-d:200` attains more than `all-remote`. |
| E | Here, two aggregated replicas attain more than the pair under `llm-d:200`. |
| F | Here, a short prompt waits less for its first token (at the median) under `llm-d:200` than under `all-remote`. |
"""

# %% exercise="L4.7"
# Exercise L4.7
carried = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ..., "F": ...}
### BEGIN SOLUTION
carried = {
    "A": "shown", "B": "contradicted", "C": "not shown", "D": against("llm-d:200", "all-remote"),
    "E": against(routing.REPLICAS, "llm-d:200"), "F": waits_less("llm-d:200", "all-remote", "short"),
}
### END SOLUTION

# %% check="L4.7"
check("L4.7", carried, expected={
    "A": "shown" if counted["llm-d:200"] < counted["all-remote"] else "contradicted",
    "B": "contradicted", "C": "not shown", "D": against("llm-d:200", "all-remote"),
    "E": against(routing.REPLICAS, "llm-d:200"), "F": waits_less("llm-d:200", "all-remote", "short"),
})

# %% [markdown]
"""
## May these runs be compared at all?

The validity gates of lab L2, each rule against `all-remote`, and the two replicas as well.
"""

# %%
marks = {"pass": "ok", "fail": "FAIL", "not_carried": "not carried"}
verdicts = {
    design: compare.compare(runs["all-remote"], one, the_plan.acceptance).checks
    for design, one in runs.items() if design != "all-remote"
}
names = [gate.name for gate in next(iter(verdicts.values()))]
show_table(
    [[name, *(marks[gates[row].result] for gates in verdicts.values())] for row, name in enumerate(names)],
    ["gate", *verdicts],
    caption="May a run be compared with all-remote?", label="measured",
    source=servers, run=run / "all-remote",
)

# %% [markdown]
"""
`replicas_beat_one` needs a run of one replica alone, which this lab does not have; lab L2 has it. Where another gate fails, no ratio with that row may be given.

The sixth run keeps us honest about the budget. `all-local` on this pair is no aggregated deployment: its prefill core is paid for and idle. To say "disaggregation wins" because something beats `all-local` would be to beat a man with one arm tied. The fair opponent is the row with two replicas.

## The verdict

Back to the claim card. `claim` is `"supported"` where the interval of `llm-d:200` lies wholly above those of both extremes, `"refuted"` where it lies wholly below one of them, else `"open"`. `fewest_bytes` names the rule that moved the fewest bytes among those that sent anything away; where several moved the same, name any of them. `idle_core` names the rule under which one of the two cores had nothing to do. `evidence` is the kind of evidence that the whole page rests on.
"""

# %% exercise="L4.8"
# Exercise L4.8
verdict = {"claim": ..., "fewest_bytes": ..., "idle_core": ..., "evidence": ...}
### BEGIN SOLUTION
both = [against("llm-d:200", extreme) for extreme in ("all-local", "all-remote")]
verdict = {
    "claim": "supported" if both == ["shown"] * 2 else "refuted" if "contradicted" in both else "open",
    "fewest_bytes": min((rule for rule in RULES if counted[rule]), key=lambda rule: counted[rule]),
    "idle_core": "all-local", "evidence": "measured",
}
### END SOLUTION

# %% check="L4.8"
said = [against("llm-d:200", extreme) for extreme in ("all-local", "all-remote")]
least = min(bytes_ for bytes_ in counted.values() if bytes_)
fewest = [rule for rule in RULES if counted[rule] == least]
named = verdict.get("fewest_bytes") if isinstance(verdict, dict) else None
check("L4.8", verdict, expected={
    "claim": "supported" if said == ["shown"] * 2 else "refuted" if "contradicted" in said else "open",
    "fewest_bytes": named if named in fewest else fewest[0],
    "idle_core": "all-local", "evidence": "measured",
})

# %% [markdown]
"""
In the recorded run the claim is supported: the interval of the rule in the middle lies wholly above those of both extremes. The two rules that are one rule landed within one request of each other. That may be luck: in lab L2 two recorded runs of one design lay 17 of 135 requests apart, 0.13. The gaps to both extremes, 0.4 and more, are larger than either. The one to Dynamo's rule, 0.19, is not much larger than L2's. Among the rules that sent anything away, fewer bytes went with a higher attainment.

Now the small print. It is one machine, one rate and one mix, and each rule ran once. The rate is not innocent either. A first run at 1.2 requests/s had 0.97 and more of the requests within their targets under every rule (measured on the same machine; not kept), so a higher rate was declared, by the times of that run. The targets stayed. And the two replicas, well below the rule in the middle here, ran with the same chunks of 128 tokens as the pair. Nobody tuned them, and lab L2 shows why that matters. Against aggregation this page decides nothing.

**What would change this verdict?** The load, for one: at 1.2 requests/s no rule had anything to win, and far above 2 all of them drown. The threshold follows the cost of a prefill on decode. With another chunk size, another model or a faster core it moves. The mix matters as much: with no shared prefixes the rules see less to keep, and with long conversations nearly everything may stay. And a trace of short prompts alone turns Dynamo's rule into `all-remote` and llm-d's into `all-local`.

Your guesses from the start:
"""

# %%
attained = {rule: reports[rule].joint_attainment.all_offered for rule in RULES}
noise = abs(attained["local-below:200"] - attained["llm-d:200"])  # between two names of one rule
guesses({
    "L4.a": ", ".join(rule for rule in RULES if max(attained.values()) - attained[rule] <= noise),
    "L4.b": f"{counted['llm-d:200'] / counted['all-remote']:.2f}",
})

# %% [markdown]
"""
## Recap

1. Leave or stay is decided on missing tokens. Whether their share counts too is the difference between two well-known rules, and the short cold prompt is where it shows.
2. What decode holds is a belief of the router. Hold it against the server's own counter before you trust a decision.
3. A prefix that is held saves prefill where the prompt stays, and bytes where it leaves.
4. Run one rule twice, better more often. What differs between equal runs is the size of what you can't see.
5. All local on a split pair wastes half of the budget. The honest opponent is two replicas.

## Two questions from before

<details><summary>From 06: an attainment of 44 in 48 stands beside one of 47 in 48. Which is better?</summary>
Their 95 % intervals are about 0.80 to 0.97 and 0.89 to 1.00. They overlap, so 48 requests can't tell.
</details>

<details><summary>From 08: for which prefixes does it pay to choose a prefill server by overlap?</summary>
For those whose held tokens are more than the tokens that queue in front of that server. A hit saves the tokens it covers, and a queue costs the tokens in it.
</details>

## Sources

Accessed in November 2026.

- llm-d router (llm-d-router, once llm-d-inference-scheduler), `prefix-based-pd-decider` and its `nonCachedTokens`.
- NVIDIA Dynamo 1.6, router guide: conditional disaggregation (experimental), policy `isl_bounding`, `eff_isl_threshold` and `eff_isl_ratio_threshold`.
- vLLM 0.32, metrics: `prompt_tokens_by_source`, `nixl_bytes_transferred`, `nixl_xfer_time_seconds`; and its prefix cache, which leaves a prompt's last token to be computed.
"""
