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
# # 10 · Review
#
# **Time** 35 minutes. **Before this** everything else, at least a day ago. **You need** no notes. **Run
# from the top**: each cell needs those above it.
#
# Here is an uncomfortable result from memory research. Two groups study the same page. One reads it
# four times. The other reads it once and then tries three times to recall it on a blank sheet.
# Asked at once, the readers feel surer and do a little better. Asked a week later, the recallers
# remember far more ([Roediger and Karpicke, 2006](#sources)).
#
# Reading feels like knowing. Recalling *is* knowing, and it feels bad while you do it. So this
# notebook has no new material. First six questions, each with a blank cell, to be answered in your
# own words. Then six cases that you have not seen, to find out whether the words carry you. Only then
# our words, beside yours.
#
# **The rules.** No scrolling, up or down, no other notebook open. Answer in one to three sentences,
# as if a new colleague had asked you at the coffee machine. Write something even when you aren't
# sure: a wrong guess that gets corrected stays longer than a right answer that was looked up.

# %%
from pdlab.course import *
from pdlab.course.recall import beside, own_words

# %% [markdown]
# ## Predict
#
# For how many of the six questions will you know the answer, with its reason? Keep the number. You
# will see it again.

# %% predict="10.a"
at_first_try = ...
### BEGIN SOLUTION
at_first_try = 4
### END SOLUTION
predict("10.a", at_first_try, choices=[0, 1, 2, 3, 4, 5, 6])

# %% [markdown]
# ## Six questions
#
# Write each answer as a text in quotes. Nothing marks it. A program can see which words a sentence
# has and not whether it is right, so that is left to you, further down. A wrong sentence, a short one or
# *I don't know* will do. Write all six before you go on.

# %%
# 1  What is vLLM's disaggregated prefilling for, by its own documentation?
purpose = ...
### BEGIN SOLUTION
purpose = (
    "Two separate knobs: one for how fast the first token comes, one for how smooth the stream is, "
    "especially in the tail. It is an experiment still, and it brings no throughput."
)
### END SOLUTION
own_words(1, purpose)

# %%
# 2  Why is a link's peak bandwidth not enough to predict a hand-off?
peak = ...
### BEGIN SOLUTION
peak = (
    "Peak is the data sheet's rate. What arrives is less: protocol, small messages, other traffic. "
    "And setup is a time of its own."
)
### END SOLUTION
own_words(2, peak)

# %%
# 3  Where does prefix locality act in the routing of a disaggregated request, and where normally not?
locality = ...
### BEGIN SOLUTION
locality = (
    "Where the prompt is prefilled: what a server holds, it need not compute again. For decode one "
    "looks at how full the servers are."
)
### END SOLUTION
own_words(3, locality)

# %%
# 4  What does layer-wise transfer hide, and what does it leave?
layerwise = ...
### BEGIN SOLUTION
layerwise = (
    "It hides all but the last layer behind the computing of the next ones. It leaves that layer, "
    "setup, and synchronisation in each."
)
### END SOLUTION
own_words(4, layerwise)

# %%
# 5  Why does raw throughput not choose a deployment?
yardstick = ...
### BEGIN SOLUTION
yardstick = (
    "It counts answers that nobody wanted any more. Count those within TTFT and TPOT, and divide by "
    "the GPUs."
)
### END SOLUTION
own_words(5, yardstick)

# %%
# 6  Why does the short prompt of notebook 09 stay where it is, for now?
short_prompt = ...
### BEGIN SOLUTION
short_prompt = (
    "Moving it takes longer than the disturbance it spares the others, and nobody has run both "
    "designs end to end. So we don't know enough to change anything."
)
### END SOLUTION
own_words(6, short_prompt)

# %% [markdown]
# ## Six cases
#
# One for each question, in the same order. They are new, so no sentence that you remember is the
# answer; the idea behind it is. These are marked.
#
# ### 1 · A mail about a feature
#
# Your platform team announces vLLM's disaggregated prefilling: the same GPUs, each phase on servers
# of its own. The mail has six sentences.
#
# - **a.** "From now on each of two latencies can be tuned without touching the other."
# - **b.** "The same GPUs will finish more answers a second."
# - **c.** "The longest gaps between our tokens will halve."
# - **d.** "Its settings are final. Nothing will change under us."
# - **e.** "It is a way to keep the longest gaps between tokens in hand."
# - **f.** "On servers that do both phases no chunk size could have kept them in hand."
#
# What does vLLM's documentation of the feature do with each?

# %% exercise="10.1"
# Exercise 10.1
# "says it", "says the opposite" or "says neither"
the_page = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
### BEGIN SOLUTION
the_page = {
    "a": "says it",
    "b": "says the opposite",
    "c": "says neither",
    "d": "says the opposite",
    "e": "says it",
    "f": "says the opposite",
}
### END SOLUTION

# %% check="10.1"
check("10.1", the_page)

