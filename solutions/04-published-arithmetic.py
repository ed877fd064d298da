# %% [markdown]
"""
# 04 · Reading published numbers

**Time** 50 minutes, with a good place to stop after 20. **Before this** notebooks 02 and 03. **You need** nothing else. **Run from the top**: each cell needs those above it.

At the end you can redo a paper's arithmetic with explicit units, say what a traffic figure promises and what it doesn't, and quote a speed-up with everything that belongs to it.
"""

# %%
from pdlab.course import *
from pdlab.measure import records
from pdlab.theory import kv, link, queueing

# %% [markdown]
"""
## A puzzle

Two statements about the same technique, in substance, each by people who know it well:

> *DistServe, a system that disaggregates prefill and decode, serves up to 7.4 times the requests of a system that does not.* (its authors, OSDI 2024)

> *Disaggregated prefilling does not improve throughput.* (vLLM's documentation on its own feature, version 0.33, marked experimental)

They count different things, as notebook 00 said. But if the work stays the same, where can a factor come from?

Commit to two guesses. For a small model DistServe prints what one GPU sustains within its targets. Cut eight such GPUs into a prefill pool and a decode pool: there are seven ways. And the paper estimates that KV transfers of OPT-66B need "90 Gbps". If you redo that from the model's config, where do you land?
"""

# %%
# In how many of the seven ways do the eight GPUs sustain more requests than uncut?  0 to 7
my_ways = ...
### BEGIN SOLUTION
my_ways = 7
### END SOLUTION
predict("4.a", my_ways)

# %%
# The traffic, recomputed, against the 90 Gbps in print: "below", "equal" or "above"
my_traffic = ...
### BEGIN SOLUTION
my_traffic = "equal"
### END SOLUTION
predict("4.b", my_traffic, choices=["below", "equal", "above"])

# %% [markdown]
"""
## One estimate, unit by unit

DistServe wants to know whether KV transfers are a problem. Its section 3.3 takes OPT-66B and requests of 512 tokens, and prints three figures: **"1.13 GB"** a request, **"11.3 GB"** a second at ten requests a second, and so **"90 Gbps"**.

OPT uses multi-head attention. There kv_heads × head_dim is the hidden size, so the formula of notebook 02 gets shorter:

    KV_bytes = 2 × layers × hidden_size × bytes_per_element × tokens

### Worked example

The smaller OPT-13B: 40 layers, hidden size 5,120, FP16, 512 tokens.
"""

# %%
opt_13b = 2 * 40 * 5120 * 2 * 512
print(f"{opt_13b:,} B = {opt_13b / 1e9:.3f} GB = {opt_13b / 2**30:.3f} GiB   [published, arithmetic]")

# %% [markdown]
"""
### Now you

**OPT-66B has 64 layers and a hidden size of 9,216, in FP16.** How many bytes exactly does one request of 512 tokens leave?
"""

# %% exercise="4.1"
# Exercise 4.1
one_layer_one_token = 2 * 9216 * 2  # bytes: K and V
request_bytes = ...
### BEGIN SOLUTION
request_bytes = one_layer_one_token * 64 * 512
### END SOLUTION

# %% check="4.1"
check("4.1", request_bytes)

# %% [markdown]
"""
Ten such requests arrive each second. What is the average KV traffic in **Gbit/s**, with 1 Gbit = 10⁹ bits as networks count, to two decimals? Protocol overhead not included.
"""

# %% exercise="4.2"
# Exercise 4.2
traffic_gbit_s = ...
### BEGIN SOLUTION
traffic_gbit_s = request_bytes * 10 * 8 / 1e9
### END SOLUTION

# %% check="4.2"
check("4.2", traffic_gbit_s)

# %% tags=["reveals"]
size = kv.kv_bytes(kv.from_config(kv.load("opt-66b")), 512, "float16")
print("                in print     with explicit units")
print(f"one request     1.13 GB      {size / 2**30:.3f} GiB, which is {size / 1e9:.3f} GB")
print(f"ten a second    11.3 GB      {10 * size / 2**30:.2f} GiB, which is {10 * size / 1e9:.2f} GB")
print(f"on the wire     90 Gbps      {link.traffic_gbit_s(size, 10):.2f} Gbit/s, without protocol overhead")

