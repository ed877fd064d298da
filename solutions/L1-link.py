# %% [markdown]
"""
# L1 · What a link gives you

**Time** 60 minutes. **Before this** notebooks 02 and 03: bytes in whole blocks, and the hand-off floor. **You need** nothing but this machine. **Run from the top**: each cell needs those above it.

By default the lab shows a recorded run. After `make live-env`, start JupyterLab with `PDLAB_LIVE=1` in its environment, and the same cells measure here; that takes about four minutes.

Runs of your own, from another machine, open here as well: `pdlab record link --out DIR/link` and `pdlab record nixl-bytes --out DIR/nixl-bytes` there, then start JupyterLab with `PDLAB_RUN_L1=DIR`. Tables and checks are then those of your runs. The text between them goes on telling of the recorded ones.

At the end you can measure an effective bandwidth that deserves the name, put it into notebook 03's formula, and prove by three observers that a transfer between two real servers moved the bytes you predicted.

## Claim card

| part | in this lab |
|---|---|
| **claim** | "A link has a bandwidth. Measure it once, divide the bytes by it, and you have the time of a hand-off." |
| **expected** | you say so in a minute, before anything is measured |
| **a run would prove** | how fast NIXL moves bytes between two processes of one machine, at sixteen sizes and over two transports; and whether a real transfer has the bytes of the formula and the time of the division |
| **a run would not prove** | anything about a network card, a switch or GPU memory: here both ends share one machine. Nothing about a link that is busy serving. Nothing about tails: fifteen transfers of a size give a median and a spread, but no P99. |
"""

# %%
import json
import statistics

from pdlab.course import *
from pdlab.course import lab_sums
from pdlab.live import ledger, link_record
from pdlab.theory import kv, link

own = own_link("L1")  # the folder that PDLAB_RUN_L1 names, if it names one

# %% [markdown]
"""
## A puzzle

Two processes run on one machine. One of them owns memory, the other reads it through NIXL, as a decode server reads the KV of its prefill server. No cable, no switch, no other user.

You time one message of 4 KiB, divide, and get a figure in GB/s. You time one of 1 MiB and get a figure ten times as high. You time one of 128 MiB and it is lower again. The link has not changed between the three. Which of them is *the* bandwidth?

Commit to two guesses.
"""

# %%
# GB/s that NIXL reaches here with messages of 128 MiB over shared memory.
# A number; within a factor of two is a good guess.
large_gb_s = ...
### BEGIN SOLUTION
large_gb_s = 5
### END SOLUTION
predict("L1.a", large_gb_s)

# %%
# How many times as long does the same message take over TCP, on the same machine?
tcp_times = ...
### BEGIN SOLUTION
tcp_times = 4
### END SOLUTION
predict("L1.b", tcp_times)

# %% [markdown]
"""
## One message

The next cell gets the run, recorded or live, and says which. In it, every message was zeroed at the receiver first, timed from the moment it was posted until NIXL said it was done, and then compared with the sender's bytes.
"""

# %%
run = lab_run("link", link_record.record, own=own and own / "link")

# %%
measured = link_record.read(run)
shm, tcp = (measured[transport][0] for transport in ("shm", "tcp"))
sizes = {m.size_bytes for m in shm}
print(f"{len(shm)} messages over shared memory, {len(tcp)} over TCP, {len(sizes)} sizes; every byte checked")

# %% [markdown]
"""
Here is one of them. Not the fastest: of its size, the one in the middle.
"""