# %% [markdown]
# ### 2 · Four links
#
# All of it hypothetical. Somebody has measured P and Q: payload, sustained, setup apart.
#
# | link | data sheet, GB/s | measured, GB/s | setup, ms |
# |---|---|---|---|
# | P | 100 | 40 | 5 |
# | Q | 25 | 20 | 1 |
# | R | 60 | nobody has | nobody has |
# | S | 12.5 | nobody has | nobody has |
#
# Whose hand-off floor is lower?
#
# - **a.** 20 MB over P or Q
# - **b.** 150 MB over P or Q
# - **c.** 500 MB over P or Q
# - **d.** 500 MB over P or R
# - **e.** 500 MB over P or S

# %% exercise="10.2"
# Exercise 10.2
# the name of the link, or "not known"
lower_floor = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ...}
### BEGIN SOLUTION
lower_floor = {"a": "Q", "b": "Q", "c": "P", "d": "not known", "e": "P"}
### END SOLUTION

# %% check="10.2"
check("10.2", lower_floor)

# %% [markdown]
# ### 3 · Two requests
#
# A fleet of three prefill and three decode servers; every prompt is prefilled remotely. Request A has
# a prompt of 5,000 tokens. An hour later comes request B, with another prompt, of 1,000. *Holds* says
# how many tokens of this prompt stand in the server's cache, in whole blocks and from the first on. (Hypothetical.)
#
# | server | holds of A | when A comes | holds of B | when B comes |
# |---|---|---|---|---|
# | p0 | 4,096 | 2,000 tokens queued | 0 | 2,000 tokens queued |
# | p1 | 0 | 500 tokens queued | 0 | 500 tokens queued |
# | p2 | 4,864 | 6,000 tokens queued | 896 | 6,000 tokens queued |
# | d0 | 4,864 | 14 requests running | 0 | 2 requests running |
# | d1 | 2,048 | 9 requests running | 0 | 11 requests running |
# | d2 | 0 | 3 requests running | 896 | 7 requests running |
#
# Which servers should a router with the habits of notebook 08 choose?

# %% exercise="10.3"
# Exercise 10.3
chosen = {"A prefill": ..., "A decode": ..., "B prefill": ..., "B decode": ...}
### BEGIN SOLUTION
chosen = {"A prefill": "p0", "A decode": "d2", "B prefill": "p1", "B decode": "d0"}
### END SOLUTION

# %% check="10.3"
check("10.3", chosen)

# %% [markdown]
# ### 4 · Six changes
#
# A prompt is sent layer by layer: 80 layers, each with 3 ms to compute, 1 ms to send and 0.05 ms to
# track, and 1 ms of setup for all. (Hypothetical.) One thing changes, the rest stays:
#
# - **a.** a slower GPU: each layer takes 6 ms to compute
# - **b.** the last layer's cache has twice the bytes
# - **c.** the first layer's cache has twice the bytes
# - **d.** FP8: every layer's cache has half the bytes
# - **e.** setup takes 2 ms
# - **f.** a prompt of 40 tokens, 2 ms to send in all, goes in one piece after prefill, with nothing to track
#
# What happens to the time that the hand-off adds to prefill, as notebook 03 counts it? (In f, compared
# with the same short prompt sent layer by layer.)

# %% exercise="10.4"
# Exercise 10.4
# "more", "less" or "same"
added_time = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
### BEGIN SOLUTION
added_time = {"a": "same", "b": "more", "c": "same", "d": "less", "e": "more", "f": "less"}
### END SOLUTION

# %% check="10.4"
check("10.4", added_time)

# %% [markdown]
# ### 5 · Three designs
#
# The same trace at four rates. A and B have 8 GPUs, C has 16. The gate: at least 95 % of all offered
# requests meet TTFT and TPOT. (Hypothetical.)
#
# | design | GPUs | met both, at 8 requests/s | at 16 | at 24 | at 32 | finishes at most |
# |---|---|---|---|---|---|---|
# | A | 8 | 97 % | 88 % | 40 % | 31 % | 24 requests/s |
# | B | 8 | 99 % | 96 % | 61 % | 35 % | 18 requests/s |
# | C | 16 | 99 % | 98 % | 96 % | 80 % | 30 requests/s |
#
# For each design the one figure to compare it by, as a plain number of requests/s per GPU. Then the
# design to choose.

# %% exercise="10.5"
# Exercise 10.5
table = {"A": ..., "B": ..., "C": ..., "choose": ...}
### BEGIN SOLUTION
table = {"A": 8 / 8, "B": 16 / 8, "C": 24 / 16, "choose": "B"}
### END SOLUTION

# %% check="10.5"
check("10.5", table)