# %% [markdown]
"""
So the "GB" in print are GiB. Then 11.3 × 8 = 90.4, and the GiB have become bits of a network that counts in powers of ten. The estimate is 7 % low. For the authors' purpose, *is this a problem?*, 90 and 97 say the same. For somebody who buys a 100 Gbit/s card on the strength of it, they do not.

**What would change this answer?** The model. OPT keeps K and V for each of its 72 heads. Llama-3.1-70B, of much the same size, keeps 8 heads in 80 layers: 327,680 B a token in place of 2,359,296. The same traffic is 13.4 Gbit/s.

## What an average promises

96.64 Gbit/s is an *average*. It says what leaves in a long time, divided by the time. Here are five sentences that people attach to it. Which follow from 96.64 Gbit/s at ten requests a second: `"follows"`, or `"does not follow"`?

| letter | sentence |
|---|---|
| A | A network of 25 Gbit/s between the nodes cannot carry this traffic. |
| B | A link of 100 Gbit/s is enough. |
| C | Each request's hand-off takes at most 100 ms, a tenth of a second. |
| D | Over a link of 800 Gbit/s the KV traffic takes 12 % of the nominal rate on average. |
| E | With half as many requests a second, each hand-off takes half as long. |
"""

# %% exercise="4.3"
# Exercise 4.3
claims = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
claims = {
    "A": "follows",
    "B": "does not follow",
    "C": "does not follow",
    "D": "follows",
    "E": "does not follow",
}
### END SOLUTION

# %% check="4.3"
check("4.3", claims)

# %% [markdown]
"""
How bad can "enough on average" be? Think of the link as a counter with one clerk. Each request takes the same time S to send. Requests come when they like, R a second on average. When one comes while another is being sent, it waits. This queue has a name, *M/D/1*: M for random arrivals, D for a service time that is always the same, 1 for one server. Its mean wait has a formula:

    mean_wait = R × S² / (2 × (1 − R × S))

| symbol | unit | what it is |
|---|---|---|
| R | 1/s | arrivals, at random times (Poisson) |
| S | s | time to serve one; the same for all |
| R × S | – | the *load*, the share of time that the server is busy |

In the head: S = 1 s and R = 0.5 a second make a load of one half. The wait is 0.5 / (2 × 0.5) = 0.5 s, half a service time. At a load of 0.9 it is 4.5 service times. At 1 it never ends.

Write it as a function. A full queue (load 1 or more) returns `float("inf")`.
"""

# %% exercise="4.4"
# Exercise 4.4
def mean_wait_s(rate_rps, service_s):
    """Mean wait in seconds before service starts; infinite when the server is full."""
    ...


### BEGIN SOLUTION
def mean_wait_s(rate_rps, service_s):
    """Mean wait in seconds before service starts; infinite when the server is full."""
    load = rate_rps * service_s
    if load >= 1:
        return float("inf")
    return rate_rps * service_s**2 / (2 * (1 - load))
### END SOLUTION

# %% check="4.4"
check("4.4", mean_wait_s)

# %% tags=["reveals"]
print("OPT-66B, 512 tokens, ten requests/s at random times, nominal rates   [hypothetical]")
for gbit_s in (100, 200, 400, 800):
    send_s = size * 8 / (gbit_s * 1e9)
    wait_s = queueing.md1_mean_wait_s(10, send_s)
    print(f"{gbit_s} Gbit/s: one takes {send_s * 1000:4.1f} ms, "
          f"link busy {100 * 10 * send_s:2.0f} %, mean wait {wait_s * 1000:7,.1f} ms")

# %% [markdown]
"""
A link of 100 Gbit/s carries the traffic, and a request waits **1.4 seconds** on average before its first byte moves. Nothing is broken. It is 97 % busy, that is all. *Enough on average* and *in time* are two claims.

What did DistServe do about it? Its test bed had 25 Gbit/s between nodes, a quarter of the average it computed. So it did not use that network for KV. It put the matching stages of prefill and decode on the same node, where NVLink peaks at 600 GB/s. **Published:** over 95 % of transfers then took less than 30 ms, and with OPT-175B all of them together came to less than 0.1 % of the total latency. The traffic figure did not say "it will be fine". It said where the phases have to stand.

## Quoting a speed-up

A ratio has a numerator, a denominator, a metric and a condition. The 7.4 has all four, in the paper:

| part | in the paper |
|---|---|
| metric | request rate per GPU that the system sustains |
| condition | more than 90 % of requests meet the TTFT **and** the TPOT target |
| baseline | DeepSpeed-MII, the engine with chunked prefill |
| rank | the *maximum*: chatbot requests, from 1.6 to 7.4 over the models tested |

Against vLLM, on the same chatbot work, the range is 2.0 to 4.6. The paper prints these ratios; the rates behind them are points in its figures. So we quote the ratios as theirs, and calculate nothing with them.
"""

