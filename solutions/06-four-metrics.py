# %% [markdown]
"""
# 06 · Four metrics, honestly

**Time** 65 minutes, with a good place to stop after 30. **Before this** notebook 05: what is to be compared, and at what budget. **You need** percentiles, and TTFT and TPOT from notebook 01. **Run from the top**: each cell needs those above it.

At the end you can take any load tool's output and say what it counted, what it left out, and whether it may answer the question that decides a deployment: how much load can it take while its promise holds?
"""

# %%
from pdlab.course import *
from pdlab.measure import rules, slo, smallrun

# %% [markdown]
"""
## A puzzle

A hundred requests go to a server. The promise is that 95 % of them see a first token within 300 ms and then a token every 30 ms or faster. The log of the run is complete, to the nanosecond. Three programs read it:

| program | says |
|---|---|
| one | of 97 answers, 96 are good |
| two | of 96, 89 are good |
| three | of 100, 87 are good |

Nobody has a bug, and nobody lies. Two of these are definitions of well-known load tools. The third is this course's.

The log comes from a generator that this course ships, `pdlab/measure/smallrun.py`. It is *hypothetical*: no server was asked. That makes it a fair witness, since everything odd in it was put there on purpose and is written down.

Two guesses before you go on.
"""

# %%
# Six definitions will read this log. By how many of them is the promise kept?
# A number from 0 to 6.
definitions_that_pass = ...
### BEGIN SOLUTION
definitions_that_pass = 3
### END SOLUTION
predict("6.a", definitions_that_pass)

# %%
# A run in which every single request is good: how many requests must it have
# before it shows, with 95 % confidence, that 95 % are good?
enough_requests = ...
### BEGIN SOLUTION
enough_requests = 40
### END SOLUTION
predict("6.b", enough_requests)

# %% [markdown]
"""
## First metric: what was offered

A latency means nothing without the load it was met at. So the first number is a rate that *you* chose: requests a second, offered whatever the server does. Users do not wait for each other's answers before they ask, and an honest client does not either. It writes down beforehand when each request is due, and sends it then. That is an *open loop*.

A client can fall behind its own list. It may have too few connections, too slow a tokeniser, one core too few. The time from *due* to *sent* is the **dispatch lag**. If the lag is left out, a queue that has formed in the client is nobody's latency.

In our log the client stumbles once: seven requests leave 250 ms late.
"""

# %%
run = smallrun.small_run()
answers = [a for a in rules.answers(run) if a.status == "ok"]
ax = figure(
    "Counted from the send, the late requests look like all others",
    label="hypothetical", source="pdlab.measure.smallrun, 94 complete answers",
    xlabel="time to first token (ms)", size=(8.0, 3.6),
)
strip(ax, [a.first_ms - a.scheduled_ms for a in answers], 0, "from due", 1)
strip(ax, [a.ttft_ms for a in answers], 1, "from send", 0)
ax.axvline(300, color="#595959", linestyle=":")
ax.set(xlim=(0, 1000), ylim=(-0.5, 1.75))
name_at(ax, 300, 1.55, "limit: 300 ms", "#1B1B1B", dx=6)
show_figure(ax, alt="""
    Time to first token of 94 answers, in two rows. Counted from the send, 93 lie between 80 and
    140 ms and one at 900 ms. Counted from the time they were due, seven of the 93 move to
    between 330 and 370 ms, beyond the limit of 300 ms; the others stay where they are.
""")

# %% [markdown]
"""
Now find the fault in someone else's table. A client holds at most 8 connections. It was asked for four rates, and sent 600 requests at each.
"""

# %%
show_table(
    [
        ["5", "5.0", "181 ms", "0 %", "0.4 ms"],
        ["10", "9.9", "190 ms", "0 %", "0.6 ms"],
        ["20", "11.8", "194 ms", "0 %", "20,600 ms"],
        ["40", "11.9", "195 ms", "0 %", "35,000 ms"],
    ],
    ["asked (requests/s)", "sent (requests/s)", "TTFT p99", "errors", "dispatch lag p99"],
    caption="Four rates, one client",
    label="hypothetical",
    source="8 connections, each busy for about 0.67 s a request",
)

# %% [markdown]
"""
Its author concludes: "TTFT is flat up to 40 requests a second, so there is room." Which columns show that the server was never offered 20 requests a second? Name all of them, from `"asked"`, `"sent"`, `"ttft"`, `"errors"`, `"lag"`.
"""

