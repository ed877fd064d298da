# %% [markdown]
"""
# 05 · Where the pieces stand, and what they cost

**Time** 40 minutes. **Before this** notebooks 03 and 04. **You need** the sizes of notebook 02. **Run from the top**: each cell needs those above it.

At the end you can follow a request through a disaggregated cluster and say who decides what at each door. You can count what both designs pay for, and you know the one figure that decides between them.
"""

# %%
from pdlab.course import *
from pdlab.measure import records, simcheck, slo
from pdlab.theory import kv, link

SWEEP = recorded("sim-reference")  # AISimulate, Llama-3.1-70B on 16 H100

# %% [markdown]
"""
## A puzzle

Sixteen GPUs serve Llama-3.1-70B. Eight of them prefill, as one worker; the other eight decode, as another. Every prompt has 2,000 tokens, every answer 200. Four requests arrive each second, and two gauges hang on the wall:
"""

# %%
four = records.read_run(SWEEP / "main/disaggregated-cold-4rps")
busy = simcheck.busy_shares(four)
print("share of the time in which the pool computes, at 4 requests/s   [simulated]")
print(f"prefill pool  {100 * busy['prefill']:5.1f} %")
print(f"decode pool   {100 * busy['decode']:5.1f} %")

# %% [markdown]
"""
Next month the traffic will be three times as much, 12 requests a second. You may order GPUs for one of the pools. Guess first; nobody marks it.
"""

# %%
# Which pool runs out first at 12 requests/s: "prefill" or "decode"?
runs_out = ...
### BEGIN SOLUTION
runs_out = "decode"  # a fair guess: its gauge is at the top already
### END SOLUTION
predict("5.a", runs_out, choices=["prefill", "decode"])

# %%
# One copy of the weights is 141 GB.  How many GB of GPU memory do the sixteen GPUs spend on weights?
weights_gb = ...
### BEGIN SOLUTION
weights_gb = 141
### END SOLUTION
predict("5.b", weights_gb)

# %% [markdown]
"""
Now the traffic grows. Each line shows what a pool makes of it: the prefill pool's users wait for their first token, the decode pool's users wait for each next one.
"""

# %%
rates = [1, 2, 4, 8, 10, 12]
reports = [slo.analyse(records.read_run(SWEEP / f"main/disaggregated-cold-{rate}rps")) for rate in rates]
ttft = [report.ttft_ms.p50 for report in reports]
tpot = [report.tpot_ms.p50 for report in reports]
ax = figure(
    "The pool whose gauge showed 33 % is the one that fills up",
    label="simulated", source="AISimulate, 16 × H100, TP8 prefill + TP8 decode, 2,000 tokens in, 200 out",
    xlabel="offered requests/s", ylabel="median, × its value at 1/s", ylog=True,
)
line(ax, rates, [value / ttft[0] for value in ttft], f"TTFT: {ttft[0]:.0f} ms → {ttft[-1]:,.0f} ms")
line(ax, rates, [value / tpot[0] for value in tpot], f"TPOT: {tpot[0]:.1f} ms → {tpot[-1]:.1f} ms")
ax.set(xlim=(0, 17), ylim=(0.8, 60), xticks=rates, yticks=[1, 3, 10, 30])
ax.minorticks_off()
show_figure(ax, alt=(
    f"Median TTFT and TPOT against the offered rate, as multiples of their values at 1 request/s. "
    f"TTFT goes from {ttft[0]:.0f} ms to {ttft[-1]:,.0f} ms at 12 requests/s. "
    f"TPOT goes from {tpot[0]:.1f} to {tpot[-1]:.1f} ms, an eighth more."
))

# %%
rows = []
for rate in (4, 12):
    run = records.read_run(SWEEP / f"main/disaggregated-cold-{rate}rps")
    at_once, _ = simcheck.decoding_two_ways(run)
    tpot_ms, prompt_ms = slo.analyse(run).tpot_ms.p50, simcheck.prefill_service_ms(run).mean()
    rows.append([rate, f"{prompt_ms:.0f}", round(at_once), f"{tpot_ms:.1f}"])
