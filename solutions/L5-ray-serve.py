# %% [markdown]
"""
# L5 · The same question, asked of a cluster

**Time** 60 minutes. **Before this** labs L2 and L3, and notebook 05: the sweep, a transfer that fails, and the path of a request. **You need** nothing but this machine. **Run from the top**: each cell needs those above it.

By default the lab shows recorded runs. After `make live-env` and `make ray`, start JupyterLab with `PDLAB_LIVE=1` in its environment, and the same cells measure here; that takes about twenty-five minutes on two cores.

At the end you have sent lab L2's requests through a distributed engine, seen who calls whom in it and which bytes go where, scaled prefill without touching decode, and you know what such an engine adds to the answer of L2 and what it does not.

## Claim card

| part | in this lab |
|---|---|
| **claim** | "Behind a cluster engine the pair wins: Ray Serve LLM takes care of routing and transfer, and with the same hardware disaggregated serving then answers more requests a second within the targets than aggregated serving." |
| **expected** | you say so in a minute, before anything is measured |
| **a run would prove** | which design meets this plan's gates at which of its rates, behind Ray, here; which process called which, and how many bytes went by which path; what starts and what stays when one pool is scaled |
| **a run would not prove** | anything about two machines: every process runs on one host, and KV moves through its memory. Nothing about speed-up from a second prefill replica: there is no third core to run it on. Nothing about Ray against another engine: only one was run. |
"""

# %%
import json
from pathlib import Path

import numpy as np
import yaml

from pdlab.course import *
from pdlab.course import lab_sums
from pdlab.course.evidence import recorded
from pdlab.course.own import moved_bytes
from pdlab.live.ray import calls, lab
from pdlab.live.ray import sweep as ray_sweep
from pdlab.measure import plan, records, slo
from pdlab.theory import kv

the_plan = plan.load(ray_sweep.PLAN)
rates = the_plan.comparison.offered_rates_rps

# %% [markdown]
"""
## A puzzle

A cluster has a page of metrics, and people build dashboards on it. One line of the page says how many bytes NIXL has moved. NIXL itself can be asked as well, after every single transfer.

In a run of this lab the two counted the same transfers. None failed, none was counted twice, nobody lost a packet. And the page says half as many bytes again as NIXL does. How can both be right?

The engine is Ray Serve LLM. *Ray* runs processes on the machines of a cluster. *Serve*, a part of it, keeps services up, and calls each process of a service a *replica*. In front of them stands the *ingress*, the front door of notebook 05.

Three guesses first.
"""

# %%
# The highest of the plan's rates at which each design still meets all gates behind Ray:
# which design's is higher?
higher_capacity = ...
### BEGIN SOLUTION
higher_capacity = "aggregated"
### END SOLUTION
predict("L5.a", higher_capacity, choices=["aggregated", "disaggregated", "the same"])

# %%
# For every byte of KV that moved, how many bytes crossed TCP between prefill and decode? 0 to 2.
tcp_per_kv_byte = ...
### BEGIN SOLUTION
tcp_per_kv_byte = 0.1
### END SOLUTION
predict("L5.b", tcp_per_kv_byte)

# %%
# A pair runs, with three replicas in all: ingress, prefill, decode.
# You ask for a second prefill replica.
# How many of the three does Serve restart?
restarted = ...
### BEGIN SOLUTION
restarted = 0
### END SOLUTION
predict("L5.c", restarted)

# %% [markdown]
"""
## The contract

The plan is lab L2's: `data/plans/miniature-2core.yaml`, the same requests at the same rates, the same open-loop client, the same analysis. The chunk size of aggregated serving is the one that L2's tuning chose without Ray; it was not tuned again.

Three things differ, and you should know them before any number.

- **Who stands in front.** L2 had the course's router. Here it is Ray's proxy and an ingress replica.
- **Cores.** L2 gave each server a core and pinned it there. Ray gives each engine a core *in its books*, pins nothing, and starts engines at a lower priority than its own processes (a niceness of 15). Those, more than a dozen, run on the same two cores.
- **Frames.** Ray Serve LLM gathers the tokens of a stream for 50 ms and sends them together. L2's servers sent each token as it came.

A colleague wants to put the two labs side by side. Which of these statements can the recorded runs of L5 and L2, taken together, carry? Give the letters.

| letter | statement |
|---|---|
| A | Behind Ray, on this machine, each design passes its gates up to such and such a tested rate, or at none. |
| B | Ray costs every engine that it serves so many milliseconds. |
| C | In L5's runs, prefill's KV reached decode without passing through Ray's object store. |
| D | On two hosts with a fast network between them the pair's hand-off is as quick as here. |
| E | The whole set-up of L5 answers the same requests later than the whole set-up of L2, here. |
| F | With a core of its own for Ray, the pair would win. |
"""