# %%
of_16_mib = sorted((m for m in shm if m.size_bytes == 1 << 24), key=lambda m: m.transfer_ns)
one = of_16_mib[len(of_16_mib) // 2]
print(f"{one.size_bytes:,} bytes in {one.transfer_ns:,} ns over shared memory   [measured]")

# %% [markdown]
"""
What is its effective bandwidth, in **GB/s**, that is 10⁹ bytes a second? A text with another unit is fine too.
"""

# %% exercise="L1.1"
# Exercise L1.1
effective = ...
### BEGIN SOLUTION
effective = one.size_bytes / one.transfer_ns
### END SOLUTION

# %% check="L1.1"
check("L1.1", effective, expected=one.gb_s)

# %% [markdown]
"""
A byte in a nanosecond is a GB/s, so no power of ten is needed. Keep that: it makes such figures easy to check in the head.

## Many messages

One time is an anecdote. Fifteen of the same size have a middle and a spread. The middle is the *median*, since a single pause of the operating system can ruin a mean and barely moves a median.

There is a trap on the way: the mean of the rates, the total of bytes over the total of time, and the median of the rates are three different numbers. The course reports the **median of the single rates**. Write it. `messages` is a list of (bytes, nanoseconds); the result is in GB/s.
"""

# %% exercise="L1.2"
# Exercise L1.2
def median_gb_s(messages):
    """The median of the single effective bandwidths, in GB/s."""
    ...


### BEGIN SOLUTION
def median_gb_s(messages):
    """The median of the single effective bandwidths, in GB/s."""
    return statistics.median(size / ns for size, ns in messages)
### END SOLUTION

# %% check="L1.2"
check("L1.2", median_gb_s)

# %% [markdown]
"""
Now all sizes, both transports. Points are single messages, lines join the medians.
"""

# %%
reports = {transport: measured[transport][1] for transport in ("shm", "tcp")}
NAMES = {"shm": "shared memory", "tcp": "TCP over loopback"}
ax = figure(
    "The smallest messages get the least from either transport",
    label="measured", source="NIXL over UCX, two processes", run=run,
    xlabel="size of the message", ylabel="effective bandwidth (GB/s)", xlog=True, ylog=True,
)
for index, (transport, report) in enumerate(reports.items()):
    messages = measured[transport][0]
    ax.plot([m.size_bytes for m in messages], [m.gb_s for m in messages], linestyle="", markersize=3,
            alpha=0.35, marker="os"[index], color=["#0072B2", "#D55E00"][index])
    line(ax, [s.size_bytes for s in report.sizes], [s.gb_s for s in report.sizes], NAMES[transport],
         color=["#0072B2", "#D55E00"][index], marker="os"[index])
ax.set_xticks([2**12, 2**16, 2**20, 2**24, 2**27], ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "128 MiB"])
last = {transport: report.sizes[-1] for transport, report in reports.items()}
first = {transport: report.sizes[0] for transport, report in reports.items()}
show_figure(ax, alt=f"""
    Effective bandwidth against message size, from 4 KiB to 128 MiB, for two transports.
    Shared memory: {first['shm'].gb_s:.2f} GB/s at 4 KiB, at most {reports['shm'].peak_gb_s:.2f},
    and {last['shm'].gb_s:.2f} at 128 MiB. TCP: {first['tcp'].gb_s:.3f} GB/s at 4 KiB, at most
    {reports['tcp'].peak_gb_s:.2f}, and {last['tcp'].gb_s:.2f} at 128 MiB.
""")

# %%
rows = [
    [f"{a.size_bytes:,}", f"{a.transfer_ms:.4f}", f"{a.gb_s:.2f}", f"{a.gb_s_low:.2f} to {a.gb_s_high:.2f}",
     f"{b.transfer_ms:.4f}", f"{b.gb_s:.3f}", f"{b.gb_s_low:.3f} to {b.gb_s_high:.3f}"]
    for a, b in zip(reports["shm"].sizes, reports["tcp"].sizes)
]
show_table(
    rows,
    ["bytes", "memory: ms", "memory: GB/s", "memory: middle half", "TCP: ms", "TCP: GB/s", "TCP: middle half"],
    caption="Median time and bandwidth of fifteen messages of each size; memory is shared memory",
    label="measured", source="NIXL over UCX, two processes", run=run,
)

# %% [markdown]
"""
Read the table from the top; a *middle half*, in GB/s, leaves out the lowest and the highest quarter of the fifteen rates. Over shared memory a 4 KiB message takes about as long as one of 16 KiB: at that size nearly all of the time is the start, finding the peer and posting the work, and the bytes ride along. Further down the time grows with the bytes.

At the bottom another effect may show: messages that no longer fit into the processor's caches have to come from memory, and the bandwidth falls again. In the recorded run, over shared memory, a message of 256 KiB gets more than four times the rate of one of 128 MiB. The *peak* of such a curve is a property of the cache. For a hand-off we begin at the right-hand end; *Back into the formula*, below, says why that is only a beginning.

Somewhere on the way up a message gets half of the rate that the largest one gets. That size is the *half-bandwidth point*, and a link is better described by two numbers, the rate of large messages and this point, than by either alone.

Find the half-bandwidth point over **TCP** in the table. Between which two tested sizes does the median first pass half of the median at the largest size? Give both sizes in bytes, the smaller first.
"""