# %% exercise="6.1"
# Exercise 6.1
columns = [...]
### BEGIN SOLUTION
columns = ["sent", "lag"]
### END SOLUTION

# %% check="6.1"
check("6.1", columns)

# %% [markdown]
"""
**What would change this answer?** A *closed* loop on purpose. If the question is "what do eight users see who wait for each answer?", eight connections are the load and the table is right. It then says nothing about 40 requests a second.

## Second metric: throughput, over a window that you declare

Throughput is a count over a time. The count is of answers that came complete; the time is a window that somebody chose, often without saying so. At the start the system fills, at the end it drains, and both are slower than the middle.
"""

# %%
report = slo.analyse(run, smallrun.LIMITS)
due = run.table["scheduled_ns"].to_pylist()
ends = [row["end_ns"] for row in run.table.to_pylist() if row["status"] == "ok"]
windows = {
    "start to last end": (0, report.window_s * 1e9),
    "first due to last due": (due[0], due[-1]),
    "from 2 s to 8 s": (2e9, 8e9),
}
for name, (start, end) in windows.items():
    done = sum(start <= at <= end for at in ends)
    seconds = (end - start) / 1e9
    print(f"{name:>22}: {done:>2} answers in {seconds:5.2f} s = {done / seconds:.2f} requests/s")
print("[hypothetical]")

# %% [markdown]
"""
Three honest figures for one run; the difference is only the window. Declare it, keep it the same on both sides, and make the run long against its edges. Here ten seconds is too short for that.

## Third metric: latency, and who attained it

Notebook 01 defined these from raw token times. Once more, with the fine print:

- **TTFT**: from send to the first frame *that carries an output token*;
- **TPOT**: (last token − first token) / (tokens − 1);
- **ITL**: the gap between one frame with tokens and the next; each request's largest is judged as well;
- **E2E**: from send to the last token.

Two tokens that come 10 ms apart have a TPOT of 10 ms: one gap, two tokens, and hence the −1.

The fine print is needed because a stream is not a list of tokens. Here is one as it looks on the wire *(hypothetical: made up, with oddities that real servers show)*. The number is the frame, then milliseconds since the send. The server was asked to report `usage` in each frame.
"""

# %%
stream = [
    (12, '{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":{"completion_tokens":0}}'),
    (180, '{"choices":[{"delta":{"content":"A"}}],"usage":{"completion_tokens":1}}'),
    (205, '{"choices":[{"delta":{"content":""}}],"usage":{"completion_tokens":2}}'),
    (230, '{"choices":[{"delta":{"content":" caf\\u00e9"}}],"usage":{"completion_tokens":3}}'),
    (290, '{"choices":[{"delta":{"content":" is a trade"}}],"usage":{"completion_tokens":6}}'),
    (310, '{"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":{"completion_tokens":6}}'),
    (700, '{"choices":[],"usage":{"completion_tokens":6}}'),
    (700, "[DONE]"),
]
for number, (at_ms, data) in enumerate(stream, 1):
    print(f"{number}  {at_ms:>3} ms  {data}")

# %% [markdown]
"""
Which frames brought output tokens? Give their numbers, in order.
"""

# %% exercise="6.2"
# Exercise 6.2
token_frames = [...]
### BEGIN SOLUTION
token_frames = [2, 3, 4, 5]
### END SOLUTION

# %% check="6.2"
check("6.2", token_frames)

# %% [markdown]
"""
An empty text can be a token: half of a character, or one that is held back. A full text can be several. And a role frame is a greeting, not a token; a tool that starts its clock there reports 12 ms here.

With those frames, what are TTFT, TPOT, the largest ITL and E2E of this request, in ms?
"""

# %% exercise="6.3"
# Exercise 6.3
latencies = {"ttft": ..., "tpot": ..., "max_itl": ..., "e2e": ...}
### BEGIN SOLUTION
latencies = {"ttft": 180, "tpot": (290 - 180) / 5, "max_itl": 290 - 230, "e2e": 290}
### END SOLUTION

# %% check="6.3"
check("6.3", latencies)