show_table(
    rows, ["requests/s", "prefill time of a prompt, ms", "sequences in decode at once, mean", "TPOT P50, ms"],
    caption="Three times the sequences, almost the same step",
    label="simulated", source="AISimulate, 16 × H100, TP8 prefill + TP8 decode, 2,000 tokens in, 200 out",
)

# %% [markdown]
"""
*Busy* is not *full*. A decode pool steps all day as long as one sequence is in it. With 8 sequences a step takes 10.4 ms, with 26 it takes 11.2 ms: they share the reading of the weights, as you saw in notebook 01. Its gauge stood at the top at 4 requests a second and said nothing. The prefill pool does prompts one after another, 84 ms each, and shares nothing. There a third of the time is a third of the capacity.

So a cluster that is split in two has two kinds of full. To see what it costs, follow one request through it.

## Seven doors

| door | step | who | what is decided or moved |
|---|---|---|---|
| 1 | admit | ingress, the front door | tokenise; count; refuse what cannot fit or cannot finish in time |
| 2 | choose prefill | router | the worker that is done first: uncached prompt tokens, queue in front of them, prefix locality |
| 3 | reserve decode | router, decode worker | a worker by its load, and free blocks in it |
| 4 | prefill | prefill worker | computes the KV of the prompt |
| 5 | move | connector | the blocks, worker to worker |
| 6 | verify | decode worker | identity, layout, tokens, readiness, ownership |
| 7 | decode | decode worker | streams tokens to the client |

The doors stand in this order for a **direct transfer**: a receiver and its buffers have to be there before the first byte moves. Runtimes differ in how early they do door 3. In Ray Serve LLM 2.60 the decode replica takes the request first and asks for a prefill. In vLLM 0.33 with NIXL, the proxy asks for the prefill first; decode finds blocks and pulls when that is done.

With a **shared store**, such as Mooncake's, prefill *publishes* blocks under a name made from their content. Nobody is expecting them. Whoever decodes looks the name up, now or in an hour, and a third worker may use the same blocks. The bill is another one: hit rates, placement, eviction, and metadata that must stay right.

Five sentences. Is each true of `"direct"` transfer, of a shared `"store"`, of `"both"`, or of `"neither"`?

| letter | sentence |
|---|---|
| A | The choice of the decode worker can wait until prefill has ended. |
| B | The bytes of a hand-off are moved twice on their way to decode. |
| C | Decode has to make sure that the KV is of the model it runs. |
| D | The KV passes through the router's process on its way. |
| E | The prefill worker and the decode worker must be up at one and the same moment. |
"""

# %% exercise="5.1"
# Exercise 5.1
true_of = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
true_of = {"A": "both", "B": "store", "C": "both", "D": "neither", "E": "direct"}
### END SOLUTION

# %% check="5.1"
check("5.1", true_of)

# %% [markdown]
"""
## Door six

A hand-off is a change of owner, like a house sale. Five things have to be true on that day, and each of them can fail alone:

- **identity**: it is the KV of this request, by this model and these weights;
- **layout**: both sides mean the same by block 7: block size, dtype, heads, order in memory;
- **tokens**: as many positions as the request has, no fewer;
- **readiness**: all of it is written before any of it is read;
- **ownership**: one side holds the blocks at a time, and the old owner has not let them to somebody else.

Here are six bad days. They are hypothetical, and lab L3 makes some of them happen. Which check, from the list above, was missing?

| day | what happened |
|---|---|
| A | Decode had been upgraded to new weights of the same shape. Prefill had not. Answers are fluent and a little strange. |
| B | Prefill keeps 128 tokens in a block, decode 64. The bytes arrive complete and mean nothing. |
| C | The prompt has 2,000 tokens, the transfer brought 1,920. The rest is what those blocks held before. |
| D | The pull began while the last layer was being computed. |
| E | The lease had ended, and the pool had given the blocks to another prompt. The pull reported success. |
| F | A retry sent the transfer parameters of the previous request along with a new prompt. |
"""

# %% exercise="5.2"
# Exercise 5.2
missing_check = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ..., "F": ...}
### BEGIN SOLUTION
missing_check = {
    "A": "identity",
    "B": "layout",
    "C": "tokens",
    "D": "readiness",
    "E": "ownership",
    "F": "identity",
}
### END SOLUTION