# %% exercise="L5.1"
# Exercise L5.1
carried = [...]
### BEGIN SOLUTION
carried = ["A", "C", "E"]
### END SOLUTION

# %% check="L5.1"
check("L5.1", carried)

# %% [markdown]
"""
## The run

The next cell gets the runs, recorded or live, and says which.
"""

# %%
run = lab_run("ray", lab.record)

# %%
main = {entry.name: entry.read() for entry in records.read_sweep(run).entries}
paths = {name: json.loads((run / name / ray_sweep.PATHS).read_text()) for name in main}
ledger = {name: lab.lines(run / name / ray_sweep.TRANSFERS) for name in main}
for name, one in main.items():
    status = one.table["status"].to_pylist()
    assert len(set(one.table["request_id"].to_pylist())) == len(status)
    assert set(status) <= {"ok", "failed", "rejected", "timeout", "cancelled"}
    assert paths[name]["nixl_bytes"] == sum(line["bytes"] for line in ledger[name])
print(f"{len(main)} runs, every offered request with one row and one status")

# %% [markdown]
"""
## Who calls whom

Notebook 05 walked along a request's path, and the course's router of L2 is one way to build it: the router calls prefill, waits, then calls decode. Ray Serve LLM builds it another way. Its three deployments are named `OpenAiIngress`, `Prefill` and `Decode`, and in front of them stands the proxy that every Serve cluster has.

Ray's own access lines tell who was called when. Each process writes one when a call to it has ended: the request's id, and how long it took. Here are those of one request. Read starts and ends before you answer.
"""

# %%
def hops(row):
    """The calls of one request: (hop, start, end) in ms after sending, outermost first."""
    steps, zero = row["stage_ns"], row["sent_ns"]
    return [
        (hop, (steps[f"serve_{hop}_start"] - zero) / 1e6, (steps[f"serve_{hop}_end"] - zero) / 1e6)
        for hop in calls.ORDER if f"serve_{hop}_start" in steps
    ]


def counted(name):
    """The finished requests of a run, warm-up left out."""
    return [r for r in records.rows(main[name].table) if r["status"] == "ok" and not r["warmup"]]


slow = f"disaggregated-cold-{rates[0]:g}rps"
finished = [r for r in counted(slow) if "nixl_done" in r["stage_ns"]]
longest_prompt = max(r["prompt_tokens"] for r in finished)
one_request = next(r for r in finished if r["prompt_tokens"] == longest_prompt)
show_table(
    [[hop, f"{start:,.0f}", f"{end:,.0f}"] for hop, start, end in sorted(hops(one_request))],
    ["process", "call began (ms)", "call ended (ms)"],
    caption=f"One request of {longest_prompt} tokens, by the access lines, by name; 0 is its sending",
    label="measured", source="Ray Serve's access lines", run=run / slow,
)

# %% [markdown]
"""
Put the four in the order of the calls, the one that the client reaches first: each calls the next.
"""

# %% exercise="L5.2"
# Exercise L5.2
call_order = [...]
### BEGIN SOLUTION
call_order = ["proxy", "ingress", "decode", "prefill"]
### END SOLUTION

# %% check="L5.2"
check("L5.2", call_order)

# %%
pull = next(line for line in ledger[slow] if line.get("request_id") == one_request["request_id"])
pulled_ms = ((pull["t_ns"] - one_request["sent_ns"]) / 1e6)
first_ms, last_ms = ((one_request["frame_ns"][i] - one_request["sent_ns"]) / 1e6 for i in (0, -1))
ax = figure(
    "Four calls, one inside the other; the KV moves beside them, once",
    label="measured", source="Serve's access lines, NIXL, the client", run=run / slow,
    xlabel="ms after sending", size=(9.5, 4.4),
)
COLOURS = {"proxy": "#56B4E9", "ingress": "#0072B2", "decode": "#009E73", "prefill": "#D55E00"}
for row, (hop, start, end) in enumerate(hops(one_request)):
    ax.barh(-row, end - start, left=start, height=0.5, color=COLOURS[hop])
    name_at(ax, start, -row, hop, COLOURS[hop], dx=-6)
