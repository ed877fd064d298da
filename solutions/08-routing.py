# %% [markdown]
"""
# 08 · Who goes where

**Time** 35 minutes. **Before this** notebooks 03 and 05: what a hand-off costs, and the path of a request. **You need** nothing else. **Run from the top**: each cell needs those above it.

At the end you can say, for any prompt, whether it should leave the server that will decode it, which prefill server should get it, and which decode server. And you can read two well-known routers' rules and predict where they disagree.
"""

# %%
from pdlab.course import *
from pdlab.live import policy

# %% [markdown]
"""
## A puzzle

A request arrives: 300 tokens, and no server has ever seen any of them. Two released routers look at it, both built by people who know this field well. Each goes by a rule that its operator has switched on.

| router | what it does with the request |
|---|---|
| llm-d's prefix-based decider, threshold 2,048 | keeps it: decode prefills the prompt itself |
| NVIDIA Dynamo's conditional disaggregation (experimental), with its default policy `isl_bounding` | sends it away to a prefill server |

Nobody misconfigured anything. Each does what its documentation says. And short cold prompts are no rare case: the proposal of notebook 09 is about nothing else.

Guess first. Which single fact does one of them look at, and the other ignore? (The *share of the prompt* is the part of it that a cache does not hold.)
"""

# %%
# One of these four, as it stands there.
FACTS = ["length of the prompt", "share of the prompt", "length of the answer", "rack of the prefill server"]
fact = ...
### BEGIN SOLUTION
fact = "share of the prompt"
### END SOLUTION
predict("8.a", fact, choices=FACTS)

# %% [markdown]
"""
## Three choices, not one

A router of a disaggregated fleet chooses three times:

1. **Leave or stay?** Is this prompt prefilled elsewhere, or by the server that will decode it?
2. **Which prefill server**, if it leaves?
3. **Which decode server**, in any case?

They go by different facts, since the two pools are short of different things. Prefill is short of *time to compute*. Decode is short of *room*: every running answer holds blocks and a place in the batch.

So take a prefix that some server already holds. To prefill it is worth exactly the tokens that need not be computed. To decode it saves no computing when the prompt is prefilled elsewhere. Dynamo's settings agree: for the decode stage it gives cache overlap a weight of zero, doesn't assume that cached blocks will be used again, and counts as load only decode work.

## Leave or stay

The natural measure is the part of the prompt that decode would have to compute itself:

    uncached = prompt − cached_on_decode          (tokens)

**llm-d** compares it with one threshold, `nonCachedTokens`. Below it, the prompt stays. The default is 0, which does not mean "everything leaves": it switches the rule off, and everything stays.

**Dynamo** 1.6.1 comes with three policies. Its default, `isl_bounding`, calls the same number the effective input length and asks for two things: the prompt stays only if `uncached` is below 2,048 **and** the share `uncached / prompt` is below 0.7. The other two look at the load on prefill, with a threshold that you have to set. Under `prefill_load` a prompt stays where its prefill server is busier than that; under `isl_or_load`, where either condition holds. From here on *Dynamo's rule* means `isl_bounding`.

Check both on a case you can do in your head. A prompt of 4,000 tokens, 3,000 of them held by decode: 1,000 are missing, a share of 0.25. Short, and a small share: it stays under both rules.

### Worked example

The same prompt, three times, as its cached part shrinks. The rules of this course are small functions, and each gives its reason.
"""

# %%
for cached in (3000, 1900, 0):
    ask = policy.Ask(prompt_tokens=4000, cached_on_decode_tokens=cached)
    for name, rule in (("llm-d, 2048", policy.llm_d(2048)), ("isl_bounding", policy.dynamo())):
        decision = rule(ask)
        print(f"{cached:5,} cached  {name:12} {decision.side:6}  {decision.reason}")

# %% [markdown]
"""
### Now you

Four prompts. First llm-d with `nonCachedTokens: 2048`.
"""

# %% exercise="8.1"
# Exercise 8.1
# "local" or "remote" under llm-d's rule, threshold 2,048.
llm_d_says = {
    "short cold": ...,  # 300 tokens, 0 on decode
    "edge": ...,  # 2,048 tokens, 0 on decode
    "long cached": ...,  # 8,192 tokens, 7,168 on decode
    "long cold": ...,  # 8,192 tokens, 0 on decode
}
### BEGIN SOLUTION
llm_d_says = {"short cold": "local", "edge": "remote", "long cached": "local", "long cold": "remote"}
### END SOLUTION

# %% check="8.1"
check("8.1", llm_d_says)

# %% [markdown]
"""
The same four, and Dynamo's rule: `isl_bounding` with its default thresholds.
"""