# %% check="5.2"
check("5.2", missing_check)

# %% [markdown]
"""
Day A deserves a note. Before two vLLM servers transfer anything over NIXL, they exchange addresses and a hash over a small connection of their own, the *side channel*. In vLLM 0.33 the hash covers versions, model name, dtype, heads, layers, attention backend and cache dtype. It does **not** cover the weights or the revision. Whoever deploys has to pin the revision on both sides; no error will do it for you. Two things that the hash leaves out are compared one by one, since the connector can convert some that differ: block size and memory order. Blocks of decode may be a multiple of prefill's; the other way round is refused (source of version 0.32).

## Two planes

What travels at doors 1 to 3 and 6 is small: a request, a worker's name, a list of blocks. What travels at door 5 is not.
"""

# %%
shape = kv.from_config(kv.load("llama-3.1-70b"))
blocks = kv.blocks(2000, 64)
print("for one prompt of 2,000 tokens   [hypothetical]")
print(f"KV of the prompt                       {kv.kv_bytes(shape, 2000):>11,} B")
print(f"ids of its {blocks} blocks, 8 bytes each       {blocks * 8:>11,} B")

# %%
axes = figure(
    "Words take the upper road, keys and values the lower one",
    label="hypothetical", source="sizes for one prompt of 2,000 tokens, Llama-3.1-70B in BF16",
    size=(8.0, 4.0),
)
axes.set(xlim=(0, 10), ylim=(-0.2, 4.6))
axes.axis("off")
PLACES = {"client": (0.9, 3.6), "ingress\nrouter": (3.4, 3.6), "prefill\nworker": (5.7, 1.2), "decode\nworker": (9.0, 1.2)}
frame = {"boxstyle": "round,pad=0.5", "facecolor": "#F2F2F2", "edgecolor": "#595959"}
boxes = {
    words: axes.text(x, y, words, ha="center", va="center", fontsize=12.5, bbox=frame).get_bbox_patch()
    for words, (x, y) in PLACES.items()
}
thin = {"arrowstyle": "<->", "color": "#0072B2", "linewidth": 1.6, "shrinkA": 3, "shrinkB": 3}
for one, other in (
    ("client", "ingress\nrouter"), ("ingress\nrouter", "prefill\nworker"), ("ingress\nrouter", "decode\nworker"),
):
    arrow = thin | {"patchA": boxes[one], "patchB": boxes[other]}
    axes.annotate("", PLACES[other], PLACES[one], arrowprops=arrow)
thick = {"arrowstyle": "simple,tail_width=1.1,head_width=2.2,head_length=1.2", "color": "#D55E00"}
axes.annotate("", (8.15, 1.2), (6.6, 1.2), arrowprops=thick)
name_at(axes, 5.2, 3.75, "control plane: HTTP, Ray Serve\nrequest, worker, block ids: kilobytes", "#0072B2")
name_at(axes, 5.7, 0.1, "data plane: NIXL or LMCache\nKV blocks: 655 million bytes", "#B34700")
show_figure(axes, alt=(
    "Client, ingress with router, prefill worker and decode worker. Thin arrows of the control plane "
    "(HTTP, Ray Serve) join the client to the ingress and the ingress to both workers: kilobytes. One "
    "thick arrow of the data plane (NIXL or LMCache) goes from the prefill worker straight to the "
    "decode worker: 655 million bytes of KV."
))

# %% [markdown]
"""
The two roads are built by different people. **Ray Serve** starts processes, scales them, checks their health and passes requests: the control plane. **vLLM** computes, and owns the blocks. **NIXL** or **LMCache** moves the blocks between memories: the data plane. KV never goes through Ray's object store. That store is shared memory for Python objects; the KV would be copied off the GPU, serialised, and copied back on.

A design note describes the cluster you are to run. Which of its lines are wrong? Give their letters.

| letter | line |
|---|---|
| A | Ray Serve starts the prefill and decode replicas, and restarts one that dies. |
| B | The prefill replica returns its KV blocks as a Ray object; we size the object store at 64 GB for a hundred prompts. |
| C | The decode replica gets block ids, a host and a port, and pulls with NIXL. |
| D | NIXL's side channel carries the KV, so its port belongs on the 25 GB/s network. |
| E | Prefill's HTTP answer carries transfer parameters, not tensors. |
| F | With LMCache as connector, blocks may stay in host memory and be found by a later request. |
"""