# %%
ax = figure(
    "7.4 is one end of one range, against one baseline",
    label="published", source="DistServe, OSDI 2024, section 6.2: OPT, A100, over 90 % within both targets",
    xlabel="request rate per GPU, as a multiple of the baseline's", size=(8, 4.2),
)
RANGES = [  # from the last row up
    ("summarisation, against DeepSpeed-MII", 1.8, 1.8, "#0072B2", "o"),
    ("summarisation, against vLLM", 4.3, 4.3, "#D55E00", "s"),
    ("code completion, against DeepSpeed-MII", 1.6, 1.6, "#0072B2", "o"),
    ("code completion, against vLLM", 5.7, 5.7, "#D55E00", "s"),
    ("chatbot, against DeepSpeed-MII", 1.6, 7.4, "#0072B2", "o"),
    ("chatbot, against vLLM", 2.0, 4.6, "#D55E00", "s"),
]
for row, (name, low, high, colour, marker) in enumerate(RANGES):
    ax.plot([low, high], [row, row], color=colour, marker=marker, markersize=9, linewidth=3)
    name_at(ax, high, row, f"{low} to {high}" if low < high else f"{low}", colour)
ax.axvline(1, color="#000000", linewidth=1)
name_at(ax, 1, 5.75, "the baseline itself", dx=4)
ax.set(xlim=(0.5, 8.4), ylim=(-0.6, 6.2))
ax.set_yticks(range(6), [name for name, *_ in RANGES])
show_figure(ax, alt=(
    "Six ranges of DistServe's request rate per GPU as a multiple of a baseline. Chatbot against vLLM "
    "2.0 to 4.6, against DeepSpeed-MII 1.6 to 7.4. Code completion 5.7 and 1.6. Summarisation 4.3 and 1.8. "
    "The 7.4 is the upper end of the chatbot range against DeepSpeed-MII."
))

# %% [markdown]
"""
Five sentences from the wild (made up, and you have read each of them). What is wrong with each: `"metric"`, `"condition missing"`, `"baseline missing"`, `"baseline wrong"`, or `"complete"`?

| letter | sentence |
|---|---|
| A | DistServe makes generation 7.4 times faster than DeepSpeed-MII, with 90 % of requests inside both targets. |
| B | DistServe sustains up to 7.4 times the request rate per GPU of DeepSpeed-MII. |
| C | Up to 7.4 times the request rate per GPU, with over 90 % of requests inside both the TTFT and the TPOT target. |
| D | Compared with vLLM, DistServe sustains up to 7.4 times the request rate per GPU with over 90 % of requests inside both targets. |
| E | On chatbot requests to OPT models, DistServe sustained up to 7.4 times the request rate per GPU of DeepSpeed-MII, each with over 90 % of requests inside both targets (OSDI 2024). |
"""

# %% exercise="4.5"
# Exercise 4.5
quotes = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
quotes = {
    "A": "metric",
    "B": "condition missing",
    "C": "baseline missing",
    "D": "baseline wrong",
    "E": "complete",
}
### END SOLUTION

# %% check="4.5"
check("4.5", quotes)

# %% [markdown]
"""
**A good place to stop**, after 20 of the 50 minutes. You can redo an estimate and quote a speed-up whole. Ahead: how both statements of the puzzle can be true, what was compared with what, and the queue once more. When you come back, click this text and choose *Run*, *Run All Above Selected Cell*.

## How both statements can be true

The paper opens with a small calculation, and it settles the puzzle. A 13B model, A100 GPUs, a workload of long inputs and short answers. **Published**, and rounded there, with 90 % of requests inside both targets:

| one GPU that does | sustains |
|---|---|
| both phases | 1.6 requests/s |
| prefill only | 5.6 requests/s |
| decode only | 10 requests/s |

Two prefill GPUs feed one decode GPU: 10 requests a second on three GPUs, so 3.3 per GPU, 2.1 times the 1.6. (An ideal, as the authors say: the hand-off is free in it.)

A chain is as quick as its slower stage, and every GPU counts. Write that down.
"""