ax.plot([pulled_ms], [-4], marker="D", color="#CC79A7", markersize=9, linestyle="")
name_at(ax, pulled_ms, -4, f"NIXL: {pull['bytes']:,} B, prefill to decode", "#CC79A7", dx=-10)
ax.axvline(first_ms, color="#1B1B1B", linestyle=":")
name_at(ax, first_ms, 0.65, "first frame at the client", dx=6)
ax.set(yticks=[], ylim=(-4.6, 1.0), xlim=(-0.14 * last_ms, 1.06 * last_ms))
nested = "; ".join(f"{hop} from {start:,.0f} to {end:,.0f} ms" for hop, start, end in hops(one_request))
show_figure(ax, alt=f"""
    Time line of one request of {longest_prompt} prompt tokens. Calls as bars, nested: {nested}.
    NIXL's transfer of {pull['bytes']:,} B ends at {pulled_ms:,.0f} ms, after prefill's call
    and before the client's first frame at {first_ms:,.0f} ms.
""")

# %% [markdown]
"""
No router decides between prefill and decode here. The request is given to *decode*, and decode sends the prompt to prefill itself, keeps waiting, and then pulls. That is this engine's way with NIXL, not a law: with a connector that allows it, Ray starts prefill and decode at once. Calls inside calls have a consequence for whoever reads times: prefill's work lies *inside* decode's call, and that inside the ingress's. Summing the four would count the same second four times.

So ask for each hop's **own** time: its call's length without that of the call it waits for. `spans` lists (name, start, end), outermost first, each inside the one before it. Return name → own time.
"""

# %% exercise="L5.3"
# Exercise L5.3
def own_times(spans):
    """Name → the time of its own, of calls nested one in the other."""
    ...


### BEGIN SOLUTION
def own_times(spans):
    """Name → the time of its own, of calls nested one in the other."""
    lengths = [end - start for _, start, end in spans]
    inner = [*lengths[1:], 0]
    return {span[0]: length - inside for span, length, inside in zip(spans, lengths, inner)}
### END SOLUTION

# %% check="L5.3"
check("L5.3", own_times)

# %%
rows = []
for design in ("aggregated", "disaggregated"):
    for rate in rates:
        mine = lab_sums.own_medians(hops(row) for row in counted(f"{design}-cold-{rate:g}rps"))
        shown = (f"{mine[hop]:,.0f}" if hop in mine else "" for hop in calls.ORDER)
        rows.append([design, f"{rate:g}", *shown])
show_table(
    rows, ["design", "req/s", *(f"{hop} (ms)" for hop in calls.ORDER)],
    caption="Where a request spends its time: own time of each hop, median", label="measured",
    source="Ray Serve's access lines", run=run / slow,
)

# %% [markdown]
"""
The last hop of a row, the engine's, holds the model's work and all waiting in its queue. What stands before it is the price of the control plane: two processes that unpack the request, choose a replica, and pass every frame on.

## What went by which path

Now the bytes. Three observers stood beside the run, and none of them knows our formula.

- **NIXL's telemetry**: after each transfer the engine asks NIXL how many bytes it moved. A plugin in the replica writes each answer down as it is.
- **The kernel**: it counts the bytes of every TCP connection, and it knows which two processes hold it.
- **Ray**: it counts the objects that were put into its object store, the shared memory in which Ray passes large values between processes and machines.
"""

# %%
WHO = ("proxy", "ingress", "decode", "prefill")
tcp = {(a, b): count for a, b, count in paths[slow]["tcp_bytes"] or []}
rows = []
for a, b in zip(WHO, WHO[1:]):
    rows.append(["TCP", f"{a} and {b}", f"{tcp.get((a, b), 0):,}", f"{tcp.get((b, a), 0):,}"])
engines = ("decode's engine", "prefill's engine")
rows.append(["TCP", " and ".join(engines), f"{tcp.get(engines, 0):,}", f"{tcp.get(engines[::-1], 0):,}"])
rest = sum(count for ends, count in tcp.items() if not {*ends} <= {*WHO, *engines})
rows.append(["TCP", "Ray's own processes, among themselves and with the replicas", f"{rest:,}", ""])
rows.append(["Ray's object store", "anybody", f"{paths[slow]['objects_created']:,.0f} objects", ""])
rows.append(["NIXL, in memory", "prefill's engine to decode's engine", f"{paths[slow]['nixl_bytes']:,}", ""])
show_table(
    rows, ["path", "between", "bytes there", "bytes back"],
    caption=f"{len(main[slow].table)} requests at {rates[0]:g} requests/s, disaggregated: bytes by path",
    label="measured", source="the kernel's TCP counters, Ray's metrics, NIXL's telemetry", run=run / slow,
)