# %% exercise="L1.3"
# Exercise L1.3
half_between = [..., ...]
### BEGIN SOLUTION
sizes = reports["tcp"].sizes
half = sizes[-1].gb_s / 2
reached = next(i for i, s in enumerate(sizes) if s.gb_s >= half)
half_between = [sizes[reached - 1].size_bytes, sizes[reached].size_bytes]
### END SOLUTION

# %% check="L1.3"
tested = reports["tcp"].sizes
passed = next(i for i, s in enumerate(tested) if s.gb_s >= tested[-1].gb_s / 2)
check("L1.3", half_between, expected=[s.size_bytes for s in tested[max(passed, 1) - 1 : max(passed, 1) + 1]])

# %% [markdown]
"""
What does this run show? For each statement: `"shown"`, `"contradicted"` or `"not shown"`.

| letter | statement |
|---|---|
| A | On this machine, a large message takes longer over TCP than over shared memory. |
| B | One small message, timed well, tells the bandwidth of the link. |
| C | Over a 100 Gbit/s network, NIXL would reach what it reaches here over TCP. |
| D | Of a thousand transfers of 16 MiB over shared memory, at most ten would take more than twice the median. |
"""

# %% exercise="L1.4"
# Exercise L1.4
statements = {"A": ..., "B": ..., "C": ..., "D": ...}
### BEGIN SOLUTION
statements = {"A": "shown", "B": "contradicted", "C": "not shown", "D": "not shown"}
### END SOLUTION

# %% check="L1.4"
at_largest = [reports[transport].sizes[-1].transfer_ms for transport in ("tcp", "shm")]
check("L1.4", statements, expected={
    "A": "shown" if at_largest[0] > at_largest[1] else "contradicted",
    "B": lab_sums.one_bandwidth(*([s.gb_s for s in report.sizes] for report in reports.values())),
    "C": "not shown", "D": "not shown",
})

# %% [markdown]
"""
## Back into the formula

Notebook 03 had three assumed links. Now there is a measured one. Which point of its curve goes in as `effective_gb_s`? A prompt's KV is no single message: vLLM hands it to NIXL in pieces, one for each block of each layer, and NIXL joins those that lie side by side. The rate at the largest size, where the start no longer counts, is a fair choice and no more. Further down you see what it is worth.

    handoff_floor_ms = setup_ms + KV_bytes / (effective_GB_per_s × 1e9) × 1000

For the model whose KV really travels in this lab that reads as follows.
"""

# %%
rate = reports["shm"].sizes[-1].gb_s
smollm2 = kv.from_config(kv.load("smollm2-135m"))
size = kv.block_bytes_total(smollm2, 1000, 128)
floor = link.handoff_floor_ms(size, rate, 1)
print(f"rate at the largest size, shared memory: {rate:.4f} GB/s   [measured]")
print(f"SmolLM2, 1,000 tokens in whole blocks: {size:,} B")
print(f"floor with an assumed 1 ms of setup: {floor:.4f} ms   [hypothetical]")

# %% [markdown]
"""
Now the course's hypothetical model: **655,360,000 B** for 2,000 tokens, the same measured rate, setup **1 ms**. The floor, in **ms**? One measured and two assumed numbers go in, so what comes out is *hypothetical*.
"""

# %% exercise="L1.5"
# Exercise L1.5
floor_ms = ...  # with one decimal: the setup is a small part of it
### BEGIN SOLUTION
floor_ms = 1 + 655_360_000 / (rate * 1e9) * 1000
### END SOLUTION

# %% check="L1.5"
check("L1.5", floor_ms, expected=link.handoff_floor_ms(655_360_000, rate, 1))

# %% [markdown]
"""
### Find the faults

A colleague writes:

> I timed one 64 KiB message over TCP on my laptop: 131 µs, so the link does 0.5 GB/s. The KV of 2,000 tokens is 625 MiB, that is 625,000,000 B, so it takes 1,250 ms, and with 1 ms of setup 1,251 ms. Our cluster will not do better.

*Hypothetical: a made-up note with the kind of reasoning that reviews meet.* Which of these faults does it have? Give a list.

| code | fault |
|---|---|
| `small` | the message is too small to show the bandwidth |
| `setup twice` | the start is inside the rate, and is added again |
| `prefix` | a binary prefix is read as a decimal one |
| `bits` | bits are read as bytes |
| `elsewhere` | a figure of one machine's loopback is used for a network |
| `k only` | the values are left out of the KV |
| `one sample` | a single time stands for a distribution |
"""

