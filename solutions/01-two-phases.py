# %% [markdown]
"""
# 01 · One model, two kinds of work

**Time** 40 minutes. **Before this** notebook 00. **You need** to know what a Transformer layer multiplies, and that each new token attends to all before it. **Run from the top**: each cell needs those above it.

At the end you can say, for a batch, a length and a device, whether arithmetic or memory traffic is the limit. You can compute four latencies from raw times, and you can name what it costs to give each phase its own worker.
"""

# %%
import numpy as np

from pdlab.course import *
from pdlab.theory import kv, roofline

# %% [markdown]
"""
## A puzzle

Four readers are each watching an answer grow, on one server. Then someone else sends that server a prompt of 3,000 tokens. Nothing fails, and nobody is turned away. The scene was played three times. This is what the run shows about the four:
"""

# %%
from pdlab.measure import episodes, records

sweep = records.read_sweep(recorded("interference"))
scene = {
    entry.name: [e for e in episodes.episodes(entry.read()) if e.prompt_tokens == 3000]
    for entry in sweep.entries
}
whole = scene["chunk-4096"]  # here a prompt of 3,000 tokens is prefilled in one piece
usual = np.median(np.concatenate([episode.quiet for episode in whole]))
longest = max(episode.during.max() for episode in whole)
print(f"before the prompt   a token every {usual:.0f} ms (median)   [measured, recorded]")
print(f"after it arrives    the longest gap is {longest:,.0f} ms, in the worst of {len(whole)} repetitions")

# %% [markdown]
"""
The server was busy all the time. So what was it doing, and why could four readers not have a token meanwhile?

Commit to two guesses before you read on.
"""

# %%
# The server can cut a long prompt into pieces of 512 tokens instead of taking it whole.
# How long is the longest gap then, in ms?
gap_ms = ...
### BEGIN SOLUTION
gap_ms = 400
### END SOLUTION
predict("1.a", gap_ms)

# %%
# Which phase is limited by memory traffic?  "prefill", "decode", "both", "neither" or "it depends"
phase = ...
### BEGIN SOLUTION
phase = "it depends"
### END SOLUTION
predict("1.b", phase, choices=["prefill", "decode", "both", "neither", "it depends"])

# %% [markdown]
"""
## Two phases

A request comes with a prompt. In *prefill* the server runs all positions of the prompt through the model at once: they are known, so nothing has to wait. Out come the first token and a cache of keys and values. Then *decode* begins. Each next token depends on the one before, so a sequence adds one position per pass, and each pass runs through the whole model again.

What does a pass cost? Think of one weight. In BF16 it has 2 bytes, and it has to come from memory to where the arithmetic is. There, each token of the pass uses it for a multiplication and an addition: 2 floating-point operations. With one token in the pass, that is 2 operations for 2 bytes. With 2,000 tokens it is 4,000 operations for the same 2 bytes.

That ratio is the *arithmetic intensity*. Its unit is FLOP per byte:

    intensity = operations / bytes moved        ≈ 2 × tokens_in_the_pass / bytes_per_weight

Check it in your head: one token, 2 bytes, 1 FLOP/B. The rough form on the right counts weights only. Keys and values have to be read as well; we come to them soon.

A device has such a ratio too: the operations it can do while one byte arrives. NVIDIA states 989.5 × 10¹² BF16 operations a second for an H100 SXM and 3.35 × 10¹² bytes a second. That makes 295 FLOP/B, the device's *ridge*. Work below the ridge waits for memory, work above it for arithmetic. So one token at a time uses less than a hundredth of the arithmetic you paid for.

### Worked example

Llama-3.1-8B prefills one prompt of 2,000 tokens on an H100. `roofline` counts the operations and bytes of the whole pass, with attention and KV included.
"""

# %%
llama = kv.load("llama-3.1-8b")
h100 = roofline.device("h100-sxm")
work = roofline.prefill(llama, batch=1, tokens=2000)
print(f"operations  {work.flops:.3e} FLOP")
print(f"bytes       {work.bytes:.3e} B")
print(f"intensity   {work.intensity:,.0f} FLOP/B against a ridge of {h100.ridge:.0f}")
print(f"limited by  {roofline.bound(work, h100)}   [published peaks, no run]")

# %% [markdown]
"""
### Now you: one step is missing

The H200 does the same arithmetic as the H100 and has faster memory. What is its ridge, in FLOP/B?
"""