# %% [markdown]
"""
Read the table from below. Between prefill and decode the requests and the first tokens' answers crossed TCP: that is control, and it grows with the number of requests. The KV did not go there. The two engines spoke over TCP a little, to introduce themselves and to say "I have it". And the number of objects that anybody put into Ray's store during the run is in the table as well.

So this is the control plane and the data plane, measured: **Ray and HTTP decide, NIXL carries**.

A colleague's monitoring shows these observations, each from one healthy or unhealthy deployment. Which of them, taken alone, *prove* that decode got its prompts' KV from prefill over NIXL, and did not compute them again? Give the letters.

| letter | observation |
|---|---|
| A | The object store stayed empty during the run. |
| B | Decode's counter of prompt tokens grew by all prompt tokens under `external_kv_transfer`, and by none under `local_compute`. |
| C | Every request was answered with HTTP 200. |
| D | Few bytes crossed TCP between prefill and decode. |
| E | NIXL's telemetry in decode's engine shows a transfer for each request, of the size of its prompt's blocks. |
| F | The configuration says `"kv_connector": "NixlConnector"`. |
"""

# %% exercise="L5.4"
# Exercise L5.4
proofs = [...]
### BEGIN SOLUTION
proofs = ["B", "E"]
### END SOLUTION

# %% check="L5.4"
check("L5.4", proofs)

# %% [markdown]
"""
## To the byte

The formula of notebook 02, asked of a cluster. The run at the middle rate sent the requests below, warm-up included. SmolLM2-135M has 30 layers and 3 KV heads of 64 in BF16, and blocks of 128 tokens move whole.
"""

# %%
middle = f"disaggregated-cold-{rates[1]:g}rps"
sent = main[middle].table.to_pandas()
answered = sent[sent["status"] == "ok"]["prompt_tokens"].value_counts().sort_index()
for tokens, count in answered.items():
    print(f"answered: {count} prompts of {tokens} tokens")
print(f"not answered: {int((sent['status'] != 'ok').sum())} of {len(sent)}")

# %% [markdown]
"""
How many **bytes** exactly should NIXL have moved for those that were answered?
"""

# %% exercise="L5.5"
# Exercise L5.5
moved = ...
### BEGIN SOLUTION
shape = kv.from_config(kv.load("smollm2-135m"))
moved = sum(count * kv.block_bytes_total(shape, tokens, 128) for tokens, count in answered.items())
### END SOLUTION

# %% check="L5.5"
check("L5.5", moved, expected=moved_bytes(the_plan, dict(answered)))

# %% tags=["reveals"]
ok_ids = set(sent[sent["status"] == "ok"]["request_id"])
of_answered = sum(line["bytes"] for line in ledger[middle] if line.get("request_id") in ok_ids)
nixl_bytes, transfers = paths[middle]["nixl_bytes"], paths[middle]["nixl_transfers"]
print(f"NIXL, for the answered requests: {of_answered:,} B   [measured]")
print(f"NIXL, in the whole run: {nixl_bytes:,} B in {transfers} transfers   [measured]")

# %% [markdown]
"""
## The puzzle, taken apart

Now the metrics page. vLLM hands NIXL's answer to a histogram, and Ray exports that histogram on its page.
"""

# %% tags=["reveals"]
def grown(name, server="decode-0"):
    """How much each counter of a replica rose over a run."""
    lines = lab.lines(run / name / "server_metrics.jsonl")
    first, last = [line for line in lines if line["server"] == server][-2:]
    return {key: last[key] - first.get(key, 0) for key in last if key not in ("t_ns", "server")}


page = grown(middle)
page_bytes = page["nixl bytes by bucket middles"]
print(f"Ray's page: {page['nixl transfers']:.0f} transfers, {page_bytes:,.0f} B   [measured]")
print(f"NIXL:       {transfers} transfers, {nixl_bytes:,} B   [measured]")

# %% [markdown]
"""
The histogram's bounds for this metric are 2,048 B and from there always four times as much: 8,192, 32,768, 131,072 and so on. On its way to the page only the *count in each bucket* survives. To print a sum, Ray's exporter takes for each transfer the middle between its bucket's two bounds. A value on a bound belongs to the bucket below it; the lowest bucket begins at 0.

Write what such a page says: the sum that comes out for transfers of these `sizes` with these ascending `bounds`.
"""

# %% exercise="L5.6"
# Exercise L5.6
def page_sum(sizes, bounds):
    """The sum that is left of sizes once each has become the middle of its bucket."""
    ...