# %% exercise="5.3"
# Exercise 5.3
wrong_lines = [...]
### BEGIN SOLUTION
wrong_lines = ["B", "D"]
### END SOLUTION

# %% check="5.3"
check("5.3", wrong_lines)

# %% [markdown]
"""
## The same sixteen GPUs

Two designs for one budget:

| count | aggregated | disaggregated |
|---|---|---|
| workers | two, each prefills and decodes | one prefills, one decodes |
| GPUs a worker | 8 (TP8) | 8 (TP8) |
| GPUs | 16 | 16 |

The equal count keeps the comparison honest. It does **not** make the two equal in cost or speed. Memory, network and the work itself fall differently, so go and count.

### Worked example

A rank is one GPU's share of a worker. The simulator puts 17,638,096,896 bytes of weights on each of 8 ranks: one copy is 141,104,775,168 B. On 4 ranks the copy is the same size, so each rank carries twice as much. The simulator takes an H100 for 80 GiB (the data sheet says 80 GB); after the engine's reserve of 10 % and 4.84 GB for activations, runtime and communication, 72.47 GB are left a GPU. What the weights do not take is room for KV.
"""

# %%
usable = 0.9 * 80 * 2**30 - 4_840_226_816  # bytes a GPU, as the simulator counts
copy = 141_104_775_168
room = 8 * usable - copy
print(f"one TP8 worker: {8 * usable / 1e9:.1f} GB usable, {copy / 1e9:.1f} GB weights   [simulated]")
print(f"room for KV: {room / 1e9:.1f} GB = {room / 327_680:,.0f} tokens")

# %% [markdown]
"""
### Now you: one step is missing

Both designs above have two workers. How many **GB** of weights do their sixteen GPUs hold, in each design?
"""

# %% exercise="5.4"
# Exercise 5.4
copies = {"aggregated": 2, "disaggregated": 2}
weights = {"aggregated": ..., "disaggregated": ...}  # GB
### BEGIN SOLUTION
weights = {design: copies[design] * copy / 1e9 for design in copies}
### END SOLUTION

# %% check="5.4"
check("5.4", weights)

# %% [markdown]
"""
*Disaggregation needs the weights twice* is true beside **one** worker. Beside two replicas it is no difference at all. Count both sides before you put a cost on one of them.

### Only the question

Smaller workers make finer splits possible, and each of them brings its own copy. Write the room for KV that a whole fleet has.
"""

# %% exercise="5.5"
# Exercise 5.5
def kv_room_bytes(replicas, tensor, weights_bytes, usable_bytes):
    """Bytes left for KV on all GPUs together: `replicas` workers of `tensor` GPUs each."""
    ...


### BEGIN SOLUTION
def kv_room_bytes(replicas, tensor, weights_bytes, usable_bytes):
    """Bytes left for KV on all GPUs together: `replicas` workers of `tensor` GPUs each."""
    return replicas * (tensor * usable_bytes - weights_bytes)
### END SOLUTION

# %% check="5.5"
check("5.5", kv_room_bytes)

# %%
rows = []
for replicas, tensor in ((2, 8), (4, 4), (8, 2)):
    left = replicas * (tensor * usable - copy)
    in_gb = [f"{size / 1e9:,.1f}" for size in (replicas * copy, left)]
    rows.append([f"{replicas} × TP{tensor}", *in_gb, round(left / 327_680)])
show_table(
    rows, ["16 GPUs as", "weights, GB", "room for KV, GB", "tokens"],
    caption="Each halving of the worker doubles the copies",
    label="hypothetical", source="arithmetic on AISimulate's sizes of Llama-3.1-70B in BF16 on H100",
)