# %% exercise="1.1"
# Exercise 1.1
h200_flop_s = 989.5e12  # BF16 operations a second
h200_bytes_s = 4.8e12  # bytes of memory traffic a second
h200_ridge = ...
### BEGIN SOLUTION
h200_ridge = h200_flop_s / h200_bytes_s
### END SOLUTION

# %% check="1.1"
check("1.1", h200_ridge)

# %% [markdown]
"""
### Only the question

The ridge tells the side. Time tells how much. A pass needs `flops / peak` seconds of arithmetic and `bytes / bandwidth` seconds of memory traffic. A good kernel does both at once, so it cannot be faster than the slower of the two. Write that floor as a function, in **milliseconds**.
"""

# %% exercise="1.2"
# Exercise 1.2
def floor_ms(flops, bytes_moved, peak_flop_s, bandwidth_bytes_s):
    """The least time of a pass in milliseconds, when arithmetic and traffic overlap."""
    ...


### BEGIN SOLUTION
def floor_ms(flops, bytes_moved, peak_flop_s, bandwidth_bytes_s):
    """The least time of a pass in milliseconds, when arithmetic and traffic overlap."""
    return max(flops / peak_flop_s, bytes_moved / bandwidth_bytes_s) * 1000
### END SOLUTION

# %% check="1.2"
check("1.2", floor_ms)

# %% [markdown]
"""
## Which side?

"Prefill is compute-bound, decode is memory-bound." You will read that sentence everywhere. Test it. All six points are Llama-3.1-8B in BF16. Answer `"compute"` or `"memory"` for each. Guess first if you like, then use `roofline.prefill`, `roofline.decode(llama, batch, context_tokens)` and `roofline.bound` as in the worked example; `roofline.device("h200-sxm")` is there too.

| point | phase | batch | tokens each | device |
|---|---|---|---|---|
| A | prefill | 1 | 2,000 | H100 |
| B | decode | 1 | 2,000 in context | H100 |
| C | prefill | 1 | 64 | H100 |
| D | prefill | 1 | 256 | H100 |
| E | prefill | 1 | 256 | H200 |
| F | decode | 512 | 128 in context | H100 |
"""

# %% exercise="1.3"
# Exercise 1.3
sides = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ..., "F": ...}
### BEGIN SOLUTION
h200 = roofline.device("h200-sxm")
sides = {
    "A": roofline.bound(roofline.prefill(llama, 1, 2000), h100),
    "B": roofline.bound(roofline.decode(llama, 1, 2000), h100),
    "C": roofline.bound(roofline.prefill(llama, 1, 64), h100),
    "D": roofline.bound(roofline.prefill(llama, 1, 256), h100),
    "E": roofline.bound(roofline.prefill(llama, 1, 256), h200),
    "F": roofline.bound(roofline.decode(llama, 512, 128), h100),
}
### END SOLUTION

# %% check="1.3"
check("1.3", sides)

# %% [markdown]
"""
So the sentence holds for long prompts and small batches. "Usually" is the word it lacks.

## A batch to the rescue, and its limit

Decode reads every weight for one token a sequence. The remedy is old: let many sequences share the pass. With 300 of them, each weight is used 300 times for one reading, and the intensity of the weights climbs over the ridge of the H100.

But a sequence also reads its own keys and values, and in a model like this one nobody shares those. Each cached element is used for a few operations and never again in that pass. The longer the contexts, the more of the traffic is of this kind.
"""

# %%
batches = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
ax = figure(
    "Batching lifts short contexts over the ridge and leaves long ones below it",
    label="published", source="Llama-3.1-8B's config.json; NVIDIA's H100 SXM peaks; arithmetic",
    xlabel="sequences in the batch", ylabel="decode: FLOP per byte", xlog=True, ylog=True,
)
for context in (128, 2000, 8192):
    intensity = [roofline.decode(llama, batch, context).intensity for batch in batches]
    line(ax, batches, intensity, f"context {context:,}")
ax.axhline(h100.ridge, color="#1B1B1B", linewidth=1.2)
name_at(ax, 1, h100.ridge, "ridge of the H100: 295", dx=2, dy=9)
show_figure(ax, alt="""
    Arithmetic intensity of a decode step against batch size, Llama-3.1-8B. All contexts start at
    1 FLOP a byte with one sequence. At 1,024 sequences a context of 128 reaches 480, above the
    H100's ridge of 295; a context of 2,000 levels off near 58 and one of 8,192 near 18,
    both far below the ridge.
""")