# %% exercise="8.2"
# Exercise 8.2
dynamo_says = {"short cold": ..., "edge": ..., "long cached": ..., "long cold": ...}
### BEGIN SOLUTION
dynamo_says = {"short cold": "remote", "edge": "remote", "long cached": "local", "long cold": "remote"}
### END SOLUTION

# %% check="8.2"
check("8.2", dynamo_says)

# %% [markdown]
"""
Write Dynamo's rule yourself. The edges are where routers have bugs, so the checker goes there: a share of exactly 0.7, exactly 2,048 missing tokens, a prompt that is cached to its last token.
"""

# %% exercise="8.3"
# Exercise 8.3
def dynamo_rule(prompt_tokens, cached_on_decode_tokens):
    """Say "local" or "remote", with Dynamo's default thresholds."""
    ...


### BEGIN SOLUTION
def dynamo_rule(prompt_tokens, cached_on_decode_tokens):
    """Say "local" or "remote", with Dynamo's default thresholds."""
    uncached = prompt_tokens - cached_on_decode_tokens
    stays = uncached < 2048 and uncached / prompt_tokens < 0.7
    return "local" if stays else "remote"
### END SOLUTION

# %% check="8.3"
check("8.3", dynamo_rule)

# %% [markdown]
"""
### The map

Now every prompt at once. Along the bottom its length, up the side the share of it that decode holds. The map is drawn by asking the two rules at each point, nothing else.
"""

# %%
import numpy as np

lengths = np.geomspace(100, 20_000, 220).astype(int)
shares = np.linspace(0, 1, 160)
llm_d, dynamo = policy.llm_d(2048), policy.dynamo()
asks = [[policy.Ask(int(n), int(n * share)) for n in lengths] for share in shares]
# 0 both keep it, 1 only Dynamo sends it away, 2 only llm-d does, 3 both do
verdicts = np.array([[2 * llm_d(ask).remote + dynamo(ask).remote for ask in row] for row in asks])

ax = figure(
    "Only short, mostly cold prompts divide the two rules",
    label="hypothetical",
    source="rules of Dynamo 1.6 (isl_bounding, its defaults) and llm-d (threshold of 2,048 assumed)",
    xlabel="prompt length (tokens)",
    ylabel="share of the prompt that decode holds",
    xlog=True,
)
ax.grid(False)
ax.contourf(
    lengths,
    shares,
    verdicts,
    levels=[-0.5, 0.5, 1.5, 2.5, 3.5],
    colors=["#CFE8F7", "#F6D7A7", "#FFFFFF", "#E3E3E3"],
    hatches=["", "///", "", ".."],
)
card = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9}
ax.text(800, 0.75, "both keep it local", ha="center", va="center", bbox=card)
ax.text(800, 0.15, "llm-d keeps it,\nDynamo sends it", ha="center", va="center", bbox=card)
ax.text(8500, 0.2, "both send\nit away", ha="center", va="center", bbox=card)
ax.plot([300], [0], marker="o", color="#D55E00", markersize=10, clip_on=False)
ax.text(285, 0.09, "the puzzle's\nprompt", ha="right", va="center", color="#A34700", bbox=card)
show_figure(
    ax,
    alt="Map of prompt length, 100 to 20,000 tokens, against the share that decode holds. "
    "Where fewer than 2,048 tokens are missing and at most 30 percent is held, llm-d keeps the "
    "prompt and Dynamo sends it. Where 2,048 or more are missing, both send it. Everywhere else "
    "both keep it. The puzzle's prompt, 300 tokens and nothing held, lies where they disagree.",
)

# %% [markdown]
"""
One region of disagreement, and it holds the request that this course ends with.

You run Dynamo with `isl_bounding`, and you want short cold prompts to stay. Its share threshold is a setting: 0.7 as shipped, anything from 0 to 1.
"""

# %% exercise="8.4"
# Exercise 8.4
# Which value of the share threshold keeps a cold prompt of 300 tokens local? A number, or "none".
threshold = ...
### BEGIN SOLUTION
threshold = "none"
### END SOLUTION

# %% check="8.4"
check("8.4", threshold)

# %% [markdown]
"""
So with `isl_bounding` it leaves, whatever the thresholds. With the two policies that look at load it stays while prefill is busy, which is another reason than its length. Is Dynamo's rule wrong, then? No. It protects something else: decode servers that never prefill have no prompt in their steps, whatever arrives. A cached prompt costs them little, so it may stay. A cold one, however short, is work of the kind that decode was freed from. llm-d's rule protects the hand-off budget instead. **Each rule is right about the cost it looks at.** Which cost matters to you is a measurement, not an opinion. Lab L4 takes it.

**Is that really how Dynamo decides?** We asked its own router, version 1.6.1, with simulated engines behind it: 21 prompts around the edges above, under each of four settings of `isl_bounding`, and the requests that filled the cache first. All 140 decisions were those of the rule you wrote (measured; `data/runs/dynamo`, and `make dynamo` asks again). The two policies that look at load were not asked.

The router must *know* what decode holds, and Dynamo's page asks for cache events from decode. In the first setting we left them out. The router took every prompt for cold: all of them left, and nothing warned. llm-d's rule leans the other way: where it can't read the cache's state, the prompt stays, and an error goes to the log. A rule is only as good as the record it reads.

## Which prefill server

Engines cache whole blocks, and a block counts as a hit only when every block before it does. So a prefix of 650 equal tokens is worth less than 650.
"""