# %% [markdown]
"""
Eight workers of two GPUs would have room for fewer than fifty prompts in the whole fleet. The count of GPUs is the same in all three rows.

One more difference does not show in the table. In the split design half of the room lies in the prefill pool, where a prompt's KV stays for a fraction of a second, unless it is kept as a prefix for the next. The KV that lives for seconds has to fit into the decode pool alone.

Both pools also have the same degree of parallelism here, TP8. That is a limit of this course's plan files, not of the technique. On vLLM's page two different degrees are the way to tune TTFT apart from ITL. Ranks then no longer face each other one to one; with TP8 in prefill and TP2 in decode, each decode rank reads from four.

## Idle by design

A worker that may do either kind of work is idle only when there is none. A pool is idle when there is none *of its kind*. For a pool that does one prompt at a time the share is plain:

    load = offered_rate × service_s / workers            idle share = 1 − load

In the head: 5 requests/s, 0.1 s each, one worker. Half the time it works.

A TP4 worker needs **127.40 ms** for a prompt of 2,000 tokens (simulated). Three of them form a prefill pool that gets **12 requests/s**. What is its idle share?
"""

# %% exercise="5.6"
# Exercise 5.6
idle_share = ...
### BEGIN SOLUTION
idle_share = 1 - 12 * 0.12740 / 3
### END SOLUTION

# %% check="5.6"
check("5.6", idle_share)

# %% [markdown]
"""
That does not make the pool too large. At 22 requests/s the same pool is at 93 %. A pool is too large or too small *for a mix and a rate*, and a split is fixed while the mix is not.

Your cluster is balanced today. Then one thing changes, all else as it was. Which pool now needs a larger **share** of the GPUs: `"prefill"`, `"decode"` or `"neither"`?
"""

# %% exercise="5.7"
# Exercise 5.7
larger_share = {
    "prompts four times as long": ...,
    "answers four times as long": ...,
    "half of each prompt found in a cache": ...,
    "twice as many requests of the same shape": ...,
}
### BEGIN SOLUTION
larger_share = {
    "prompts four times as long": "prefill",
    "answers four times as long": "decode",
    "half of each prompt found in a cache": "decode",
    "twice as many requests of the same shape": "neither",
}
### END SOLUTION

# %% check="5.7"
check("5.7", larger_share)

# %% [markdown]
"""
## The whole bill

Now everything is on the table, and it fits in one line. Disaggregation pays when

    interference avoided + gain from scaling apart
        >  KV transfer + extra queueing + weight copies + pool imbalance

Two terms on the left, four on the right, and no units in common: some are milliseconds, some gigabytes, some idle GPUs. Before adding anything up, learn to see which term an observation belongs to.

Here are two designs, in rows A, B, C and E at 12 requests/s. The right one has three TP4 workers for prefill and one for decode, 16 GPUs as well.
"""

# %%
LAYOUTS = {
    "1 × TP8 + 1 × TP8": ("main", "disaggregated", [8, 10, 12, 14]),
    "2 × TP8, aggregated": ("main", "aggregated", [8, 10, 12, 14, 16]),
    "4 × TP4, aggregated": ("splits", "aggregated-4xtp4", [12, 16, 18]),
    "3 × TP4 + 1 × TP4": ("splits", "disaggregated-3xtp4-to-1xtp4", [16, 18, 20, 22, 24]),
}


def capacity(name):
    """The highest tested rate, in requests/s, at which a layout of 16 GPUs meets all targets."""
    group, design, tested = LAYOUTS[name]
    runs = {rate: records.read_run(SWEEP / f"{group}/{design}-cold-{rate}rps") for rate in tested}
    return slo.capacity([(rate, slo.analyse(run)) for rate, run in runs.items()]).rate_rps