# %% exercise="4.6"
# Exercise 4.6
def rps_per_gpu(prefill_gpus, decode_gpus, prefill_rps, decode_rps):
    """Requests a second and GPU of two pools; `..._rps` is what one GPU sustains alone in a phase."""
    ...


### BEGIN SOLUTION
def rps_per_gpu(prefill_gpus, decode_gpus, prefill_rps, decode_rps):
    """Requests a second and GPU of two pools; `..._rps` is what one GPU sustains alone in a phase."""
    return min(prefill_gpus * prefill_rps, decode_gpus * decode_rps) / (prefill_gpus + decode_gpus)
### END SOLUTION

# %% check="4.6"
check("4.6", rps_per_gpu)

# %% [markdown]
"""
You have **eight** of these GPUs, and every one works in one phase. Which split sustains the most? Give the two counts and the requests a second per GPU.
"""

# %% exercise="4.7"
# Exercise 4.7
best_split = {"prefill GPUs": ..., "decode GPUs": ..., "rps per GPU": ...}
### BEGIN SOLUTION
best = max(range(1, 8), key=lambda p: rps_per_gpu(p, 8 - p, 5.6, 10))
best_split = {
    "prefill GPUs": best,
    "decode GPUs": 8 - best,
    "rps per GPU": rps_per_gpu(best, 8 - best, 5.6, 10),
}
### END SOLUTION

# %% check="4.7"
check("4.7", best_split)

# %% tags=["reveals"]
splits = list(range(1, 8))
per_gpu = [min(5.6 * p, 10 * (8 - p)) / 8 for p in splits]
ax = figure(
    "Three of seven splits lose to not splitting at all",
    label="hypothetical", source="published rates (DistServe, figure 1: 13B, A100); eight GPUs and a free hand-off assumed",
    xlabel="GPUs in prefill, of eight", ylabel="requests/s per GPU", size=(8, 4.6),
)
ax.plot(splits, per_gpu, color="#0072B2", marker="o", markersize=9, linewidth=2)
for p, value in zip(splits, per_gpu):
    name_at(ax, p, value, f"{value:g}", "#0072B2", dx=8, dy=-11 if p < 5 else 9)
ax.axhline(1.6, color="#D55E00", linestyle=(0, (5, 2)))
name_at(ax, 3.1, 1.6, "both phases on each GPU: 1.6", "#D55E00", dx=0, dy=-11)
ax.set(xlim=(0.6, 7.8), ylim=(0, 4.2), xticks=splits)
show_figure(ax, alt=(
    "Requests a second per GPU against the number of prefill GPUs of eight: 0.7, 1.4, 2.1, 2.8, 3.5, "
    "2.5, 1.25 for one to seven. Without splitting it is 1.6. The splits 1:7, 2:6 and 7:1 lie below "
    "that line; 5:3 reaches 3.5."
))

# %% [markdown]
"""
The same eight GPUs reach 3.5 or 0.7, against 1.6 without a split. It is the split that decides, and the best one moves with the lengths of prompts and answers.

One more guess, before the explanation. Imagine a *single* GPU that does both phases in turn, one request after the other, with no interference between them and no cost of switching. What would it sustain, in requests a second?
"""

# %%
# requests a second of one GPU
my_ideal = ...
### BEGIN SOLUTION
my_ideal = 2.5
### END SOLUTION
predict("4.c", my_ideal)

# %%
seconds_a_request = 1 / 5.6 + 1 / 10
print(f"prefill 1/5.6 s and decode 1/10 s of GPU time: {seconds_a_request:.4f} s a request")
print(f"so {1 / seconds_a_request:.2f} requests/s   [hypothetical]")

