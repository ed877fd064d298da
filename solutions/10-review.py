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
# **Time** 30 minutes. **Before this** everything else, at least a day ago. **You need** no notes. **Run
# from the top**: each cell needs those above it.
#
# Here is an uncomfortable result from memory research. Two groups study the same page. One reads it
# four times. The other reads it once and then tries three times to recall it on a blank sheet.
# Asked at once, the readers feel surer and do a little better. Asked a week later, the recallers
# remember far more ([Roediger and Karpicke, 2006](#sources)).
#
# Reading feels like knowing. Recalling *is* knowing, and it feels bad while you do it. So this
# notebook has no new material. It has six questions and a blank cell for each.
#
# **The rules.** No scrolling back, no other notebook open. Answer in one to three sentences, as if
# a new colleague had asked you at the coffee machine. Write something even when you aren't sure: a
# wrong guess that gets corrected stays longer than a right answer that was looked up.

# %%
from pdlab.course import *

# %% [markdown]
# ## Predict
#
# How many of the six will you get at the first try? Keep the number. You will see it again.

# %% predict="10.a"
at_first_try = ...
### BEGIN SOLUTION
at_first_try = 4
### END SOLUTION
predict("10.a", at_first_try, choices=[0, 1, 2, 3, 4, 5, 6])

# %% [markdown]
# ## Six questions
#
# The checker reads your sentences for a few ideas each, and for the well-known wrong turns. It knows
# many wordings, not all of them. If it doesn't see an idea that you are sure you wrote, say it in
# plainer words.
#
# ### 1 · What vLLM's feature is for

# %% exercise="10.1"
# Exercise 10.1
# What is vLLM's disaggregated prefilling for, by its own documentation?
purpose = ...
### BEGIN SOLUTION
purpose = (
    "To tune TTFT and ITL apart from each other, and to keep the tail of ITL under control. "
    "It is experimental and does not improve throughput."
)
### END SOLUTION

# %% check="10.1"
check("10.1", purpose)

# %% [markdown]
# ### 2 · Peak bandwidth

# %% exercise="10.2"
# Exercise 10.2
# Why is a link's peak bandwidth not enough to predict a hand-off?
peak = ...
### BEGIN SOLUTION
peak = (
    "An application gets the sustained payload rate, which lies below the peak: protocol, message "
    "size and contention take their share. Setup comes on top, and no bandwidth holds it."
)
### END SOLUTION

# %% check="10.2"
check("10.2", peak)

# %% [markdown]
# ### 3 · Prefix locality

# %% exercise="10.3"
# Exercise 10.3
# Where does prefix locality act in the routing of a request, and where normally not?
locality = ...
### BEGIN SOLUTION
locality = (
    "In choosing the prefill worker, where a cached prefix saves computing. Decode is chosen by load: "
    "its blocks come over the wire either way."
)
### END SOLUTION

# %% check="10.3"
check("10.3", locality)

# %% [markdown]
# ### 4 · Layer-wise transfer

# %% exercise="10.4"
# Exercise 10.4
# What does layer-wise transfer hide, and what does it leave?
layerwise = ...
### BEGIN SOLUTION
layerwise = (
    "It hides the sending of finished layers behind the prefill of later layers. The last layer, setup "
    "and synchronisation are left, and for short prompts it doesn't pay."
)
### END SOLUTION

# %% check="10.4"
check("10.4", layerwise)

# %% [markdown]
# ### 5 · Throughput

# %% exercise="10.5"
# Exercise 10.5
# Why does raw throughput not choose a deployment?
yardstick = ...
### BEGIN SOLUTION
yardstick = (
    "Tokens that come too late count in throughput and help nobody. What chooses is goodput per GPU at "
    "an equal budget: the rate at which requests still meet TTFT and TPOT."
)
### END SOLUTION

# %% check="10.5"
check("10.5", yardstick)

# %% [markdown]
# ### 6 · The short prompt

# %% exercise="10.6"
# Exercise 10.6
# Why does the short prompt of notebook 09 stay where it is, for now?
short_prompt = ...
### BEGIN SOLUTION
short_prompt = (
    "Its hand-off costs at least 8.83 ms more than the interference it saves, and no end-to-end sweep "
    "has shown that this pays. That is insufficient evidence to adopt, not proof of a violation."
)
### END SOLUTION

# %% check="10.6"
check("10.6", short_prompt)

# %% [markdown]
# ## Beside ours
#
# A checker can tell whether an idea is *named*. Whether you could explain it is yours to say. The
# next cell shows our answer beside each of yours, once you have written one.

# %%
from textwrap import fill

from pdlab.course.recall import QUESTIONS

mine = (purpose, peak, locality, layerwise, yardstick, short_prompt)
for (number, question), words in zip(QUESTIONS.items(), mine):
    print(fill(f"{number}  {question.ask}", 90, subsequent_indent="      "))
    if isinstance(words, str) and len(words.split()) >= 4:
        for whose, text in (("yours", words), ("ours", question.model_answer)):
            print(fill(f"{whose:>5} {text}", 90, subsequent_indent="      "))
    else:
        print("      answer first, then run this cell again")
    print()

# %% [markdown]
# Score yourself on each, honestly. Nobody sees it but you.
#
# | points | when |
# |---|---|
# | 2 | I could explain this to a colleague, with the reason and a number or a case |
# | 1 | I had the words, but not the reason |
# | 0 | I had to look |
#
# **Ten or more:** go and measure something. **Six to nine:** do the exercises of the notebooks that
# cost you points, and come back in a week. **Below six:** nothing is lost. Take the two weakest
# questions, open those notebooks, and teach them to somebody.

# %% predict="10.b"
# your points for the six questions, in order
my_points = ...
### BEGIN SOLUTION
my_points = [2, 2, 1, 2, 2, 2]
### END SOLUTION
predict("10.b", my_points)

# %% [markdown]
# ## Are you done?
#
# The course set out ten things that you should be able to do. Each is tied to exercises that prove
# it. `pdlab progress` fills the list from your own notebooks; here it is as it stands in the course.

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

# %% exercise="10.7"
# Exercise 10.7
# "measure" or "keep" for each.
next_move = {
    "a": ...,  # documents of 8,000 tokens, nothing shared; with the best chunk size ITL misses its target
    "b": ...,  # chat turns of 300 tokens; P95 ITL well inside its target
    "c": ...,  # long agent prompts, of which decode already holds nine tenths
    "d": ...,  # a slide says 7.4 times; the fleet's chunk size has never been touched
    "e": ...,  # chats stall at every 30,000-token upload, and each chunk size that cures it breaks TTFT
}
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