### BEGIN SOLUTION
def page_sum(sizes, bounds):
    """The sum that is left of sizes once each has become the middle of its bucket."""
    edges = [0, *bounds]
    total = 0
    for size in sizes:
        upper = next(index for index, edge in enumerate(edges) if index and size <= edge)
        total += (edges[upper - 1] + edges[upper]) / 2
    return total
### END SOLUTION

# %% check="L5.6"
check("L5.6", page_sum)

# %%
BOUNDS = [2048 * 4**k for k in range(11)]
by_middles = lab_sums.sum_by_middles([line["bytes"] for line in ledger[middle]], BOUNDS)
print(f"the ledger's transfers by their buckets' middles: {by_middles:,.0f} B")
print(f"Ray's page said:                                  {page_bytes:,.0f} B   [measured]")
# The page writes six digits or so: equal to a ten-thousandth is equal.
print("the same" if abs(by_middles / page_bytes - 1) < 1e-4 else "not the same")

# %% [markdown]
"""
Nobody lied. The count on the page is right, and the sum is an estimate that looks like a measurement. A dashboard's "average transfer size" divides the one by the other, with four digits.

**What would change this answer?** Finer buckets, or an exporter that passes the sum along. vLLM's own page, which L2 read, does: there the sum was exact. The lesson is not "don't trust Ray". It is: before you check a formula against a number, find out how the number was made.

## The sweep

Six runs, as in L2, beside L2's own.
"""

# %%
def report(one):
    return slo.analyse(one, the_plan.acceptance)


l2 = {entry.name: entry.read() for entry in records.read_sweep(recorded("miniature")).entries}
rows = []
for design in ("aggregated", "disaggregated"):
    for rate in rates:
        name = f"{design}-cold-{rate:g}rps"
        r, before = report(main[name]), report(l2[name])
        low, high = r.joint_attainment.interval
        failing = [gate.name for gate in r.gates if gate.result != "pass"]
        rows.append([
            design, f"{rate:g}", r.offered, f"{r.joint_attainment.all_offered:.3f}",
            f"{low:.2f} to {high:.2f}", f"{r.ttft_ms.p50:,.0f}", f"{r.tpot_ms.p50:.0f}",
            f"{r.max_itl_ms.p50:.0f}", ", ".join(failing) or "none",
            f"{before.joint_attainment.all_offered:.3f}",
        ])
show_table(
    rows,
    ["design", "req/s", "offered", "attainment", "95 % interval", "TTFT p50 (ms)", "TPOT p50 (ms)",
     "longest gap p50 (ms)", "gates not passed", "attainment in L2, recorded"],
    caption="The plan's six runs behind Ray Serve LLM", label="measured",
    source="SmolLM2-135M on vLLM, two cores", run=run / f"aggregated-cold-{rates[0]:g}rps",
)

# %% [markdown]
"""
One column needs care before you read it: the longest gap. Look at how the tokens arrive.
"""

# %%
def per_frame(one):
    """Mean tokens a frame, over the frames after each answer's first."""
    rows = [r for r in records.rows(one.table) if r["status"] == "ok" and not r["warmup"]]
    counts = [tokens for r in rows for tokens in r["frame_tokens"][1:] if tokens]
    return float(np.mean(counts))


quiet_name = f"aggregated-cold-{rates[0]:g}rps"
print(f"L2, {quiet_name}: {per_frame(l2[quiet_name]):.2f} tokens a frame   [measured]")
print(f"L5, {quiet_name}: {per_frame(main[quiet_name]):.2f} tokens a frame   [measured]")

# %% [markdown]
"""
Ray Serve LLM holds a stream's tokens back for up to 50 ms (`stream_batching_interval_ms`) and sends them as one frame, which saves calls between its processes. A client knows frames, not tokens. In the recorded run the engines took longer than that for a token, so nearly every frame still held one. An engine that takes less puts several into each.

Suppose the engine makes a token every 20 ms, all equal, and the interval is 50 ms, so that a frame leaves after every third token. *[hypothetical: made up for this exercise]* An answer has 31 tokens: the first leaves alone, the other 30 in frames of three. What does a client see, in **ms**: the gap between two frames; and the TPOT, from the first token to the last, divided by the tokens after the first?
"""

# %% exercise="L5.7"
# Exercise L5.7
seen = {"gap_ms": ..., "tpot_ms": ...}
### BEGIN SOLUTION
seen = {"gap_ms": 3 * 20, "tpot_ms": 30 * 20 / 30}
### END SOLUTION

# %% check="L5.7"
check("L5.7", seen)