# %% exercise="L1.6"
# Exercise L1.6
faults = [...]
### BEGIN SOLUTION
faults = ["small", "setup twice", "prefix", "elsewhere", "one sample"]
### END SOLUTION

# %% check="L1.6"
check("L1.6", faults)

# %% [markdown]
"""
**What would change the floor?** Another size, since the curve is not flat. Another transport. More and smaller pieces. And load: while a prefill runs, the same cores and the same memory serve both.

## A byte ledger

So far the bytes were ours. Now two real vLLM servers, one prefill and one decode, hand over prompts of 100, 1,000, 2,000 and 3,000 tokens of SmolLM2, and three observers write down how many bytes moved:

1. **the formula**: whole blocks of 128 token slots × 23,040 B;
2. **the connector**: vLLM's `vllm:nixl_bytes_transferred` on the decode server, before and after (a histogram: on `/metrics` its sum ends in `_sum`);
3. **the operating system**: what crossed the loopback interface. The servers run in a network namespace of their own, so nobody else's bytes are on it.

None of the three knows of the others. The connector is vLLM's own for NIXL: [its page](../labs/connectors/nixl.md) shows the configuration and how it fails, and [the page of all six](../labs/connectors/README.md) what each connector moved in one run. The scene is played twice: once with NIXL left free to choose, and once with NIXL forced to TCP. Free means here that the kernel copies from one process's memory into the other's (CMA), which UCX counts as shared memory, and so do we. Between two GPUs of one node it would be CUDA IPC.

Before you look: which part of the KV bytes does each observer see? Answer `"all"`, `"hardly any"` or `"more than all"`.
"""

# %% exercise="L1.7"
# Exercise L1.7
seen = {
    "connector, shared memory": ..., "system, shared memory": ...,
    "connector, TCP": ..., "system, TCP": ...,
}
### BEGIN SOLUTION
seen = {
    "connector, shared memory": "all", "system, shared memory": "hardly any",
    "connector, TCP": "all", "system, TCP": "more than all",
}
### END SOLUTION

# %% check="L1.7"
check("L1.7", seen)

# %%
books = lab_run("nixl-bytes", ledger.record, own=own and own / "nixl-bytes")

# %%
entries = json.loads((books / "ledger.json").read_text())["entries"]
show_table(
    [
        [NAMES[e["transport"]], e["prompt_tokens"], e["blocks"], e["formula_bytes"], e["counter_bytes"], e["os_bytes"]]
        for e in entries
    ],
    ["transport", "prompt (tokens)", "blocks", "1 formula (B)", "2 connector (B)", "3 interface (B)"],
    caption="The bytes of eight transfers, as three observers have them",
    label="measured", source="SmolLM2-135M on vLLM, NIXL", run=books,
)
agree = all(e["formula_bytes"] == e["counter_bytes"] for e in entries)
print("formula and connector agree to the byte in every transfer:", agree)
print("prompt tokens that decode computed itself:", sum(e["computed_tokens"] for e in entries))
print("blocks still held on prefill afterwards:", any(e["prefill_kv_usage_after"] for e in entries))

# %% [markdown]
"""
Look at the third column of bytes over shared memory. A monitoring page that watches the network would report that nothing happens, while the KV of whole prompts changes hands. An observer that cannot see a transfer is no proof that there was none.

Over TCP the interface saw more than the KV. How much more? Take the prompt of **2,000 tokens over TCP**, and give what the interface counted beyond the connector's bytes, in **per cent of the connector's bytes**.
"""

# %%
page = next(e for e in entries if e["transport"] == "tcp" and e["prompt_tokens"] == 2000)
for key in ("counter_bytes", "os_bytes", "os_packets", "os_retransmitted", "http_bytes", "background_bytes"):
    print(f"{key:>16} {page[key]:>12,}   [measured]")

# %% exercise="L1.8"
# Exercise L1.8
overhead_percent = ...
### BEGIN SOLUTION
overhead_percent = (page["os_bytes"] - page["counter_bytes"]) / page["counter_bytes"] * 100
### END SOLUTION