capacities = {name: capacity(name) for name in LAYOUTS}
one = records.read_run(SWEEP / "main/aggregated-cold-12rps")
two = records.read_run(SWEEP / "splits/disaggregated-3xtp4-to-1xtp4-cold-12rps")
left, right = slo.analyse(one), slo.analyse(two)
handoff = simcheck.transfer_ms(two)
handoff.sort()
show_table(
    [
        ["A", "P99 gap between tokens at 12 requests/s, ms", f"{left.itl_ms.p99:.1f}", f"{right.itl_ms.p99:.1f}"],
        ["B", "P50 from the end of prefill until decode may begin, at 12 requests/s, ms", "–",
         f"{handoff[len(handoff) // 2]:.1f}"],
        ["C", "P50 of TTFT at 12 requests/s, ms", f"{left.ttft_ms.p50:.0f}", f"{right.ttft_ms.p50:.0f}"],
        ["D", "weights in GPU memory at any rate, GB", f"{2 * copy / 1e9:.0f}", f"{4 * copy / 1e9:.0f}"],
        ["E", "idle share of the prefill pool at 12 requests/s", "–",
         f"{100 * (1 - simcheck.busy_shares(two)['prefill']):.0f} %"],
        ["F", "highest of all tested rates that meets all targets, requests/s",
         *(f"{capacities[name]:g}" for name in ("2 × TP8, aggregated", "3 × TP4 + 1 × TP4"))],
    ],
    ["row", "observation", "2 × TP8, aggregated", "3 × TP4 + 1 × TP4"],
    caption="One comparison, six entries of the bill",
    label="simulated", source="AISimulate, 16 × H100 on both sides, 2,000 tokens in, 200 out, cold cache",
)

# %% [markdown]
"""
Row C needs care. Its 76 ms have more than one cause: a TP4 worker prefills more slowly than a TP8 one, the hand-off of row B is inside, and a prompt may find its prefill worker taken. Of the six terms it is nearest to `"queueing"`: time before the first token that the other design does not ask for.

Which term does each row put a figure to? Use `"interference"`, `"scaling apart"`, `"transfer"`, `"queueing"`, `"copies"`, `"imbalance"`, each once.
"""

# %% exercise="5.8"
# Exercise 5.8
terms = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ..., "F": ...}
### BEGIN SOLUTION
terms = {
    "A": "interference",
    "B": "transfer",
    "C": "queueing",
    "D": "copies",
    "E": "imbalance",
    "F": "scaling apart",
}
### END SOLUTION

# %% check="5.8"
check("5.8", terms)

# %% [markdown]
"""
Row B deserves a look back. The floor of notebook 03 for these bytes is 6.6 ms: four ranks send in parallel, a quarter each, at 25 GB/s. The simulated hand-off takes more than four times that, though its model has no set-up at all. The rest is waiting. Decode acts only between two steps, and a step takes about 20 ms here. About half a step goes by until room is reserved. Then the bytes travel while the next step runs, and the request is taken in when that one ends. Notebook 07 takes that apart. Passing the floor keeps a link on the list, no more.

## One yardstick

How do you add milliseconds to gigabytes? You don't. You fix the targets (for this course: TTFT at most 2,000 ms, TPOT at most 50 ms, no gap above 200 ms, for 95 % of all requests) and ask how many requests a second each design carries *within* them, divided by its GPUs. Memory, imbalance, queues and copies are all in that figure, since all of them lower it. It is called **goodput per GPU**.
"""

# %%
ax = figure(
    "What sixteen GPUs carry within all targets is a matter of their layout",
    label="simulated", source="AISimulate, 16 × H100, 2,000 in, 200 out, cold; highest tested rate that passes",
    xlabel="requests/s per GPU within all targets", size=(8, 3.4),
)
for row, (name, capacity) in enumerate(capacities.items()):
    colour = "#0072B2" if "aggregated" in name else "#D55E00"
    ax.plot([0, capacity / 16], [row, row], color=colour, marker="", linewidth=3)
    ax.plot(capacity / 16, row, color=colour, marker="o" if "aggregated" in name else "s", markersize=11)
    name_at(ax, capacity / 16, row, f"{capacity / 16:.3f}  ({capacity:g} requests/s)", colour, dx=12)
ax.set(xlim=(0, 1.9), ylim=(-0.6, 3.6))
ax.set_yticks(range(4), list(capacities))
show_figure(ax, alt=(
    "Requests/s per GPU within all targets, four layouts of 16 GPUs; prefill + decode where split. "
    + "; ".join(f"{name}: {capacity / 16:.3f}" for name, capacity in capacities.items()) + "."
))