# %% [markdown]
"""
The bigger the frame, the larger the gap and the rarer: no engine stood still. TPOT does not notice. On a quick engine, then, a longest gap behind Ray and one in front of a bare server are two different things, and a gate on it is harder to pass behind Ray. Notebook 06 met this in a file; here it is a default of an engine.

Now read the table. Two rows of zeros, or of attainments that no gate lets pass, say little about which design is the better one; they say that neither can do this here. In the recorded run that is the result: with the engines' work as it was in L2, more than a dozen processes of Ray's share two cores with it, and the lowest rate of the plan is too high for both designs. The plan was sized to L2's set-up, before Ray was in the picture. It was not changed afterwards to make a prettier table.

The medians of the recorded run show more than its attainments. At the lowest rate the two replicas are ahead in all three columns of waits. At the highest the pair's tokens come twice as fast and its longest gaps are half as long as those of the two replicas; its first tokens come later at every rate.

## One pool at a time

The promise of two pools is that each can grow by itself. Here is a running pair, of the model `tiny`, deployed from a file by Ray's own command, `serve run FILE`. Such a file describes an *application*: its *builder*, a function of Ray Serve LLM, makes the pools from the arguments that the file gives it. Then the file was changed three times and run again, while a client asked once a second.

1. **Two prefill replicas**, written *beside* the application's arguments, under `deployments`.
2. **One again**, written in the same place.
3. **Two** once more, this time in the arguments of the application's builder too, where each pool's number stands as well.
"""

# %%
scaled = json.loads((run / lab.SCALE / "scale.json").read_text())
(application,) = yaml.safe_load(scaled["file"])["applications"]
print("the file of the first change, below its arguments:")
print(yaml.safe_dump({"deployments": application["deployments"]}, sort_keys=False))

# %% [markdown]
"""
Serve compares the new file with the one that it runs. It can keep a replica whose code, arguments and resources are what they were. It builds an application anew when the builder's arguments change, and then it treats every replica as one of an older version.

Before the pair's first change three replicas run: ingress, prefill and decode. For the first change and for the third, say how many of the replicas that were there stay, and how many new ones start.
"""

# %% exercise="L5.8"
# Exercise L5.8
changes = {"first, stay": ..., "first, start": ..., "third, stay": ..., "third, start": ...}
### BEGIN SOLUTION
changes = {"first, stay": 3, "first, start": 1, "third, stay": 0, "third, start": 4}
### END SOLUTION

# %% check="L5.8"
first_step, _, third_step = scaled["steps"]
check("L5.8", changes, expected={
    "first, stay": len(first_step["kept"]), "first, start": len(first_step["started"]),
    "third, stay": len(third_step["kept"]), "third, start": len(third_step["started"]),
})

# %%
def short(pid):
    """A replica's deployment, by its process id."""
    return calls.hop(scaled["replicas"][str(pid)]["replica"].split(":")[4])


def during(step):
    """The client's requests that began between a change and the next."""
    return [one for one in scaled["asked"] if step["at_s"] <= one["at_s"] < step["until_s"]]


rows = []
for step in scaled["steps"]:
    asked = during(step)
    bad = [one for one in asked if one["client_saw"] != "HTTP 200"]
    who = (", ".join(sorted(map(short, step[key]))) or "none" for key in ("kept", "started", "stopped"))
    rows.append([
        step["change"], *who, f"{step['took_s']:.0f}", f"{len(bad)} of {len(asked)}",
        f"{max(one['took_s'] for one in asked):.1f}",
    ])
show_table(
    rows,
    ["change of the file", "stayed", "started", "stopped", "until all is healthy (s)",
     "requests not answered", "slowest request (s)"],
    caption="Three changes of one file, each by serve run", label="measured",
    source="Ray Serve LLM, tiny, two cores", run=run / lab.SCALE,
)

# %%
HOPS = ["ingress", "decode", "prefill"]
begin_s = scaled["steps"][0]["at_s"]
end_s = scaled["steps"][-1]["until_s"]
ax = figure(
    "Written beside the application, a second prefill replica joins; written into it, all is replaced",
    label="measured", source="process ids of the replicas, twice a second", run=run / lab.SCALE,
    xlabel="time (s); dotted: changes 1, 2 and 3", size=(9.5, 4.4),
)
order = sorted(scaled["replicas"].items(), key=lambda item: (HOPS.index(short(item[0])), item[1]["from_s"]))
for row, (pid, one) in enumerate(order):
    stop = one["to_s"] if one["to_s"] is not None else end_s
    ax.barh(-row, stop - one["from_s"], left=one["from_s"], height=0.6, color=COLOURS[short(pid)])
    name_at(ax, one["from_s"], -row, short(pid), COLOURS[short(pid)], dx=-5)
