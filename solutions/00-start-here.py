# %% [markdown]
"""
# 00 · Start here

**Time** 15 minutes. **Before this** `make lab`, which opened this page. **You need** some Python, and an idea of what a Transformer is. You need not know how models are served.

At the end you have a first green mark, know how this course checks you, and know which path through it is yours.
"""

# %% [markdown]
"""
## A puzzle

vLLM is a widely used server for language models. It can *disaggregate*: one server reads the prompts, another writes the answers. The page of its documentation that describes this calls it experimental, and says in capitals that it "DOES NOT improve throughput".

DistServe, a paper at OSDI 2024, disaggregates too. It reports up to 7.4 times the request rate per GPU. That maximum is against DeepSpeed-MII, a server by Microsoft, and it holds with over 90 % of requests meeting both latency targets of the paper; against vLLM, on chatbot work, the paper's figures are 2.0 to 4.6.

*Published; see Sources.* Neither side is careless, and both are right. How can that be?

Commit to a guess: **sixteen GPUs run two copies of one model today. Should their team split the phases?**

The boxes below hold code. Click into the first, press Shift and Enter, and it runs. In the second, put your guess in place of the three dots and run it too. Guesses are never marked. They are kept in the course's folder, so a later notebook can show them again.
"""

# %%
from pdlab.course import *

# %%
# "yes", "no" or "it depends"
split = ...
### BEGIN SOLUTION
split = "it depends"
### END SOLUTION
predict("0.a", split, choices=["yes", "no", "it depends"])

# %% [markdown]
"""
## What this course is about

A request has two phases. *Prefill* reads the whole prompt at once. *Decode* writes the answer, a token at a time. On one worker they share the hardware and get in each other's way. Apart, they need not; but then what prefill has computed must travel to decode.

    together   client ─▶ worker: prefill and decode ─▶ tokens

    apart      client ─▶ router ─▶ prefill ══ keys and values ══▶ decode ─▶ tokens

Whether that pays is a question of numbers: how many bytes, over which link, for which prompts, against which opponent, with what promise to the reader. This course gives you the numbers and the means to get your own. Its stance: disaggregation is a trade-off to be measured, never an upgrade to be assumed. At the end you will turn down a proposal that looks good, and say why in terms nobody can shrug off.

## How checking works

A box with text or code is a *cell*, and an exercise is two of them. In the first you replace `...` by your answer. The second checks it, and says one of three things:

- **not attempted**: the dots are still there;
- **not yet**: an answer is there and it is not right. You are told what kind of mistake it looks like, never the answer;
- **correct**: with the points, and why it matters.

Any honest form of an answer will do: `1500`, `1500.0`, `"1,500"`, a NumPy number; where there is a unit, a text such as `"1.5 GB"`. Decimals go behind a point, and three significant digits are enough where an exercise names no more. Ask for help with `hint("0.1")`, once for each further step.

Some cells are there for the figure or table that they draw. Their code is folded into three dots; a click opens it.

Every notebook opens with what its cells showed when nothing was filled in. Nothing has run yet: a cell needs those above it, and without them Python says `NameError`. Run from the top, cell by cell, or choose *Run*, *Run All Above Selected Cell*.

Try it. **A request arrives with a prompt of 2,000 tokens and gets an answer of 200 tokens. How many tokens does the conversation hold then?**
"""

# %% exercise="0.1"
# Exercise 0.1
tokens_held = ...
### BEGIN SOLUTION
tokens_held = 2000 + 200
### END SOLUTION

# %% check="0.1"
check("0.1", tokens_held)

# %% [markdown]
"""
Your file is yours: nothing you type is sent anywhere. In a terminal of this JupyterLab (*File*, *New*, *Terminal*), `pdlab progress` shows how far you are in the whole course, and `pdlab grade notebooks/00-start-here.ipynb` marks one notebook as an instructor would. In a terminal elsewhere the command is `.venv/bin/pdlab`, typed in the course's folder.

## Four kinds of evidence

Most arguments about serving go wrong in one place: a number of one kind is used as if it were of another. So every table and figure here carries one of four labels.

| label | what it is |
|---|---|
| hypothetical | arithmetic on assumed inputs |
| published | a figure from a paper or a project's documentation, with its source and condition |
| simulated | a simulator's prediction for hardware that is not here |
| measured | a run of real servers, with date, machine and versions |

Most runs you will see were *recorded* before the course reached you. They are then labelled "measured (recorded on that date on that machine)" and never shown as if they had run now.

Arithmetic takes the label of what goes into it, and the source says that it is arithmetic: bytes worked out from a published config are published. As soon as one input is assumed (a load, a threshold, 1 ms of setup), the result is hypothetical.

Which label does each of these carry?

| letter | statement |
|---|---|
| A | A model with 80 layers, which nobody has built, would leave so many bytes for each token. |
| B | DistServe sustained up to 7.4 times the request rate of DeepSpeed-MII under the paper's targets. |
| C | For sixteen H100s (NVIDIA's data-centre GPUs) that we do not have, AISimulate, a simulator of model servers, expects a 99th percentile of so many milliseconds. |
| D | On our two-core machine the server's counter showed so many bytes last Tuesday. |
| E | The curve in notebook 01, drawn today from a file that a server's run wrote a month ago. |
"""