# %% [markdown]
"""
3.59. The best split of eight GPUs reaches 3.5 per GPU, and no split of any number gets past 3.59. **In this sum separating the phases creates no throughput:** same GPUs, same parallelism, so a request is the same work wherever it is done, and now there is a transfer besides.

Give each phase a parallelism, a batch or a GPU of its own, and the work does change, for better or worse. Measure that, too.

Then where does 3.5 against 1.6 come from? From the 1.6. A GPU that does both phases cannot take the load it has the muscle for: a prefill arrives, all decodes wait, and TPOT targets break. To keep 90 % of requests inside, it must stop at 1.6. Disaggregation removes the interference, so the same muscle can be used *within the targets*.

vLLM's documentation says what its feature is for: setting TTFT and ITL apart from each other, and controlling the tail of ITL. It says that it does not improve throughput. It says too that chunked prefill, with a well chosen chunk, can reach the same tail; but the right chunk is hard to find, so it calls disaggregation the much more reliable way.

DistServe measures *requests per second and GPU within latency targets*. And for work without such targets its own section 7 says that its effectiveness may suffer, and that chunked prefill may be preferred. The two agree.

(An idealisation is left in our arithmetic: 5.6 and 10 are themselves rates within a target, measured a phase at a time.)

So before you disaggregate, ask which limit holds you back. For each deployment: is a trial `"worth measuring"`, or is there `"no case"`?

| letter | deployment |
|---|---|
| A | Ten million documents to summarise by Monday. Nobody waits for any single one. |
| B | A chat service on 64 GPUs with long prompts. Its TPOT target breaks whenever a long prompt arrives; the chunk size has been tuned. |
| C | One GPU under a desk. |
| D | A chat service at a twentieth of its capacity. All targets are met, and the cost is fixed by a contract. |
| E | A coding assistant on 32 GPUs that misses its TTFT and its TPOT target at peak hours. Prefill wants more tensor parallelism than decode. |
"""

# %% exercise="4.8"
# Exercise 4.8
trials = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
trials = {
    "A": "no case",
    "B": "worth measuring",
    "C": "no case",
    "D": "no case",
    "E": "worth measuring",
}
### END SOLUTION

# %% check="4.8"
check("4.8", trials)

# %% [markdown]
"""
**What would change this answer?** A target. Give A a deadline per document and load enough to threaten it, and it becomes a case. And note the words: *worth measuring*. Nothing here says that it will win.

## What was compared with what

Look at the number of GPUs in one unit of each system. **Published:** DistServe's appendix B and section 6.1.
"""

# %%
show_table(
    [["OPT-13B", "2 + 1", 3, 1], ["OPT-66B", "4 + 4", 8, 4], ["OPT-175B", "9 + 12", 21, 8]],
    ["model", "DistServe: prefill + decode", "GPUs, DistServe", "GPUs, vLLM"],
    label="published", source="DistServe, OSDI 2024, table of placements and section 6.1; chatbot",
    caption="GPUs in one unit of each system",
)

# %% [markdown]
"""
21 against 8. That would be absurd as a race, and it is not one: every rate is divided by the GPUs that gave it. *Per GPU* makes such a comparison possible. Still, ask what the division assumes.

- **It can be scaled.** Three GPUs at 2.0 requests a second each are one purchase; a third of them is not for sale.
- **Units pool.** Twenty-one GPUs behind one queue ride out a burst that eight could not, disaggregated or not.
- **The opponent was tuned.** The paper searches vLLM's parallelism too, and finds its default best for OPT-66B *(in the paper's own simulator)*. The engine with chunked prefill was another one, DeepSpeed-MII. An engine of today does both; so you tune its chunk before you compare, as lab L2 does.

A later study, arXiv 2601.08833, gives both sides the same number of GPUs, as notebook 07 does. It finds that the gain is not guaranteed, and depends on the load and on what carries the KV. NVIDIA's, arXiv 2506.05508, evaluates hundreds of thousands of designs, and finds disaggregation most useful for traffic heavy in prefill and for larger models, if the rates of the pools are kept matched. DeepSeek-V3, a mixture of many small *experts*, was deployed with 32 GPUs in a unit of prefill and 320 in one of decode. *(All published.)* This course has no run of such a model, and says nothing about it.

A slide says: *"OPT-175B: DistServe 8.4 requests/s, vLLM 1.6 requests/s"*. The rates are made up. The units are those of the table: **21 and 8 GPUs**. What is the ratio of the rates **per GPU**, DistServe over vLLM?
"""

# %% exercise="4.9"
# Exercise 4.9
ratio_per_gpu = ...
### BEGIN SOLUTION
ratio_per_gpu = (8.4 / 21) / (1.6 / 8)
### END SOLUTION

# %% check="4.9"
check("4.9", ratio_per_gpu)