for number, step in enumerate(scaled["steps"], 1):
    ax.axvline(step["at_s"], color="#1B1B1B", linestyle=":")
    name_at(ax, step["at_s"], 0.95, f"{number}", dx=4)
lost = [one for one in scaled["asked"] if one["client_saw"] != "HTTP 200"]
for one in lost:
    ax.axvspan(one["at_s"], one["at_s"] + one["took_s"], color="#999999", alpha=0.3, zorder=0)
    ax.annotate(
        "a request waits\nand is given up", (one["at_s"] + one["took_s"] / 2, 1 - len(order)),
        ha="center", va="center", color="#1B1B1B",
    )
ax.set(yticks=[], ylim=(0.4 - len(order), 1.4), xlim=(-0.1 * end_s, 1.02 * end_s))
told = " ".join(
    f"Change {number} at {step['at_s']:.0f} s, {step['change']}: {len(step['kept'])} stay, "
    f"{len(step['started'])} start, {len(step['stopped'])} stop."
    for number, step in enumerate(scaled["steps"], 1)
)
show_figure(ax, alt=f"""
    Life of each replica's process against time, one bar each. {told}
    Requests that were not answered: {len(lost)}.
""")

# %% [markdown]
"""
Look at the client's column as well. In the recorded run the first two changes cost nobody an answer. The third cost a minute: old decode and old ingress were stopped before the new ones could serve, and a request that came in between was given up after 60 s. The gap comes from Serve's order, by its code: where a pool has one replica, the old one is stopped before the new one starts. How long the gap is depends on the machine: on two cores a start takes long.

The recorded run had a surprise before it. In a first try the file began without a `deployments` section, and the first change added one. That change replaced all three replicas, though it only asked for one more: for Serve an entry that is new makes another application as well. So the renderer now names each pool there from the start. Who means to scale apart has to prepare for it.

A second prefill replica on these two cores brings nobody an answer sooner: there is no third core for it. On a machine that has one, it may shorten prefill's queue. Which latency of L2's plan could then fall, and which of the two pools' resources does it leave exactly as they were? Answer with `latency`, one of `"ttft"` or `"tpot"`, and `untouched`, one of `"prefill"` or `"decode"`.
"""

# %% exercise="L5.9"
# Exercise L5.9
second_prefill = {"latency": ..., "untouched": ...}
### BEGIN SOLUTION
second_prefill = {"latency": "ttft", "untouched": "decode"}
### END SOLUTION

# %% check="L5.9"
check("L5.9", second_prefill)

# %% [markdown]
"""
## And when a replica dies

Lab L3 killed a prefill server under the course's router. The same was done here: `kill -9` on the prefill replica's process, and at once a request.
"""

# %%
proof_dir = lab_run("ray-proof", lab.record_proof)
proof = json.loads((proof_dir / "proof.json").read_text())
killed = proof["designs"]["disaggregated"]["prefill_killed"]
for one in killed["asked"]:
    print(f"sent {one['at_s']:.1f} s after the kill, answered {one['took_s']:.0f} s later: "
          f"{one['client_saw'][:40]}   [measured]")
print(f"prefill replicas started by Serve since: {killed['new_prefill_replicas']}")
print(f"equal answers of the two designs before: {proof['texts_equal']} of {proof['requests']}")

# %% [markdown]
"""
Under the course's router of L3, with vLLM's policy `fail`, the client got HTTP 200 at once and an error frame in the stream. Here nobody's request failed, and one was very late: it waited until Serve had noticed the death, started another process and loaded the model. The same fault, two engines, two bills.

Which sentences does this one kill carry? Give the letters.

| letter | sentence |
|---|---|
| A | "Serve started a new prefill replica without being told to." |
| B | "A request that meets a dead prefill replica behind Ray is never lost." |
| C | "Whoever promises a TTFT needs a deadline of his own in front of this engine: it let a client wait for as long as a start takes." |
| D | "No KV block stayed allocated on decode." |
"""

# %% exercise="L5.10"
# Exercise L5.10
from_one_kill = [...]
### BEGIN SOLUTION
from_one_kill = ["A", "C"]
### END SOLUTION

# %% check="L5.10"
check("L5.10", from_one_kill)