# %% [markdown]
"""
Make TPOT a function. It gets the arrival times of the frames with tokens, in ms, and how many tokens each brought. It returns the TPOT in ms. With fewer than two tokens there is nothing to divide by, and no number is right, least of all 0: return the text `"undefined"`. The number of frames is no part of that rule: four tokens in a single frame have a TPOT, and it is 0.
"""

# %% exercise="6.4"
# Exercise 6.4
def tpot_ms(frame_ms, frame_tokens):
    """TPOT of one answer in ms, or "undefined"."""
    ...


### BEGIN SOLUTION
def tpot_ms(frame_ms, frame_tokens):
    """TPOT of one answer in ms, or "undefined"."""
    tokens = sum(frame_tokens)
    if tokens < 2:
        return "undefined"
    return (frame_ms[-1] - frame_ms[0]) / (tokens - 1)
### END SOLUTION

# %% check="6.4"
check("6.4", tpot_ms)

# %% [markdown]
"""
Now a server changes how it *sends*, not how it computes. It makes 33 tokens, the first after 50 ms and then one every 10 ms. Until now each went out in a frame of its own. From now on it waits until it has four and sends them in one frame; the last token goes out alone. No token is computed sooner or later than before.

What happens to the four figures at the client? Answer `"up"`, `"down"` or `"same"`.
"""

# %% exercise="6.5"
# Exercise 6.5
moves = {"ttft": ..., "tpot": ..., "max_itl": ..., "e2e": ...}
### BEGIN SOLUTION
moves = {"ttft": "up", "tpot": "down", "max_itl": "up", "e2e": "same"}
### END SOLUTION

# %% check="6.5"
check("6.5", moves)

# %% [markdown]
"""
So one figure alone can be made to look better by packing frames. That is why the plan judges three: TTFT, TPOT and the largest gap.

Three more kinds of stream have to have a rule before the run, and this course's are in the head of `pdlab/measure/frames.py`:

- **An error frame inside HTTP 200.** The status line went out before the trouble came. The request failed; what had arrived is kept.
- **A stream that stops** without a finish reason and without `[DONE]`. It failed. With a finish reason and no `[DONE]`, it is complete.
- **Reasoning.** Tokens that a model thinks aloud are generated tokens. The first of them is the first token, whatever the interface shows.

### The denominator

A request is *good* when it succeeded and met every latency condition. (Such conditions, with the share that has to meet them, are called a *service level objective*, SLO.) **Attainment** is the share of good ones. Of what? Here is a run of 100:

| of 100 offered | requests |
|---|---|
| failed, rejected or timed out | 5 |
| succeeded | 95 |
| of those, met both targets | 90 |

*Hypothetical.* Give the error rate, the attainment among successes and the attainment over all offered requests. Three decimals will do, or per cent as text, such as `"12.3 %"`.
"""

# %% exercise="6.6"
# Exercise 6.6
cohort = {"error_rate": ..., "among_successes": ..., "over_all": ...}
### BEGIN SOLUTION
cohort = {"error_rate": 5 / 100, "among_successes": 90 / 95, "over_all": 90 / 100}
### END SOLUTION

# %% check="6.6"
check("6.6", cohort)

# %% [markdown]
"""
Two of these are called "attainment" in print. Put four gates to this cohort, and say of each `"pass"` or `"fail"`. Then say when the denominator is to be chosen: `"before"` the run, or `"after"` it?

| letter | gate |
|---|---|
| A | at least 95 % of all offered |
| B | at least 94 % of all offered |
| C | at least 95 % of the successful |
| D | at least 94 % of the successful |
"""

# %% exercise="6.7"
# Exercise 6.7
gates = {"A": ..., "B": ..., "C": ..., "D": ..., "chosen": ...}
### BEGIN SOLUTION
gates = {"A": "fail", "B": "fail", "C": "fail", "D": "pass", "chosen": "before"}
### END SOLUTION

# %% check="6.7"
check("6.7", gates)

# %% [markdown]
"""
Think of who drops out of a denominator. A server that refuses the requests it would answer late gets *better* by the second definition with each refusal. By the first it gains nothing. The plan of this course says `all_offered_requests_after_warmup_including_rejections_and_timeouts`, in full, so that nobody has to ask.

### Answers of one token

"Yes." is a complete answer. It has a TTFT and no TPOT. Has it met its TPOT target? There are three policies in use, and each is defensible when it is declared:

- `not_met`: it counts in the denominator and is not good;
- `met_without_tpot`: it is judged on its other conditions;
- `excluded`: it leaves both numerator and denominator.

Write the share of good requests under each policy. Start from all offered. `good` are the requests with at least two tokens that met everything. `one_token` are answers of one token, all with a good TTFT. `offered` is everything.
"""