# %% check="L1.8"
check("L1.8", overhead_percent, expected=(page["os_bytes"] / page["counter_bytes"] - 1) * 100)

# %% [markdown]
"""
An overhead is an item to be explained, not a shrug. Three parts are known:

- each packet on this interface carries 52 B of headers: 20 of IPv4, 20 of TCP, 12 of TCP's time stamps;
- the HTTP request and its answer, `http_bytes`;
- what crosses the interface anyway while nobody asks for anything, `background_bytes`.

Subtract them and the KV from what the interface counted. What is left was sent by UCX itself. UCX cuts a large message into fragments, by default of 8 KiB = 8,192 B, and puts a header before each. **How many bytes a fragment** would explain the rest? A number; within 2 %.
"""

# %% exercise="L1.9"
# Exercise L1.9
bytes_a_fragment = ...
### BEGIN SOLUTION
rest = page["os_bytes"] - page["counter_bytes"] - 52 * page["os_packets"]
rest -= page["http_bytes"] + page["background_bytes"]
bytes_a_fragment = rest / (page["counter_bytes"] / 8192)
### END SOLUTION

# %% check="L1.9"
unexplained = page["reconciled"]["unexplained_bytes"]
check("L1.9", bytes_a_fragment, expected=unexplained / (page["counter_bytes"] / 8192))

# %% [markdown]
"""
An account is worth something when it closes elsewhere too. So take your figure to all four transfers over TCP, and see what is left of each.
"""