# %% [markdown]
"""
Find the **smallest batch** at which a decode step of Llama-3.1-8B with **128 tokens of context** is compute-bound on the H100. A loop will do.
"""

# %% exercise="1.4"
# Exercise 1.4
smallest_batch = ...
### BEGIN SOLUTION
smallest_batch = 1
while roofline.bound(roofline.decode(llama, smallest_batch, 128), h100) == "memory":
    smallest_batch += 1
### END SOLUTION

# %% check="1.4"
check("1.4", smallest_batch)

# %% [markdown]
"""
A loop that looks for such a batch at a longer context may never end. You can know before you start it. As the batch grows, the weights' share of the traffic goes to nothing, and the intensity approaches

    limit = operations of one sequence / KV bytes of one sequence

For each pair, is there `"some"` batch that makes decode compute-bound, or `"none"`? One token of Llama-3.1-8B leaves 131,072 bytes of KV, and one sequence needs 15 to 17 × 10⁹ operations a step at these lengths. The ridges are 295 for the H100 and the figure from 1.1 for the H200.
"""

# %% exercise="1.5"
# Exercise 1.5
batch_exists = {"H100, 128": ..., "H100, 512": ..., "H200, 512": ..., "H200, 4096": ...}
### BEGIN SOLUTION
batch_exists = {}
for device, context in (("H100", 128), ("H100", 512), ("H200", 512), ("H200", 4096)):
    one = roofline.decode(llama, 1, context)
    limit = one.flops / kv.kv_bytes(kv.from_config(llama), context)
    ridge = roofline.device(f"{device.lower()}-sxm").ridge
    batch_exists[f"{device}, {context}"] = "some" if limit > ridge else "none"
### END SOLUTION

# %% check="1.5"
check("1.5", batch_exists)

# %% [markdown]
"""
## What moves the boundary

Prompt length, batch, attention variant, quantisation, kernel and hardware can each change which resource binds. Try five of them on one case.

Llama-3.1-8B decodes a batch of 64 with 2,000 tokens of context each, in BF16, on an H100: 32 FLOP/B. Now one thing changes. Which way does the **intensity of the decode step** go: `"up"`, `"down"` or `"same"`?

| letter | change |
|---|---|
| A | the batch doubles to 128 |
| B | the contexts grow to 8,000 tokens |
| C | the model has 32 KV heads instead of 8: each query head has its own keys and values (multi-head attention, MHA), where four shared them before (grouped-query attention, GQA) |
| D | weights and KV are stored in FP8, a number format of one byte; the products are still BF16 |
| E | an H200 does the step |
"""

# %% exercise="1.6"
# Exercise 1.6
moves = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
moves = {"A": "up", "B": "down", "C": "down", "D": "up", "E": "same"}
### END SOLUTION

# %% check="1.6"
check("1.6", moves)

# %% [markdown]
"""
**What would change this answer?** The kernel. All of this counts the bytes that *must* move at peaks that no program reaches. A kernel that reads the cache twice, or a pass of a thousand tiny launches, is slower and may be limited by something that is on neither axis. A roofline gives floors; a profiler tells what happened. And sharing. In DeepSeek-V3 one cached vector serves all 128 heads (MLA, notebook 02): for 1,152 B read, attention does 2 × 128 × (576 + 512) operations. That is 242 FLOP/B from the cache alone, above the H200's ridge *(published config, arithmetic)*. Kernels can read a prefix that sequences have in common once for all of them, and speculative decoding checks several tokens with one reading.

## Four names for waiting

A user does not see FLOP. A user sees the moment of sending, and then tokens at certain times. From those raw times come four figures. Let a request be sent at 0 ms and its five tokens arrive at 180, 200, 220, 420 and 440 ms.
"""

# %%
token_ms = [180, 200, 220, 420, 440]
ax = figure(
    "The mean time per token, 65 ms, hides one gap of 200 ms",
    label="hypothetical", source="five assumed arrival times",
    xlabel="ms since the request was sent", size=(8, 3.4),
)
ax.plot(token_ms, [0] * 5, linestyle="", marker="o", color="#0072B2", markersize=11, zorder=5)
for number, at in enumerate(token_ms, 1):
    ax.annotate(f"{number}", (at, 0), (0, -19), textcoords="offset points", ha="center", fontsize=11)