# %% exercise="8.5"
# Exercise 8.5
# Block size 128. A server holds a prompt of 700 tokens.
# A new prompt of 1,000 tokens begins with the same 650.
# How many of the new prompt's tokens must that server compute?
to_compute = ...
### BEGIN SOLUTION
to_compute = 1000 - 650 // 128 * 128
### END SOLUTION

# %% check="8.5"
check("8.5", to_compute)

# %% [markdown]
"""
A hit saves the tokens it covers. A queue costs the tokens in it. So there is a price at which the server with the prefix is the wrong one: the prompt is done first where *queued tokens + its own uncached tokens* is smallest.

Two prefill servers, a prompt of 2,000 tokens.
"""

# %% exercise="8.6"
# Exercise 8.6
# "a" or "b": where is the prompt done first?
first_done = {
    "1": ...,  # a holds 1,024 of it and has an empty queue; b holds nothing, empty queue
    "2": ...,  # a holds 1,024 of it and has 1,500 tokens queued; b holds nothing, empty queue
    "3": ...,  # a holds 1,024 of it and has 1,500 tokens queued; b holds 512 and has 900 queued
    "4": ...,  # a holds all but 16 of it and has 3,000 tokens queued; b holds nothing and has 900 queued
}
### BEGIN SOLUTION
first_done = {"1": "a", "2": "b", "3": "b", "4": "b"}
### END SOLUTION

# %% check="8.6"
check("8.6", first_done)

# %% [markdown]
"""
## Which decode server

By load, as we saw. And sometimes by *place*: two servers on one switch move blocks faster than two in different racks. Dynamo can be told so (experimental, version 1.6). A transfer domain is a label such as a rack. With `required` only decode servers in the prefill server's domain are candidates. With `preferred` they get a bonus, and a much emptier server elsewhere may still win.

Here is a router's log. Prefill ran on a server in rack 1 each time, and enforcement is `required`. One line breaks the rules of this section.

| line | chosen | running there | tokens of the prompt held there | rack | other candidates (running, held, rack) |
|---|---|---|---|---|---|
| 1 | d0 | 3 | 0 | 1 | d1 (7, 0, 1) |
| 2 | d1 | 4 | 0 | 1 | d0 (5, 1,024, 1), d2 (1, 0, 2) |
| 3 | d0 | 6 | 2,048 | 1 | d1 (2, 0, 1) |
| 4 | d1 | 3 | 0 | 1 | d0 (5, 0, 1), d2 (0, 0, 2) |

These rows are made up, to be argued about: hypothetical.
"""

# %% exercise="8.7"
# Exercise 8.7
# The number of the line that breaks the rules.
broken_line = ...
### BEGIN SOLUTION
broken_line = 3
### END SOLUTION

# %% check="8.7"
check("8.7", broken_line)

# %% [markdown]
"""
Now the rule itself. `running` maps each decode server to its running requests, `rack` maps it to its rack. Return the name to choose: the least loaded, ties to the first name in the alphabet. With `"required"`, only servers in the prefill server's rack count. If none is left, raise `LookupError`: a router that silently ignores *required* has no such setting.
"""

# %% exercise="8.8"
# Exercise 8.8
def choose_decode(running, rack, prefill_rack, enforcement):
    """The decode server to use; `enforcement` is "required" or "none"."""
    ...


### BEGIN SOLUTION
def choose_decode(running, rack, prefill_rack, enforcement):
    """The decode server to use; `enforcement` is "required" or "none"."""
    names = [name for name in running if enforcement == "none" or rack[name] == prefill_rack]
    if not names:
        raise LookupError(f"no decode server in rack {prefill_rack}")
    return min(names, key=lambda name: (running[name], name))
### END SOLUTION

# %% check="8.8"
check("8.8", choose_decode)

# %% [markdown]
"""
## Where should the threshold be?

Both rules have a number of tokens in them. Where does it come from? A first answer, on the 80-layer model of notebook 02 (hypothetical). Suppose that local prefill disturbs its neighbours by 2 ms at 300 tokens, and in proportion for longer prompts. Suppose a serial hand-off with 1 ms of setup. Then the hand-off costs less than the disturbance from some length on:

    1 + 0.32768 × tokens / link   <   2 × tokens / 300          (ms; link in GB/s)

The left side is notebook 03's floor: the model leaves 327,680 B a token, and a link of 1 GB/s moves that in 0.32768 ms.

Both sides grow with the prompt. Setup is the only thing that length can make up for, so there may be no such length at all.
"""