# %% [markdown]
"""
## The verdict

`capacity` of each design is the highest tested rate that passes all gates with no failure below it, or `0`. `claim` is the claim card's: as in L2 it is `"supported"` where the pair's capacity is the higher one, `"refuted"` where it is the lower one, and `"open"` where the tested rates show no difference: nobody has looked between them, nor below the lowest. `kv_path` is what carried the KV: `"nixl"`, `"object store"` or `"serve calls"`. `evidence` is the kind of evidence that this rests on.
"""

# %% exercise="L5.11"
# Exercise L5.11
verdict = {"aggregated": ..., "disaggregated": ..., "claim": ..., "kv_path": ..., "evidence": ...}
### BEGIN SOLUTION
def capacity(design):
    points = [(rate, report(main[f"{design}-cold-{rate:g}rps"])) for rate in rates]
    return slo.capacity(points).rate_rps or 0


reached = {design: capacity(design) for design in ("aggregated", "disaggregated")}
more = reached["disaggregated"] - reached["aggregated"]
verdict = reached | {
    "claim": "supported" if more > 0 else "refuted" if more < 0 else "open",
    "kv_path": "nixl", "evidence": "measured",
}
### END SOLUTION

# %% check="L5.11"
gates_passed = lab_sums.capacities({
    design: [(rate, report(main[f"{design}-cold-{rate:g}rps"])) for rate in rates]
    for design in ("aggregated", "disaggregated")
})
check("L5.11", verdict, expected=lab_sums.verdict_behind_ray(gates_passed))

# %% [markdown]
"""
## On two machines

What the same code asks of a cluster. Rendered for the miniature, the script below has run on a Ray cluster of one machine, on its processor. With GPUs, or with a second machine, nothing of this has been run.

- `pdlab plan render PLAN --target ray --chunk TOKENS` writes the serve file, the calls of the builder and a script that runs both designs. On GPUs each rank of a replica is a bundle with one GPU, and the settings for few cores are left out.
- Ray places the replicas. Every node needs the model, and NIXL a network that both ends can reach: the side channel's address and UCX's devices are no longer loopback.
- A preflight measures the link before the sweep (lab L1). On one host the KV moved through memory, so the time of a pull in this lab says nothing about yours.
- The deployment above was written by `pdlab ray`; a sweep on yours goes through `pdlab attach`. The requests, the client and the analysis stay as they are.

**What would change this verdict?** Cores first: here Ray's own processes and the engines share two, and nobody has run this lab with more. Then the load: what the control plane adds is a sum for each request and each frame, so long prompts and fast decodes feel it differently. And a budget that more than one split fits into: scaling pools apart is what this engine makes easy, and with two cores there was nothing to scale to.

Your guesses from the start:
"""

# %%
between = tcp.get(("decode", "prefill"), 0) + tcp.get(("prefill", "decode"), 0)
guesses({
    "L5.a": "the same" if len({*gates_passed.values()}) == 1 else max(gates_passed, key=gates_passed.get),
    "L5.b": round(between / paths[slow]["nixl_bytes"], 4),
    "L5.c": 3 - len(first_step["kept"]),
})

# %% [markdown]
"""
## Recap

1. An engine for clusters decides who computes what. The KV travels beside it, and Ray neither carries nor counts it.
2. In this engine decode calls prefill. Times of nested calls have to be taken apart before they are added.
3. A sum on a dashboard can be an estimate. Know whether buckets lie between you and the event.
4. Write a pool's number beside the application and one replica starts; write it inside and all of them do.
5. Behind another front the same plan is another experiment: proxy, frames and placement all changed at once.

## Two questions from before

<details><summary>From L3: why is "HTTP 200" no proof that a request went well?</summary>
The status is sent before the first token. What goes wrong afterwards arrives as an error frame in the stream, or as silence.
</details>

<details><summary>From 05: what does an equal count of cores or GPUs on both sides bound, and what does it not make equal?</summary>
It bounds the budget of the comparison. It makes neither speed nor cost equal: weights are loaded once more for each pool, and a pool that waits is paid for too.
</details>

## Sources

Accessed in November 2026.

- Ray 2.60, Serve LLM: prefill/decode disaggregation (`build_pd_openai_app`), `LLMConfig`, and the Serve config file with its in-place updates. Read in its code: a connector's `concurrent_handoff` (`pd_server.py`), and the order of an update (`deployment_state.py`).
- vLLM 0.32, metrics: `prompt_tokens_by_source`, `nixl_bytes_transferred`; NIXL 1.5, `get_xfer_telemetry`.
- Linux `tcp_info` as printed by `ss`: bytes acknowledged on each connection.
"""