# %% exercise="6.8"
# Exercise 6.8
def attainment(good, one_token, offered, policy):
    """Share of good requests under a policy for one-token answers."""
    ...


### BEGIN SOLUTION
def attainment(good, one_token, offered, policy):
    """Share of good requests under a policy for one-token answers."""
    if policy == "met_without_tpot":
        return (good + one_token) / offered
    if policy == "excluded":
        return good / (offered - one_token)
    return good / offered
### END SOLUTION

# %% check="6.8"
check("6.8", attainment)

# %% [markdown]
"""
**A good place to stop**, after 30 of the 65 minutes. You have three of the four metrics. Ahead: the three programs of the puzzle, how much a run of this size can show, and the fourth metric. When you come back, click this text and choose *Run*, *Run All Above Selected Cell*.

## One run, six definitions

Back to the log of the puzzle. This is what was put into it:

| requests | what happens | status |
|---|---|---|
| 87 | answered in time, 64 tokens | complete |
| 4 | answered in time, one token | complete |
| 1 | first token after 900 ms | complete |
| 2 | one gap of 400 ms, mean pace in order | complete |
| 3 | ten tokens, then an error frame | HTTP 200 |
| 2 | internal server error | HTTP 500 |
| 1 | too many requests | HTTP 429 |

Each function in `pdlab/measure/rules.py` is one tool's definitions in a dozen lines. `good` is whom it calls good, `of` is what it divides by. vLLM bench prints no share but a *goodput* (good requests a second) beside a throughput, so its `of` is what that throughput counts.
"""

# %%
verdicts = [rule(run, 300, 30, report.window_s) for rule in rules.RULES]
show_table(
    [[v.tool, v.succeeded, v.good, v.denominator, v.rule] for v in verdicts],
    ["tool", "successes", "good", "of", "its rule"],
    caption="The same 100 requests, by five tools' rules",
    label="hypothetical",
    source="pdlab.measure.smallrun; rules of vLLM bench 0.33, guidellm 0.8.1, aiperf 0.13, inference-perf "
           "and DistServe's scripts as read in November 2026",
)
m = rules.mlperf(run, 300, 30)
print(f"MLPerf: p99 of TTFT, from the time a request was due: {m.ttft_p99_ms:.1f} ms")
print(f"MLPerf: p99 of TPOT: {m.tpot_p99_ms:.1f} ms   [hypothetical]")

# %% [markdown]
"""
MLPerf has no share. It passes a run when the 99th percentiles of TTFT and TPOT are within their limits, here 300 and 30 ms.

By which of the six is the promise of 95 % kept (for MLPerf: its two gates)? Name all of them, from `"vllm bench"`, `"guidellm"`, `"aiperf"`, `"inference-perf"`, `"distserve"`, `"mlperf"`.
"""

# %% exercise="6.9"
# Exercise 6.9
kept_by = [...]
### BEGIN SOLUTION
kept_by = ["vllm bench", "distserve"]
### END SOLUTION

# %% check="6.9"
check("6.9", kept_by)

# %% [markdown]
"""
The course's rule makes it 87 of 100: the 89 that others call good hold two answers that stalled for 400 ms, which no mean shows. (It is not one of the six; in the figure below it stands beside the five that print a share.) Its dispatch-lag gate fails as well. Here is the whole of it, as `pdlab analyze` would print the gates:
"""

# %%
for gate in report.gates:
    value = gate.value if isinstance(gate.value, str) else f"{gate.value:.3f}"
    print(f"{gate.name:>20}  {value:>8}  limit {gate.limit}  {gate.result}")
print(f"{'verdict':>20}  {report.verdict}   [hypothetical]")

# %%
shares = sorted(
    [(f"{v.tool}: {v.good} of {v.denominator}", v.good / v.denominator) for v in verdicts]
    + [(f"this course: {report.joint_attainment.good} of {report.offered}", report.joint_attainment.all_offered)],
    key=lambda pair: pair[1],
)
ax = figure(
    "The same requests attain anything from 87 to 99 %",
    label="hypothetical", source="pdlab.measure.smallrun, read by each tool's definitions",
    xlabel="share of requests called good (%)", size=(8.0, 4.4),
)
for row, (name, share) in enumerate(shares):
    colour = "#0072B2" if share >= 0.95 else "#D55E00"
    ax.plot(100 * share, row, marker="o" if share >= 0.95 else "s", color=colour, markersize=10, linestyle="")