# %% exercise="8.9"
# Exercise 8.9
# For each link the shortest prompt, in whole tokens, whose hand-off floor
# is below the disturbance. Or "never".
turns_at = {"100 GB/s": ..., "25 GB/s": ..., "10 GB/s": ...}
### BEGIN SOLUTION
turns_at = {"100 GB/s": 295, "25 GB/s": "never", "10 GB/s": "never"}
### END SOLUTION

# %% check="8.9"
check("8.9", turns_at)

# %% [markdown]
"""
Two links of three never get there, however long the prompt. On them a threshold would be a superstition.

But look at what was compared: milliseconds that *this* request waits for its first token, and milliseconds that *other* requests' tokens are late. They fall on different people and under different targets. So the inequality rules links out, and like every floor it lets none in. What decides is attainment, measured under each rule with the same trace.

Last, a sentence from a design review: *"Our decode pool has a prefix cache hit rate of 60 %, so we route decode by prefix overlap and keep it that way."* All prompts of that fleet are prefilled remotely. What does the sentence get for its trouble?
"""

# %% exercise="8.10"
# Exercise 8.10
# What does routing decode by prefix overlap save in that fleet? One of:
# "prefill work", "bytes on the wire", "nothing". NIXL pulls only the blocks that decode does not hold.
saves = ...
### BEGIN SOLUTION
saves = "bytes on the wire"
### END SOLUTION

# %% check="8.10"
check("8.10", saves)

# %% [markdown]
"""
So the sentence is half right. There is a saving, and it is bytes, not prefill. Whether bytes are what the fleet is short of is lab L1's question. Meanwhile the decode pool fills up unevenly, and room is what it is short of. That Dynamo gives overlap no weight there is a default with a reason, and this is the case it has in mind.

## What would change this answer?

- **The link.** On a slow one no length justifies leaving; on a fast one the threshold falls.
- **The interference.** A smaller chunk size shrinks it on the aggregated side (notebook 07), and the threshold rises.
- **Traffic.** Documents come once. Conversations come back, and then the last answer's KV lies on *decode*; no prefill server has seen it. Prefill computes those tokens again, unless the turn stays on that decode server, a shared store holds the blocks, or the connector carries them back (vLLM's NIXL connector can, with `bidirectional_kv_xfer`, off by default). For a chat the second turn may weigh more than the first.
- **The policy, and the router's version.** `prefill_load` and `isl_or_load` decide by load, so the same prompt may stay now and leave a second later. And conditional disaggregation is experimental in Dynamo 1.6: read the rule again before you rely on it.

## Recap

1. Three choices: leave or stay, which prefill server, which decode server.
2. Prefill goes by uncached tokens and queue; decode by load. A hit saves computing where the prompt is computed; on decode it can only save bytes.
3. llm-d looks at the missing tokens. Dynamo's default policy, `isl_bounding`, also asks for their share, and so a short cold prompt leaves. Its two other policies look at load.
4. A hit counts in whole blocks, from the first block on.
5. A threshold comes from a measurement. Its unit is tokens, and its reason is somebody's latency.

Your guess from the start:
"""

# %%
guesses({"8.a": "share of the prompt: Dynamo's isl_bounding asks for it"})

# %% [markdown]
"""
## Two questions from before

Answer from memory, aloud or on paper. Then open the line.

<details><summary>From 02: a prompt of 1,000 tokens is moved from a server with a block size of 128. How many blocks travel, and how many of their token slots are empty?</summary>
8 blocks, which is 1,024 slots; 24 of them are empty and travel along.
</details>

<details><summary>From 06: one report says 94.7 % attainment, another 90 %, for the same run. What does the larger figure hide?</summary>
The requests that failed. It divides by the successful ones, so every failure makes it better. The smaller one divides by all that were offered.
</details>
"""

# %% [markdown]
"""
**Next** is notebook 09: a proposal that sends every prompt away.

## Sources

- llm-d router (llm-d-router, once llm-d-inference-scheduler), `prefix-based-pd-decider`: `prefix_based_pd_decider.go` at commit 00ae081 and the README beside it at 97e847e (accessed 2026-11-30).
- NVIDIA Dynamo 1.6 documentation, router guide, *Disaggregated Serving* and *Conditional Disaggregation* (its three policies; their names also in version 1.6.1's `kv_router_args.py`); conditional disaggregation is marked experimental (accessed 2026-11-30).
- vLLM documentation, *Automatic Prefix Caching* and *NIXL connector usage*, version 0.33.0 (accessed 2026-11-30); `bidirectional_kv_xfer` in the connector's source, version 0.32.0.
"""