# %% exercise="0.2"
# Exercise 0.2
labels = {"A": ..., "B": ..., "C": ..., "D": ..., "E": ...}
### BEGIN SOLUTION
labels = {
    "A": "hypothetical",
    "B": "published",
    "C": "simulated",
    "D": "measured",
    "E": "measured",
}
### END SOLUTION

# %% check="0.2"
check("0.2", labels)

# %% [markdown]
"""
**What would change this answer?** Losing the record. If the file of E no longer said when and where it was made, its curve would be a drawing, and the course would refuse to show it.

## Is this machine ready?

The notebooks need Python and the course's own files. The labs can also run real servers, which takes more: `pdlab doctor` in a terminal says what this machine can run, and what to do about the rest.
"""

# %%
import sys

from pdlab.theory import kv

python_ok = sys.version_info >= (3, 11)
files_ok = (kv.MODELS_DIR / "llama-3.1-8b.json").exists()
print("Python 3.11 or newer:", "yes" if python_ok else "no: install one, run make lab again")
print("course files:", "found" if files_ok else "missing: clone the course again")

# %% [markdown]
"""
## The map

| no. | notebook | it answers | minutes |
|---|---|---|---|
| 00 | start here | how does this course work? | 15 |
| 01 | two phases | why do prefill and decode disturb each other? | 40 |
| 02 | KV sizing | how many bytes would have to travel? | 45 |
| 03 | the hand-off budget | how long do they take, at least? | 45 |
| 04 | published arithmetic | what do the papers' figures say, and what not? | 50 |
| 05 | topology and cost | what does a fair comparison hold equal? | 40 |
| 06 | four metrics | which number is a promise to the reader? | 65 |
| 07 | the equal-budget plan | which design meets the promise at a higher rate? | 70 |
| 08 | routing | which prompts should travel? | 35 |
| 09 | the broken short prompt | is this proposal sound? | 40 |
| 10 | review | what do you still know a day later? | 35 |

Five labs use real servers, or recorded runs of them. Each takes about an hour.

| no. | lab | after |
|---|---|---|
| L1 | measure a link, and account for every byte | 03 |
| L2 | aggregated against disaggregated, at an equal budget | 07 |
| L3 | break a transfer | 05 |
| L4 | route by length and cache | 08 |
| L5 | the same on a cluster | L2 |

**On your own**, go in order, one notebook a sitting. Do 10 a day or more after 09: what you can still say then, you have learnt.

**In a workshop**, or with less time, choose one of three paths. The minutes are the sum of the notebooks' own; breaks and meals come on top.

| path | minutes | in this order | what the group takes home |
|---|---|---|---|
| short, two and a half hours | 145 | 00, 02, 03, 09 | sizing a transfer; refusing a claim that a floor cannot carry |
| half a day | 245 | 00, 01, 02, 03, a break; L2 on recorded runs; 09 | also: how to compare two designs fairly |
| a day | 470 | 00 to 03, a break, 05, L1; lunch; 06, L2 on the cluster (for the instructor: `labs/cluster.md`), a break, L3, 09 | also: a measurement of one's own, and a failure survived |

03 and 09 explain the words that come from notebooks a path leaves out. Before L2, read the recaps of the notebooks that your path leaves out: 06 and 07 on the half day, 07 on the day.

04 and 08 make good reading before a workshop, 10 a good meeting a week after it.

## Recap

1. Disaggregation puts prefill and decode on workers of their own, and the cache has to travel.
2. One honest source says it raises no throughput, another reports several times the rate within targets. Both state conditions.
3. A check says not attempted, not yet, or correct; a hint gives one step; nothing gives the answer.
4. Every number is hypothetical, published, simulated or measured, and says which.
5. A recorded run is shown with its date and machine.

Your guess, for comparison when you finish 09:
"""

# %%
guesses()

# %% [markdown]
"""
## Two questions to take along

There is nothing before this notebook to remember, so here are two to carry. Notebooks 01 and 04 come back to them.

<details><summary>vLLM says "no more throughput", DistServe says "up to 7.4 times". Are they counting the same thing?</summary>
No. Throughput counts all tokens or requests a second. DistServe counts the requests a second that a GPU can take while over 90 % of them still meet both latency targets. A change can raise the second and leave the first where it is.
</details>

<details><summary>A colleague shows you a ratio between two systems. What do you ask for first?</summary>
Both numbers, the condition under which each was taken, and what the two sides had in common: the same hardware, requests and limits. A ratio without them is an opinion.
</details>
"""

# %% [markdown]
"""
**Next** is notebook 01: one long prompt, and a reader who waits. On the short path it is notebook 02.

## Sources

Accessed in November 2026.

- vLLM documentation, *Disaggregated Prefilling (experimental)*, version 0.33.
- Y. Zhong et al., *DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large Language Model Serving*, OSDI 2024.
"""