ax.axvline(95, color="#595959", linestyle=":")
name_at(ax, 95, len(shares) - 0.45, "gate: 95 %", "#1B1B1B", dx=6)
ax.set_yticks(range(len(shares)), [name for name, _ in shares])
ax.set(xlim=(85, 100), ylim=(-0.6, len(shares) - 0.1))
show_figure(ax, alt="Share of good requests in one run by five tools' definitions and this course's, with a gate at 95 %. "
    "From below: "
    + "; ".join(f"{name}, {100 * share:.1f} %" for name, share in shares) + ".")

# %% [markdown]
"""
Where the differences come from:

- **Is an error frame a failure?** vLLM bench and aiperf look at HTTP: the three count as successes. aiperf then finds no length for them, hence no ITL, and does not call them good. vLLM bench tokenises what text there is and calls all three good.
- **Is one token good?** vLLM bench and DistServe set TPOT to 0, which beats any limit. guidellm calls them undetermined and takes them out of the share. aiperf and inference-perf have no ITL or TPOT for them, and so they are not good.
- **Do failures count?** In guidellm and aiperf they stay in the denominator. inference-perf and DistServe's scripts divide by what came back.
- **Which TPOT?** guidellm's *time per output token* is (last − start) / n and so holds TTFT; its ITL does not. aiperf divides by the tokens after the first frame. The others divide by n − 1.
- **What is the first token?** vLLM bench takes the first frame that has choices, even one without text. In the stream above its TTFT would be 12 ms. No such frame stands in this log.
- **From when?** MLPerf counts TTFT from the time a request was due. Its is the only verdict of the six that notices the client's stumble; guidellm and inference-perf record the delay, but judge without it.

**What would change this answer?** A clean run. Without failures, one-token answers, stalls and a late client, all of them call the same requests good. Definitions matter when something goes wrong, which is when you look.

### What a file cannot tell

These tools leave result files, and `pdlab analyze` reads three of them. It does not improve on what they hold. A failed request in a vLLM bench file has a TTFT of 0.0; that is a blank, not a latency. An error frame leaves no mark at all there, other than a token count that does not fit its frames. A guidellm file has the first and the last token's time and none between, so a limit on the largest gap cannot be judged from it. In such a case the gate says *not evaluable*, and so does the verdict. "We don't know" is a result.

## Who kept the time?

Definitions aside, a tool also has to send and to stamp. Here are four things that clients of the day do. For each: does the *reported* latency come out `"better"` or `"worse"` than an honest client would report of the same server at the rate that was asked for?

| letter | what the client does |
|---|---|
| A | Its ten workers draw their waiting times from generators with the same seed, so each gap comes ten times in a row. |
| B | When it is more than 10 ms late, it moves the rest of its schedule back, and counts lag from the moved one. |
| C | It stamps the start, then opens the connection, then sends. |
| D | It opens a connection for nearly every request, and starts the clock when that is done. |
"""

# %% exercise="6.10"
# Exercise 6.10
reported = {"A": ..., "B": ..., "C": ..., "D": ...}
### BEGIN SOLUTION
reported = {"A": "worse", "B": "better", "C": "worse", "D": "better"}
### END SOLUTION

# %% check="6.10"
check("6.10", reported)

# %%
import numpy as np