# %% [markdown]
"""
A memo lies on your desk. It compares *2 × TP8, aggregated* with *1 × TP8 + 1 × TP8* at 12 requests/s and says: *"P/D cuts the P99 gap from 96 to 11 ms. Nobody likes a stutter of 96 ms. Adopt."* The targets are the four above.

Judge it. `figure` is the figure that decides: `"p99 gap"`, `"throughput"` or `"goodput per gpu"`. `memo_split` and `other_split` say how 1 × TP8 + 1 × TP8 and 3 × TP4 + 1 × TP4 compare with *both* aggregated layouts by that figure: `"better"` or `"worse"`. `adopt` is yes or no, for the memo's own proposal.
"""

# %% exercise="5.9"
# Exercise 5.9
verdict = {"figure": ..., "memo_split": ..., "other_split": ..., "adopt": ...}
### BEGIN SOLUTION
verdict = {"figure": "goodput per gpu", "memo_split": "worse", "other_split": "better", "adopt": "no"}
### END SOLUTION

# %% check="5.9"
check("5.9", verdict)

# %% [markdown]
"""
## What would change this answer?

- **The targets.** With a limit of 50 ms on every gap, the 96 ms of the memo would miss it. Then aggregation has to run with small chunks, and its capacity falls. Notebook 07 does that sum.
- **The mix.** Longer answers fill decode, longer prompts fill prefill. Of the two splits in the figure, 3 : 1 is the better one for 2,000 in and 200 out. No other lengths were run, and for them it need not be.
- **Prefixes.** Prefill's room is its prefix cache as well. Two replicas have about twice as much of it as one prefill worker, less what running answers take. In a fleet that lives on prefix hits, lost hits are a fifth entry on the right of the bill. The runs here are cold and don't show it.
- **The hardware.** Everything here is simulated, for one GPU type and one model. What the two designs do on *your* cluster, nobody has measured yet.

## Recap

1. Seven doors: admit, choose prefill, reserve decode, prefill, move, verify, decode. A store replaces *reserve* by *publish*.
2. A hand-off is checked for identity, layout, tokens, readiness and ownership. vLLM's handshake does not see the weights.
3. Requests and block ids go over the control plane, KV over the data plane, never through Ray's object store.
4. Equal GPU counts bound a comparison. Copies, room for KV and idle pools still differ: count both sides.
5. Busy is not full, and milliseconds do not add up to a decision. Goodput per GPU within the targets does.

Your guesses from the start:
"""

# %%
guesses({"5.a": "prefill", "5.b": f"{2 * copy / 1e9:.0f} GB, two copies"})

# %% [markdown]
"""
## Two questions from before

Answer from memory, aloud or on paper. Then open the line.

<details><summary>From 03: a link passes the hand-off floor with 12 ms to spare. What do you know about the tail of the hand-off?</summary>
Nothing but a lower bound. Queueing, buffers and synchronisation come on top, and a floor has no percentile. Row B above is an example: floor 6.6 ms, median more than four times that.
</details>

<details><summary>From 04: "DistServe serves up to 7.4 times the requests". Against what, and under which condition?</summary>
Against DeepSpeed-MII, as a maximum, of the request rate per GPU at which over 90 % of requests meet both TTFT and TPOT targets. Against vLLM the paper's figures are smaller. And it is capacity within targets that rises, not raw throughput.
</details>
"""

# %% [markdown]
"""
**Next** is notebook 06: what the four metrics mean, and who calls the same run a pass.

## Sources

Accessed in November 2026.

- Ray documentation, *Prefill/Decode Disaggregation* (Ray Serve LLM 2.60.0): the decode replica orchestrates, connectors, no retry after a prefill error.
- vLLM documentation, *Disaggregated Prefilling* and *NixlConnector usage*, version 0.33.0: request protocol, side channel, compatibility hash. Source of version 0.32: block sizes and ranks at the handshake.
- NVIDIA Dynamo 1.6 documentation, *Disaggregated Serving*: choice of workers.
- R. Qin et al., *Mooncake*, FAST 2025 (arXiv 2407.00079): the KV store and its scheduling.
- Y. Zhong et al., *DistServe*, OSDI 2024: goodput per GPU within TTFT and TPOT.
- AISimulate 0.13.0.dev202610270000000085; the runs are in `data/runs/sim-reference`, with their provenance.
"""