# %% [markdown]
"""
## Placing prefill: the same queue again

You have met M/D/1 at the link. DistServe uses it for prefill: prompts of one length take D seconds each, arrive at random, and are served one at a time. Now give prefill two GPUs. There are two ways to use them.

- **Inter-operator**, a pipeline: each GPU has half the layers. One request still takes D. But the next may enter after D / 2.
- **Intra-operator**, tensor parallelism: both work on each layer. One request takes D / K. The factor K lies between 1 and 2, as the two have to talk.

In the paper's equations 1 to 3, R being the rate, the mean TTFT is

    one GPU          D + R·D² / (2·(1 − R·D))
    inter-operator   D + R·D² / (4·(2 − R·D))
    intra-operator   D/K + R·D² / (2·K·(K − R·D))

The first term is work, the second is waiting. Which of the two does each way attack?
"""

# %%
D_S = 0.2
ax = figure(
    "Tensor parallelism is quicker until the queue takes over; then the pipeline wins",
    label="hypothetical", source="DistServe's equations 2 and 3; prefill of 200 ms on one GPU",
    xlabel="requests/s", ylabel="mean TTFT (ms)", size=(8, 4.8),
)
CURVES = [  # name, form, last rate drawn, colour, dash, where the name stands
    ("pipeline", lambda r: queueing.mean_ttft_inter_s(r, D_S), 78, "#0072B2", "-", 9),
    ("tensor, K = 1.6", lambda r: queueing.mean_ttft_intra_s(r, D_S, 1.6), 70, "#D55E00", "--", 9),
    ("tensor, K = 1.3", lambda r: queueing.mean_ttft_intra_s(r, D_S, 1.3), 55, "#009E73", ":", -9),
]
for name, form, last, colour, dash, dx in CURVES:
    rates = [i / 10 for i in range(1, last + 1)]
    ttft_ms = [form(rate) * 1000 for rate in rates]
    ax.plot(rates, ttft_ms, color=colour, linestyle=dash)
    name_at(ax, rates[-1], ttft_ms[-1], name, colour, dx=dx)
ax.set(xlim=(0, 9.2), ylim=(0, 640))
show_figure(ax, alt=(
    "Mean TTFT against request rate for a prefill of 200 ms on one GPU, spread over two. At low "
    "rates tensor parallelism with K = 1.6 takes 125 ms, with K = 1.3 154 ms, the pipeline 200 ms. "
    "The tensor curves rise steeply and cross the pipeline's: K = 1.3 at 3.1 requests/s, K = 1.6 at 5.5."
))

# %%
for speedup in (1.6, 1.3):
    cross = queueing.crossover_rate_rps(D_S, speedup)
    print(f"K = {speedup}: the two ways are level at {cross:.2f} requests/s   [hypothetical]")

# %% [markdown]
"""
Predict. Two ways are level at some rate. Starting there, one thing changes. Which way is now the better one, `"intra"` or `"inter"`?
"""

# %% exercise="4.10"
# Exercise 4.10
better = {
    "the rate falls": ...,
    "the rate rises": ...,
    "K falls": ...,
    "each prompt gets shorter": ...,
}
### BEGIN SOLUTION
better = {
    "the rate falls": "intra",
    "the rate rises": "inter",
    "K falls": "inter",
    "each prompt gets shorter": "intra",
}
### END SOLUTION

# %% check="4.10"
check("4.10", better)

# %% [markdown]
"""
**What would change this answer?** Prompts of many lengths. Then the service time is no longer the same for all. The wait grows, and in a pipeline one stage stands still while the other is busy with a long prompt. The paper says so, and searches placements by simulation instead.

## The form beside a simulator

A formula for one queue at a time is a good servant if you check on it. AISimulate, the simulator of notebook 07, has run Llama-3.1-70B on 16 H100: prefill on one TP8 pool, decode on another, every prompt 2,000 tokens. In all its runs the prefill pool was busy for **84.07 ms a request**, at any rate *(simulated)*. A server with one service time and random arrivals: that is M/D/1.

At which offered rate, in requests a second, is that prefill pool full? Two decimals.
"""

# %% exercise="4.11"
# Exercise 4.11
full_at_rps = ...
### BEGIN SOLUTION
full_at_rps = 1 / 0.08407
### END SOLUTION

# %% check="4.11"
check("4.11", full_at_rps)