RATE, N = 20, 500
rng = np.random.default_rng(3)
poisson = np.cumsum(rng.exponential(1 / RATE, N))
rescaled = poisson * (N / RATE) / poisson[-1]
tens = np.cumsum(np.repeat(rng.exponential(1 / RATE, N // 10), 10))
fullest = [np.histogram(at, bins=np.arange(0, 31))[0].max() for at in (tens, poisson)]
axes = figure(
    f"One client sends {fullest[0]} requests in a second, the other never more than {fullest[1]}",
    label="hypothetical", source="three seeded generators, 500 requests at 20 a second",
    panels=(2, 1), sharex=True, sharey=True, size=(8.0, 5.0),
)
for ax, at, name, colour in (
    (axes[0], poisson, "independent gaps", "#0072B2"), (axes[1], tens, "each gap ten times in a row", "#D55E00"),
):
    counts = np.histogram(at, bins=np.arange(0, 31))[0]
    ax.bar(np.arange(30) + 0.5, counts, width=0.9, color=colour)
    ax.axhline(RATE, color="#595959", linestyle=":")
    ax.set_ylabel("sent in the second")
    name_at(ax, 0.3, 63, name, colour)
    print(f"{name}: largest second {counts.max()}, 500th request after {at[-1]:.1f} s")
print(f"rescaled: 500th request after {rescaled[-1]:.1f} s   [hypothetical]")
axes[1].set_xlabel("time (s)")
axes[0].set(xlim=(0, 30), ylim=(0, 70))
show_figure(axes[0], alt=f"""
    Requests sent in each second by two generators of 20 requests a second on average. With
    independent gaps the seconds hold between {np.histogram(poisson, bins=np.arange(0, 25))[0].min()}
    and {np.histogram(poisson, bins=np.arange(0, 25))[0].max()} requests. With each gap repeated ten times
    they hold between {np.histogram(tens, bins=np.arange(0, 20))[0].min()}
    and {np.histogram(tens, bins=np.arange(0, 20))[0].max()}: bursts of several seconds, and lulls between them.
""")

# %% [markdown]
"""
Each of these was found in a released tool, by pointing it at a server whose every write was logged (measured in November 2026, on two cores, over loopback). The single runs were not kept; the lines of source that do it are named instead, so that you can look. Files and lines are those of vLLM 0.32.0, guidellm 0.8.1 and aiperf 0.13.0.

**vLLM bench** draws Poisson gaps and then stretches them, so that the last request leaves after exactly N / rate seconds (`benchmarks/serve.py`, 484 to 497). It does so on purpose: throughputs of different seeds are to agree. But that variation is part of what a Poisson load is: 500 requests may take 23 or 27 seconds. Its runs look more alike than runs of that load are. It also stamps the start before it connects, so a new connection is part of TTFT (`benchmarks/lib/endpoint_request_func.py`, 228).

**guidellm** with its default of ten workers gives all of them one seed, 42 (`scheduler/strategies.py`, 606 and 694). Every gap comes ten times in a row. The figure shows what that does: bursts and lulls, and a mean rate that was off by up to 14 %. With one worker the arrivals are Poisson. It connects anew for nearly every request and does not count the connecting.

**aiperf** moves its schedule when it is more than 10 ms late (`timing/strategies/request_rate.py`, 267; the 10 ms are a setting). On purpose again, and said there: whoever catches up sends a burst that nobody asked for. The price is that the load it missed is forfeited, and that the lag it reports counts from the later schedule. A client that cannot keep up offers less and shows no lag. So look at the rate that was sent.

**All three**, when several frames arrive in one read, give them nearly the same time. The stamp is taken by the program, after the read; the frames behind the first have waited in the socket. The gaps inside such a read are wrong, and so is the gap after it. Only the kernel knows when each packet came.

How wrong is a stamp? Each client ran at 20 requests/s on one core, against a server on the other that wrote down its own times. (`pdlab` is the client of this course. guidellm exports no times of single frames.)
"""

# %%
import json

fidelity = recorded("client-fidelity")
clients = json.loads((fidelity / "results.json").read_text())["rows"]


def microseconds(pair):
    """p50 and p99 as text, dashes where the tool exports none."""
    return ["–", "–"] if pair is None else [f"{value:,.0f}" for value in pair]


show_table(
    [
        [one["tool"], one["matched"], *microseconds(one["ttft_error_us"]), *microseconds(one["gap_error_us"])]
        for one in clients if one["rate_rps"] == 20
    ],
    ["client", "requests", "TTFT error p50 (µs)", "TTFT error p99 (µs)", "gap error p50 (µs)", "gap error p99 (µs)"],
    caption="What each client says, less what the server did: 64 tokens at 10 ms, 20 requests/s",
    label="measured", source="tests/bench/bench_fidelity.py, loopback", run=fidelity,
)

# %% [markdown]
"""
Beside a limit of 300 ms none of this changes a verdict. Beside a limit of 5 ms it would. On a real network card, or behind TLS, we don't know: that was not tried. The client of this course stamps in the kernel where it can, and each record says which stamp it is.

**What would change this answer?** A client with more than one core. Nothing else ran on the machine, so we read most of the error as a client competing with itself for its core; the table does not prove it. Give the client a core to spare, and look at its dispatch lag before you look at the server.

## How many are enough?

Take the p99 of TTFT from the log, two ways. Both are in use: NumPy's default goes between two values, guidellm's takes one of them.
"""

# %%
ttft = sorted(a.ttft_ms for a in answers)
for q in (95, 99):
    p = rules.percentile_methods(ttft, q)
    print(f"p{q} of {len(ttft)} values: linear {p['linear']:.1f} ms", end="")
    print(f", inverted CDF {p['inverted_cdf']:.1f} ms")
print(f"the three largest: {', '.join(f'{t:.1f}' for t in ttft[-3:])} ms   [hypothetical]")

# %% [markdown]
"""
193 ms or 900 ms, one passes and one fails, from the same 94 numbers. Neither method is at fault. With 94 values, p99 lies beyond the last but one; it is one request's luck. That goes for MLPerf's p99 above as well, a value between two requests that none of them had: its rule can be read off this log, but so short a log is no evidence by it. A percentile of fewer than a hundred points comes with an interval or not at all.

Attainment has an interval too. If 90 of 100 are good, the true share may well be 85 % or 93 %. Wilson's interval says how far: from 82.6 % to 94.5 %, with 95 % confidence. For a *flawless* run of n requests its lower end has a short form:

    lower end = n / (n + 3.84)

The 3.84 is 1.96², and within 1.96 standard deviations of its mean lie 95 % of a normal distribution. Three good requests of three: the true share may be as low as 3 / 6.84 = 44 %. To show 95 %, n / (n + 3.84) must reach 0.95, so n is at least 3.84 × 0.95 / 0.05, which rounds up to 73.
"""

# %%
sizes = [5, 10, 20, 40, 73, 150, 300, 600, 1200]
ax = figure(
    "Forty requests, all good, do not show 95 %",
    label="hypothetical", source="Wilson interval at 95 % confidence",
    xlabel="requests in the run", ylabel="attainment shown at least (%)", xlog=True,
)
line(ax, sizes, [100 * slo.wilson(n, n)[0] for n in sizes], "all good", 0)
line(ax, sizes[2:], [100 * slo.wilson(round(0.97 * n), n)[0] for n in sizes[2:]], "97 % good", 1, dy=-13)
ax.axhline(95, color="#595959", linestyle=":")
name_at(ax, 5.2, 96.6, "gate: 95 %", "#1B1B1B", dx=0)
ax.set(xlim=(4.5, 3400), ylim=(50, 101.5))
show_figure(ax, alt="""
    Lower end of the 95 % interval on attainment against the number of requests, log scale. With
    every request good it is 57 % at 5 requests, 84 % at 20, 91 % at 40, 95 % at 73 and 98.7 % at
    300. With 97 % good it stays below the gate of 95 % until about five hundred requests.
""")

# %% [markdown]
"""
Another service promises **99 %**. How many requests does a flawless run need, at least, to show that?
"""

# %% exercise="6.11"
# Exercise 6.11
needed = ...
### BEGIN SOLUTION
needed = 381  # 3.84 × 0.99 / 0.01 = 380.2, rounded up
### END SOLUTION

# %% check="6.11"
check("6.11", needed)

# %% [markdown]
"""
**What would change this answer?** Dependence. The interval takes requests for independent draws. A stall hits all requests of its moment together, so a hundred requests of one bad minute know less than their number says. Longer runs and repeated ones help where more requests a second do not.

## Fourth metric: capacity

Now the number that decides a deployment. The gates are attainment, errors, and no sustained growth of the queue. **Capacity** is the highest *tested* rate that passes every gate, with nothing but passes below it. None can be stated where a rate passes above one that fails, or where a rate can't be judged and no lower one fails: those runs are repeated first. Its full name is SLO-compliant capacity. It is read off a sweep. It is not interpolated, and it is not always there.

*Goodput* names two things. Tools print the good requests a second of *one* run. DistServe, and notebook 05, mean the highest rate at which enough requests are good: capacity, there divided by the GPUs.

Why the queue? A run of ten minutes may end before the queue has grown long enough to hurt. Attainment is still in order while the server already takes in more than it gets done. In an hour it would not be.
"""

# %%
sweeps = {
    "A": [(1, 600, 99.3, 0.0, "steady"), (2, 1200, 98.9, 0.1, "steady"), (4, 2400, 97.2, 0.3, "steady"),
          (8, 4800, 95.4, 0.6, "growing"), (16, 9600, 31.0, 4.2, "growing")],
    "B": [(1, 600, 99.5, 0.0, "steady"), (2, 1200, 93.8, 0.2, "steady"), (4, 2400, 97.0, 0.1, "steady"),
          (8, 4800, 60.2, 0.9, "growing")],
    "C": [(1, 600, 99.2, 0.0, "steady"), (2, 60, 100.0, 0.0, "steady"), (4, 600, 41.3, 2.0, "growing")],
}
show_table(
    [[name, f"{r}", n, f"{a:.1f} %", f"{e:.1f} %", q] for name, rows in sweeps.items() for r, n, a, e, q in rows],
    ["design", "offered (requests/s)", "requests", "attainment over all", "errors", "queue"],
    caption="Three sweeps; gates: attainment 95 %, errors 1 %, queue steady",
    label="hypothetical",
    source="made up for this exercise",
)

# %% [markdown]
"""
State each design's capacity: one of the tested rates, such as `16`. Or, where none may be stated, why: `"not monotonic"` or `"sample too small"`. And for A, name the gate that stops it first: `"attainment"`, `"errors"` or `"queue"`.
"""

# %% exercise="6.12"
# Exercise 6.12
capacity = {"A": ..., "A stopped by": ..., "B": ..., "C": ...}
### BEGIN SOLUTION
capacity = {"A": 4, "A stopped by": "queue", "B": "not monotonic", "C": "sample too small"}
### END SOLUTION

# %% check="6.12"
check("6.12", capacity)

# %% [markdown]
"""
A refusal is not a failure of the method. It names the run that is missing: for B both rates again, for C the middle rate for longer. `pdlab analyze` refuses in the same words.

**What would change this answer?** The mix of prompts, the limits, the cache state: capacity belongs to all of them. A capacity without its plan is a number without a unit.

## Recap

1. Offered rate is yours to choose; dispatch lag shows whether your client kept to it.
2. Throughput has a window; declare it.
3. A frame is not a token. TTFT, TPOT and the largest gap each see what the others miss.
4. Attainment has a denominator, a policy for one-token answers, and an interval. Declare the first two before the run.
5. Capacity is the highest tested rate that passes every gate, and sometimes the honest answer is that there is none to state yet.

Your guesses from the start:
"""

# %%
passing = sum(v.good / v.denominator >= 0.95 for v in verdicts) + m.passes
guesses({"6.a": passing, "6.b": slo.requests_needed(0.95)})

# %% [markdown]
"""
## Two questions from before

Answer from memory, aloud or on paper. Then open the line.

<details><summary>From 03: a hand-off takes at least 27.2 ms on some link. In which of the four latencies does a client see it?</summary>
It depends on who streams the first token. Where decode streams every token, the first included, it lies in TTFT. Where prefill streams the first, it lies between the first and the second token, so in the first ITL and in the largest gap. It is to be observed at the client, not assumed.
</details>

<details><summary>From 04: DistServe reports up to 7.4 times the rate. Which two things have to be said with that figure?</summary>
The baseline, DeepSpeed-MII, and the condition: more than 90 % of requests meeting both TTFT and TPOT targets. You can now add a third: its scripts divide by what came back, and give a one-token answer a TPOT of 0.
</details>
"""

# %% [markdown]
"""
**Next** is notebook 07: a plan that declares all of this before anything runs, and the sweep that it asks for.

## Sources

Accessed in November 2026.

- vLLM 0.33, `vllm bench serve` (source and documentation); guidellm 0.8.1; NVIDIA aiperf 0.13; kubernetes-sigs inference-perf, commit 010d12f (`inference_perf/reportgen/base.py`): the definitions in each tool's source.
- MLPerf Inference rules, server scenario for language models: 99th percentiles of TTFT and TPOT, counted from the scheduled time.
- Y. Zhong et al., *DistServe*, OSDI 2024, and its published evaluation scripts.
- E. B. Wilson, *Probable Inference, the Law of Succession, and Statistical Inference*, 1927.
"""