for start, end, height, text in (
    (0, 180, 1, "TTFT 180"), (220, 420, 1, "longest ITL 200"),
    (180, 440, 2, "TPOT = 260 / 4 gaps = 65"), (0, 440, 3, "E2E 440"),
):
    ax.annotate("", (start, height), (end, height), arrowprops={"arrowstyle": "<->", "color": "#1B1B1B"})
    ax.text((start + end) / 2, height + 0.12, text, ha="center", fontsize=12)
ax.set(ylim=(-1, 3.9), yticks=[], xlim=(-8, 460))
ax.spines["left"].set_visible(False)
show_figure(ax, alt="""
    A request's time line. Tokens arrive at 180, 200, 220, 420 and 440 ms after sending. TTFT is
    180 ms, E2E 440 ms, TPOT 260 ms over four gaps or 65 ms, and the longest ITL, between tokens
    three and four, is 200 ms.
""")

# %% [markdown]
"""
| name | means | unit | here |
|---|---|---|---|
| TTFT, time to first token | first arrival − sending | ms | 180 |
| ITL, inter-token latency | each gap between neighbours | ms | 20, 20, 200, 20 |
| TPOT, time per output token | (last − first arrival) / (tokens − 1) | ms | 65 |
| E2E, end to end | last arrival − sending | ms | 440 |

ITL is a *list*: one number for each gap. TPOT is the mean of that list. When we promise that no reader waits longer than so much between words, we promise something about the longest gap, and a mean cannot vouch for it.

Write the four. `sent_ms` is the time of sending, `token_ms` the arrival times in order, at least two, both on one clock. Return **TTFT, TPOT, the longest ITL, E2E**, in that order.
"""

# %% exercise="1.7"
# Exercise 1.7
def latencies(sent_ms, token_ms):
    """(TTFT, TPOT, longest ITL, E2E) of one request, in milliseconds."""
    ...


### BEGIN SOLUTION
def latencies(sent_ms, token_ms):
    """(TTFT, TPOT, longest ITL, E2E) of one request, in milliseconds."""
    gaps = [after - before for before, after in zip(token_ms, token_ms[1:])]
    return token_ms[0] - sent_ms, sum(gaps) / len(gaps), max(gaps), token_ms[-1] - sent_ms
### END SOLUTION

# %% check="1.7"
check("1.7", latencies)

# %% [markdown]
"""
### Find the fault

A load tool reports on one request. It was sent at 0 ms, and its four tokens came at 300, 340, 380 and 420 ms.

| the tool's line | ms |
|---|---|
| `ttft` | 300 |
| `tpot` | 105 |
| `itl` (mean) | 40 |
| `e2e` | 420 |

One line uses a name for something else than this course does. Real tools do that. Which line, and what would the course put there?
"""

# %% exercise="1.8"
# Exercise 1.8
fault = {"line": ..., "ms": ...}
### BEGIN SOLUTION
fault = {"line": "tpot", "ms": (420 - 300) / 3}
### END SOLUTION

# %% check="1.8"
check("1.8", fault)

# %% [markdown]
"""
## One long prompt and its neighbours

Back to the four readers. A server works in *steps*. For each step its scheduler picks what runs together: one token for every sequence in decode, and as much of the waiting prompts as a budget of tokens allows. vLLM calls that budget `max_num_batched_tokens`; we call it the *chunk size* for short. Everyone in the step gets a token when the step ends, and not before. If 3,000 tokens of prompt fit into the budget, that step is long, and the four decodes in it wait for its end.

*Chunked prefill* sets a smaller budget. The prompt goes through in pieces (of 512, four decodes leave it 508), and between two pieces every decode has had a token. So the gap is bounded by the time of one step. The price is more steps: each reads all the weights again, and what the earlier pieces left in the cache.

*Disaggregation* puts the long step on another worker. Then the two phases do not share steps at all.

In the recorded scene the long prompt comes when the four streams have got going. Three budgets have both processor cores of the machine for one worker; the fourth setting gives prefill and decode one core each, joined by NIXL. Same cores, same lengths of prompt, same client, three repetitions each.
"""