# %%
RUNS = kv.MODELS_DIR.parent / "runs" / "sim-reference" / "main"
print("mean time from arrival to the end of prefill: Llama-3.1-70B, one TP8 prefill pool of H100")
print("requests/s  load  M/D/1 form [hypothetical]  AISimulate [simulated]")
for rate in (1, 2, 4, 8, 10, 12):
    run = records.read_run(RUNS / f"disaggregated-cold-{rate}rps").table.to_pandas()
    run = run[~run.warmup]
    prefill_end_ns = run.stage_ns.map(lambda stages: dict(stages)["prefill_end"])
    simulated_ms = (prefill_end_ns - run.scheduled_ns).mean() / 1e6
    form_ms = queueing.md1_mean_ttft_s(rate, 0.08407) * 1000
    form = f"{form_ms:.0f} ms" if form_ms < 1e6 else "no end"
    print(f"{rate:>10}  {rate * 0.08407:>4.2f}  {form:>25}  {simulated_ms:>19,.0f} ms")

# %% [markdown]
"""
One line of algebra and a simulator of thousands of lines agree within 4 % up to a load of 0.67. At 0.84 they are 10 % apart: so near to full, one burst more or less weighs heavily in the mean of a single run. Past a load of 1 the form says *never*, and the simulator shows how far the queue had grown when its trace ended. From there the number depends on how long you look.

Neither of them is a measurement. But two that were built apart and agree are worth more than either.

## Recap

1. Redo the arithmetic with explicit units: "1.13 GB" is 1.125 GiB or 1.208 GB, and "90 Gbps" is 96.64 Gbit/s.
2. An average rate promises nothing about one request: at 96.6 % busy, the mean wait is 14 sends long.
3. 7.4 is a maximum, of request rate per GPU, against DeepSpeed-MII, with over 90 % of requests inside TTFT and TPOT.
4. With the same GPUs and the same parallelism, separating the phases creates no throughput; it makes capacity usable within targets, if the split fits. vLLM and DistServe agree.
5. Divide by GPUs, ask whether the opponent was tuned, and use one queue formula before you use a simulator.

Your guesses from the start:
"""

# %%
guesses({"4.a": "4 of the 7 ways", "4.b": "above: 96.64 Gbit/s", "4.c": "3.59 requests/s"})

# %% [markdown]
"""
## Two questions from before

**From 03.** A team measures its link: *"the whole hand-off, setup included, moved 1 GB in 50 ms"*. They plan with 20 GB/s and 2 ms of setup. What is wrong: `"peak"`, `"prefix"`, `"setup twice"`, `"setup forgotten"`, or `"nothing"`?
"""

# %% exercise="4.12"
# Exercise 4.12
fault = ...
### BEGIN SOLUTION
fault = "setup twice"
### END SOLUTION

# %% check="4.12"
check("4.12", fault)

# %% [markdown]
"""
**From 02.** Had OPT-66B been built with 8 KV heads instead of 72, and everything else the same, its traffic in exercise 4.2 would be smaller by which factor?
"""

# %% exercise="4.13"
# Exercise 4.13
smaller_by = ...
### BEGIN SOLUTION
smaller_by = 72 / 8
### END SOLUTION

# %% check="4.13"
check("4.13", smaller_by)

# %% [markdown]
"""
**Next** is notebook 05: where all these pieces stand in a cluster, and what the whole bill looks like.

## Sources

Accessed in November 2026.

- Y. Zhong et al., *DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large Language Model Serving*, OSDI 2024: figure 1 and section 1 (1.6, 5.6 and 10 requests/s), 3.1 (queueing forms), 3.3 (1.13 GB, 90 Gbps), 6.1 and 6.2 (test bed, 7.4 and the other ratios), 6.3 (transfer times), 7 (where it may not help), appendix B (placements).
- OPT-66B's published config: 64 layers, 72 heads, hidden size 9,216.
- vLLM documentation, *Disaggregated Prefilling (experimental)*, version 0.33.
- J. Li et al., *Revisiting Disaggregated Large Language Model Serving for Performance and Energy Implications*, arXiv 2601.08833: equal GPU counts on both sides.
- T. Mitra et al., *Beyond the Buzz: A Pragmatic Take on Inference Disaggregation*, arXiv 2506.05508.
- DeepSeek-AI, *DeepSeek-V3 Technical Report*, arXiv 2412.19437, section 3.4: 32 and 320 GPUs.
- AISimulate 0.13 (pre-release of October 2026); the runs are in `data/runs/sim-reference`, with their provenance.
"""