# %%
rows = []
for e in entries:
    if e["transport"] == "tcp" and isinstance(bytes_a_fragment, (int, float)):
        left = e["reconciled"]["unexplained_bytes"] - bytes_a_fragment * -(-e["counter_bytes"] // 8192)
        rows.append([e["prompt_tokens"], e["os_bytes"], round(left), e["os_retransmitted"]])
show_table(
    rows or [[None] * 4],
    ["prompt (tokens)", "interface (B)", "left unexplained (B)", "segments sent twice"],
    caption="What the account leaves open, and what the kernel says of TCP in the meantime",
    label="measured", source="SmolLM2-135M on vLLM, NIXL over TCP", run=books,
)

# %% [markdown]
"""
Two kilobytes or less is noise: a handshake here, a heartbeat there. Where much more is left, look at the last column. It is a fourth observer, the kernel's count of TCP segments that were sent a second time. On loopback a segment may hold up to 64 KiB, so a few of them weigh more than all headers together. Nothing was lost, and the connector's count is exact; but the interface carried those bytes twice. An account that had been closed with "about half a per cent, must be overhead" would never have shown it.

The figure for a fragment is a reading and no proof. To prove it, set the fragment to 64 KiB (`UCX_TCP_TX_SEG_SIZE` and `UCX_TCP_RX_SEG_SIZE`, in a live lab) and see whether the rest shrinks with it.

## Time against time

Half of the claim is still untried: divide the bytes by the rate, and you have the time. NIXL keeps a clock of its own for each transfer (`vllm:nixl_xfer_time_seconds`). Beside it, below, stand the connector's bytes divided by the rate of the largest messages over the same transport.
"""

# %%
at_the_largest = {transport: report.sizes[-1].gb_s for transport, report in reports.items()}
tried = lab_sums.by_division(entries, at_the_largest)
show_table(
    [
        [NAMES[e["transport"]], e["prompt_tokens"], e["descriptors"],
         f"{clock:.1f}", f"{division:.1f}", f"{clock / division:.2f}"]
        for e, (clock, division) in zip(entries, tried)
    ],
    ["transport", "prompt (tokens)", "pieces", "NIXL's clock (ms)", "division (ms)", "clock / division"],
    caption="The claim card's claim, tried on eight transfers", label="measured",
    source="SmolLM2-135M on vLLM, NIXL; the rates of the first run", run=books,
)
at_best = lab_sums.by_division(entries, {transport: report.peak_gb_s for transport, report in reports.items()})
quicker, even_then = (sum(clock < division for clock, division in both) for both in (tried, at_best))
print(f"quicker than the division: {quicker}; quicker than a division by the curve's best rate: {even_then}")

# %% [markdown]
"""
Go down the last column: 1 is a transfer that took as long as the claim says. The division gives the order of magnitude; whether it gives the time, you judge below. A floor it is not: in the recorded run four transfers were *quicker*. A floor needs a rate that nothing on the path exceeds, and over TCP one transfer beat even the best rate of the curve. Thirty pieces at once are not one message; whether that is the reason we don't know. And each transfer ran once.

## The verdict

Back to the claim card. Fill in what the two runs allow you to say. `"fits"` is about the 20 ms budget of notebook 03, for the hypothetical model's 2,000 tokens at the rate measured here; answer `"yes"` or `"no"`. For the other four: `"shown"`, `"contradicted"` or `"not shown"`.

| key | about |
|---|---|
| `fits` | the floor of exercise L1.5 keeps the budget |
| `one bandwidth` | "a link has a bandwidth; measure it once" |
| `time` | the bytes, divided by it, give the time of each of the eight transfers to within a quarter |
| `bytes` | a transfer moves the whole blocks of the formula and nothing else of the KV |
| `cluster` | on a cluster the hand-off has the floor computed here |
"""

# %% exercise="L1.10"
# Exercise L1.10
verdict = {"fits": ..., "one bandwidth": ..., "time": ..., "bytes": ..., "cluster": ...}
### BEGIN SOLUTION
fits = "yes" if floor_ms <= 20 else "no"
near = all(abs(clock / division - 1) <= 0.25 for clock, division in tried)
verdict = {
    "fits": fits, "one bandwidth": "contradicted", "time": "shown" if near else "contradicted",
    "bytes": "shown", "cluster": "not shown",
}
### END SOLUTION

# %% check="L1.10"
keeps = link.within_budget(link.handoff_floor_ms(655_360_000, rate, 1), 20)
curves = ([s.gb_s for s in report.sizes] for report in reports.values())
check("L1.10", verdict, expected={
    "fits": "yes" if keeps else "no",
    "one bandwidth": lab_sums.one_bandwidth(*curves),
    "time": "shown" if lab_sums.near(tried) == len(tried) else "contradicted",
    "bytes": "shown" if agree else "contradicted", "cluster": "not shown",
})

# %% [markdown]
"""
**What would change this verdict?** A faster machine may well keep the budget: memory bandwidth is what was measured. And a connector that sends something beside the blocks, such as FP8 scales or a padded layout, would break the equality of formula and counter, and be found out by it.

## Recap

1. Bandwidth depends on the size of the message. Report the curve, or the rate at *your* size, or two numbers: the rate of large messages and the half-bandwidth point. The peak belongs to the cache.
2. A rate from small messages has the start inside; adding setup to it counts the start twice. A rate measured once predicts a transfer roughly. For a floor it has to be the best that the path ever gives.
3. Report a median and a spread. Fifteen samples carry no P99.
4. A number of loopback is a number of loopback.
5. Bytes can be proven: formula and connector agree to the byte, and over TCP the interface agrees once headers are named. Over shared memory it sees nothing.

Your guesses from the start:
"""

# %%
guesses({
    "L1.a": f"{last['shm'].gb_s:.2f} GB/s",
    "L1.b": f"{last['tcp'].transfer_ms / last['shm'].transfer_ms:.1f} times as long",
})

# %% [markdown]
"""
## Two questions from before

<details><summary>From 02: why are 49 blocks moved for 6,100 tokens, when 6,100 / 128 is less than 48?</summary>
Each prompt is rounded up on its own: 1 + 8 + 16 + 24 blocks. The empty slots at the end of each prompt's last block travel too.
</details>

<details><summary>From 03: a vendor's link does "100 Gbit/s". Which three things stand between that and an effective bandwidth?</summary>
Bits and bytes, a factor of eight. The protocol's overhead. And everything an application adds: message size, registration of memory, contention, synchronisation. Only a measurement of the payload knows the last part.
</details>
"""

# %% [markdown]
"""
**Next** is lab L2: both designs under load, at an equal budget.

## Sources

Accessed in November 2026.

- NIXL 1.5.1 and UCX: the transports and the `UCX_TLS` and `UCX_TCP_TX_SEG_SIZE` settings, as `ucx_info -c` and the UCX documentation describe them.
- vLLM documentation, *NixlConnector usage*: the connector, its metrics, and the request protocol.
- Linux, `network_namespaces(7)` and `proc(5)`: namespaces, and the counters of `/proc/net/dev`.
"""