# %%
NAMES = {
    "chunk-4096": "one piece", "chunk-512": "pieces of 512",
    "chunk-128": "pieces of 128", "disaggregated": "separate workers",
}
worst = {key: scene[key][0].during.max() for key in NAMES}
axes = figure(
    f"Taken in one piece, a prompt of 3,000 tokens stops four streams for {worst['chunk-4096'] / 1000:.1f} s",
    label="measured", source="SmolLM2-135M on vLLM, first repetition",
    run=recorded("interference") / "chunk-4096", xlabel="s after the prompt",
    ylabel="token gap (ms)", ylog=True, panels=(1, 4), size=(9.5, 4.2),
    sharex=True, sharey=True,
)
for index, (ax, (key, name)) in enumerate(zip(axes, NAMES.items())):
    one = scene[key][0]
    ax.plot(one.gap_end_ms / 1000, one.gap_ms, linestyle="", markersize=4, alpha=0.7,
            marker="os^D"[index], color=["#D55E00", "#CC79A7", "#009E73", "#0072B2"][index])
    ax.axvline(one.first_token_ms / 1000, color="#1B1B1B", linewidth=1.2, linestyle=":")
    ax.set_title(name, fontsize=12.5)
ax.set(xlim=(-1.5, 6))
show_figure(axes[0].figure, alt=f"""
    Gaps between tokens of four streams around the arrival of a 3,000-token prompt, on a log scale,
    in the first repetition. The longest gap is {worst["chunk-4096"]:,.0f} ms when the prompt is
    taken in one piece, {worst["chunk-512"]:,.0f} ms in pieces of 512, {worst["chunk-128"]:,.0f} ms in
    pieces of 128, and {worst["disaggregated"]:,.0f} ms with separate workers.
""")

# %%
def spread(values):
    """The least and the greatest of three repetitions: all that three can tell."""
    return f"{min(values):,.0f} to {max(values):,.0f}"


rows = [
    [
        name,
        spread([np.median(e.quiet) for e in scene[key]]),
        spread([e.during.max() for e in scene[key]]),
        spread([e.first_token_ms for e in scene[key]]),
    ]
    for key, name in NAMES.items()
]
show_table(
    rows,
    ["the prompt goes to", "usual gap (ms)", "longest gap (ms)", "TTFT of the prompt (ms)"],
    caption="Four streams and a prompt of 3,000 tokens: least to greatest of three repetitions",
    label="measured", source="SmolLM2-135M on vLLM", run=recorded("interference") / "chunk-4096",
)
apart = scene["disaggregated"]
before = np.median(np.concatenate([e.quiet for e in apart]))
meanwhile = np.median(np.concatenate([e.during for e in apart]))
print(f"separate workers: median gap {before:.0f} ms before, {meanwhile:.0f} ms during the prefill")

# %% [markdown]
"""
The dots are the token gaps of the four streams in one repetition, a panel for each setting; the dotted line marks the long prompt's first token. (It is the first repetition; the puzzle gave the longest gap of all three.) The *usual gap* is the median before the prompt comes. Three repetitions are few, so where two ranges overlap, we cannot say which setting is the better one.

What does this run show? For each statement: is it `"shown"`, `"not shown"`, or `"contradicted"` by the figures above?

| letter | statement |
|---|---|
| A | On this machine, smaller pieces made the longest gap shorter. |
| B | Separate workers kept the longest gap shorter than pieces of 128 tokens did. |
| C | The long prompt got its first token sooner from separate workers than when it was taken in one piece. |
| D | Separate workers let this machine answer more requests a second. |
| E | On two H100s, too, separate workers would keep the longest gap below that of small pieces. |
"""

# %% exercise="1.9"
# Exercise 1.9
verdicts = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
verdicts = {
    "A": "shown",
    "B": "shown",
    "C": "contradicted",
    "D": "not shown",
    "E": "not shown",
}
### END SOLUTION

# %% check="1.9"
check("1.9", verdicts)