# %% [markdown]
# ### 6 · The proposal comes back
#
# Notebook 09's author returns six times, each time with one new sheet of paper and nothing else. (All
# made up.)
#
# - **a.** A link of 100 GB/s is bought: the floor is 1.98 ms now, the interference 2 ms.
# - **b.** A sweep: 16 GPUs a side, chunk size tuned first, then two traces that were not used for the
#   tuning, the same for both sides. On either one every gate passes up to 30 requests/s if the short
#   prompts leave, up to 22 if they stay.
# - **c.** The sweep of b, but with the aggregated side's chunk size as shipped.
# - **d.** A sum: 35 ms today + 10.83 ms of hand-off = 45.83 ms, which is under 50 ms.
# - **e.** The sweep of b with the figures exchanged: 22 if they leave, 30 if they stay.
# - **f.** Prompts have grown to 600 tokens: the hand-off costs 16.7 ms more than it saves.
#
# Your verdict on sending the short prompts away: `"adopt"` or `"reject"` where the sheet decides it,
# `"not yet"` where it doesn't.

# %% exercise="10.6"
# Exercise 10.6
# "adopt", "not yet" or "reject"
new_sheet = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ..., "f": ...}
### BEGIN SOLUTION
new_sheet = {"a": "not yet", "b": "adopt", "c": "not yet", "d": "not yet", "e": "reject", "f": "not yet"}
### END SOLUTION

# %% check="10.6"
check("10.6", new_sheet)

# %% [markdown]
# ## Beside ours
#
# Back to your six sentences. The next cell shows ours beside each of yours, once you have written
# anything, with what to look for. Other words are fine; a sentence turned round is not.

# %%
beside({1: purpose, 2: peak, 3: locality, 4: layerwise, 5: yardstick, 6: short_prompt})

# %% [markdown]
# Score yourself on each, honestly. Nobody sees it but you.
#
# | points | when |
# |---|---|
# | 2 | my sentence says it, and I could give the reason and a number or a case |
# | 1 | I had the words, but not the reason; or half of it |
# | 0 | it says something else, or I had to look |
#
# **Ten or more:** go and measure something. **Six to nine:** do the exercises of the notebooks that
# cost you points, and come back in a week. **Below six:** nothing is lost. Take the two weakest
# questions, open those notebooks, and teach them to somebody.

# %% predict="10.b"
# your points for the six questions, in order: a list of six numbers
my_points = ...
### BEGIN SOLUTION
my_points = [2, 2, 1, 2, 2, 2]
### END SOLUTION
predict("10.b", my_points, choices=[0, 1, 2], count=6)

# %% [markdown]
# ## Are you done?
#
# The course set out ten things that you should be able to do. Each is tied to exercises that prove
# it. Here are their topics. `pdlab progress` fills the list from your own notebooks, and writes out each
# line that you have proved.

# %%
from pdlab.course import completion

completion.show()

# %% [markdown]
# Run this in a terminal, in the course's folder:
#
#     pdlab progress
#
# ## One more for the road
#
# The whole course in one exercise. Five situations, and for each one word: would you *measure*
# disaggregation there, or *keep* aggregated serving for now? None of them is *adopt*. That word needs
# a sweep.
#
# - **a.** documents of 8,000 tokens, nothing shared; with the best chunk size ITL misses its target
# - **b.** chat turns of 300 tokens; P95 ITL well inside its target
# - **c.** long agent prompts, of which decode already holds nine tenths
# - **d.** a slide says 7.4 times; the fleet's chunk size has never been touched
# - **e.** chats stall at every 30,000-token upload, and each chunk size that cures it breaks TTFT

# %% exercise="10.7"
# Exercise 10.7
# "measure" or "keep" for each
next_move = {"a": ..., "b": ..., "c": ..., "d": ..., "e": ...}
### BEGIN SOLUTION
next_move = {"a": "measure", "b": "keep", "c": "keep", "d": "keep", "e": "measure"}
### END SOLUTION

# %% check="10.7"
check("10.7", next_move)

# %% [markdown]
# ## What would change this answer?
#
# Every verdict of this course has a date on it. A runtime that streams the first token from prefill
# moves the hand-off to another metric. A faster fabric lowers the floor; a new attention variant
# lowers the bytes. Longer prompts raise both sides of the trade. When one of these changes, the
# *method* stays: size it, bound it, declare the gates, give both sides the same budget, measure end
# to end, and say what you don't know.
#
# ## Recap
#
# 1. Two phases, two bottlenecks, and both move with workload and hardware.
# 2. A hand-off has a floor you can compute and a rest you can only measure.
# 3. Published gains carry their baseline and their condition, or they carry nothing.
# 4. A deployment is chosen by SLO-compliant capacity at an equal budget, with the denominator declared.
# 5. *Insufficient evidence* is a verdict.
#
# Your guess from the start, beside the points that you gave yourself:

# %%
guesses()

# %% [markdown]
# ## Sources
#
# - H. L. Roediger, J. D. Karpicke, *Test-Enhanced Learning*, Psychological Science 17(3), 2006
#   (accessed 2026-11-30).
# - vLLM documentation, *Disaggregated Prefilling* (version 0.33.0, accessed 2026-11-30).
# - NVIDIA Dynamo documentation, *Disaggregated Serving* and router guide (version 1.6, accessed 2026-11-30).
# - P. Patel et al., *Splitwise*, ISCA 2024 (accessed 2026-11-30).