# %% [markdown]
"""
Separate workers kept the longest gap below that of the smallest pieces, and nobody had to choose a size. The line under the table says why: while one core prefills, the gaps on the other are no longer than before. In this run the one does not disturb the other. The long prompt pays for it: it has one core where it had two, and its first token comes about twice as late as when it is taken in one piece. And the four readers pay too, a little and all the time: their usual gap, before any long prompt comes, is 51 to 73 ms with separate workers and 38 to 43 ms in one piece. Decode has one core there in place of two. That is one candidate; the upkeep of transfers on that core and the memory that two cores share are others, and this run does not tell them apart. In the last panel the dots drop a while after that token, when nothing in the scene changes. Why, this run does not tell; the machine has slower and faster seconds of its own, and three repetitions stand in the table for that reason.

An earlier recording of this scene told another story. The gaps on the decode core doubled during a prefill, and an explanation was at hand: two cores share a memory. Then somebody looked at which core each thread ran on. vLLM's NIXL connector had moved the computing thread of both workers to the same one. Lab L2 has the details; an equal budget on paper need not be one on the machine.

**What would change this answer?** The machine and the chunk. A step of 512 tokens takes a good part of a second on two cores. For Llama-3.1-8B on an H100 the floor of exercise 1.2 puts it at 7.3 ms (arithmetic on published peaks, no run), and with gaps like that chunked prefill may be all you need. Pieces far smaller than the ridge waste arithmetic, as you saw with point C of exercise 1.3. And whatever is given to decode is missing in prefill: with more cores the split need not be one and one.

## What isolation costs

Prefill and decode on workers of their own share no steps. Compared with the *one* worker that did both, that has a price with eight lines:

| word | what it means |
|---|---|
| `weights` | each worker keeps a full copy of the model |
| `runtime` | each runs its own engine, with its own memory for activations and graphs |
| `routing` | something must choose a worker of each kind for every request |
| `buffers` | cache space is reserved on both sides while the KV is on its way |
| `transfer` | the bytes have to cross a link |
| `hand-off` | both sides must agree that the right bytes arrived, and who owns them |
| `admission` | decode can be full when prefill is done, so finished prefills wait |
| `failures` | either side can die with the other holding half of a request |

A colleague proposes to split a worker in two:

> We pay for a second copy of the weights, so we need a GPU more. A proxy that knows both addresses picks one of each. Moving the cache takes 5 ms on our link. That is all there is.

Which of the eight has he **not** accounted for? Give a list of the words.
"""

# %% exercise="1.10"
# Exercise 1.10
not_accounted_for = [...]
### BEGIN SOLUTION
not_accounted_for = ["runtime", "buffers", "hand-off", "admission", "failures"]
### END SOLUTION

# %% check="1.10"
check("1.10", not_accounted_for)

# %% [markdown]
"""
**What would change this answer?** The opponent. Two complete workers that each do both phases also hold the weights twice and run two engines. Against *them*, the first two lines cancel, and so does the second GPU. Whoever compares one worker with two has measured the second GPU. Notebook 05 makes that comparison fair.

## Recap

1. Intensity is operations per byte; below a device's ridge memory is the limit, above it arithmetic.
2. Prefill shares each weight among all tokens of the prompt, decode only among the sequences of the batch. KV, in a model like this one, is shared by nobody.
3. So a short prompt can be memory-bound, and a large batch of short contexts compute-bound. Name batch, length and device.
4. TTFT, ITL, TPOT and E2E come from raw times. TPOT is a mean; the longest gap is what a reader feels.
5. A long prompt stops its neighbours' tokens. Smaller chunks bound the stop; separate workers share no steps at all, at eight costs. Which is better is a matter of measurement.

Your guesses from the start:
"""

# %%
gaps = spread([e.during.max() for e in scene["chunk-512"]])
guesses({"1.a": f"{gaps} ms, in three repetitions", "1.b": "it depends"})

# %% [markdown]
"""
## Two questions from before

Answer from memory, then open the line.

<details><summary>From 00: vLLM's documentation says that its disaggregated prefilling does not improve throughput. What, then, is it for?</summary>
To tune TTFT and ITL apart from each other, and to control the tail of ITL. You have now seen why the two are tied on a shared worker.
</details>

<details><summary>From 00: what has to stand on a figure of a run that was recorded last month?</summary>
Its label: measured, recorded on that date on that machine. It is never shown as if it had run now.
</details>
"""

# %% [markdown]
"""
**Next** is notebook 02: how many bytes the cache has that decode keeps reading.

## Sources

Accessed in November 2026.

- S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model*, CACM 52(4), 2009.
- NVIDIA data sheets of the H100 and H200 Tensor Core GPUs: peaks without sparsity, half of the printed figure with sparsity.
- A. Agrawal et al., *Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve*, OSDI 2024: chunked prefill.
- Y. Zhong et al., *DistServe*, OSDI 2024: interference between the phases, and separate placement.
- vLLM documentation, *Disaggregated Prefilling (experimental)* and *Optimization and Tuning* (chunked prefill), version 0.33.
- guidellm 0.8.1, source: a `time_per_output_token` that includes the time to the first token.
"""
