# %% [markdown]
"""
# 02 · What a prompt weighs

**Time** 45 minutes, with a good place to stop after 25. **Before this** notebook 01: why each decode step reads the cache; on the short path notebook 00 is enough. **You need** attention as a Transformer does it: queries, keys, values, heads. **Run from the top**: each cell needs those above it.

At the end you can open any model's `config.json` and say how many bytes a prompt leaves behind: in total, on each GPU, and in whole blocks. Then you predict, to the byte, what a transfer between two real servers counted.
"""

# %%
from pdlab.course import *
from pdlab.theory import kv

# %% [markdown]
"""
## A puzzle

Three models read the same prompt of 2,000 tokens. When prefill is done, each has filled a cache of keys and values. If another machine is to decode, that cache has to travel.

| model | parameters |
|---|---|
| Llama-3.1-8B | 8 billion |
| OPT-66B | 66 billion |
| DeepSeek-V3 | 671 billion |

The largest of the three leaves the *smallest* cache, and the middle one leaves by far the largest. Whatever the bytes depend on, it is not the number of parameters.

Commit to two guesses before you read on. Nobody marks them. They come back at the end.
"""

# %%
# How many times as many bytes does OPT-66B leave as DeepSeek-V3?
# A number; within a factor of two is a good guess.
times_as_many = ...
### BEGIN SOLUTION
times_as_many = 8  # a guess, and a fair one: the ratio of the heads
### END SOLUTION
predict("2.a", times_as_many)

# %%
# A model with 80 layers and 8 KV heads of 128 reads 2,000 tokens in BF16, 2 bytes a number.
# How many megabytes does it leave?
megabytes = ...
### BEGIN SOLUTION
megabytes = 500
### END SOLUTION
predict("2.b", megabytes)

# %% [markdown]
"""
## One token, one layer

Why is anything kept at all? To choose token 2,001, each layer compares one new query with the keys of all 2,000 tokens before it, then mixes their values. Those keys and values do not change as the text grows. Computing them again would be a second prefill for every token, so the server keeps them. That store is the *KV cache*.

Take one layer and one KV head. For one token it keeps a key, 128 numbers, and a value, 128 more. In BF16, a format of 16 bits, a number is 2 bytes. So 256 numbers, 512 bytes. Eight such heads in a layer: 4,096 bytes. Every layer does the same, and so does every token. Nothing else is in the formula:

    KV_bytes = 2 × layers × kv_heads × head_dim × bytes_per_element × tokens

| symbol | unit | what it is |
|---|---|---|
| 2 | – | one key and one value |
| layers | layers | those with attention |
| kv_heads | heads | heads that own keys and values; often fewer than query heads |
| head_dim | elements | length of one key |
| bytes_per_element | B | BF16 and FP16: 2, FP32: 4, FP8: 1 |
| tokens | tokens | how many positions are kept |

Try it on a case you can do in your head: one layer, one head, one element of one byte, one token. That leaves 2 bytes. If a formula gives 1 here, it has forgotten the values.

### Worked example

32 layers, 8 KV heads of 128, BF16, 4,096 tokens. One token first, the whole prompt next, and the unit last.
"""

# %%
one_token = 2 * 32 * 8 * 128 * 2  # K and V × layers × KV heads × head_dim × bytes
prompt = one_token * 4096
print(f"one token     {one_token:>11,} B   [hypothetical]")
print(f"4,096 tokens  {prompt:>11,} B = {prompt / 2**20:g} MiB")

# %% [markdown]
"""
### Now you: one step is missing

The course's own model has **80 layers, 8 KV heads, head_dim 128, in BF16**. It is hypothetical: arithmetic on assumed inputs. You will meet it until notebook 10. The first line gives what one layer keeps for one token; finish the second.

`hint("2.1")` helps, one step a call.
"""

# %% exercise="2.1"
# Exercise 2.1
one_layer = 2 * 8 * 128 * 2  # bytes of one token in one layer
bytes_per_token = ...  # bytes of one token in the whole model, exactly
### BEGIN SOLUTION
bytes_per_token = one_layer * 80
### END SOLUTION

# %% check="2.1"
check("2.1", bytes_per_token)

# %% [markdown]
"""
### Only the question

The same model reads **2,000 tokens**. How large is its cache, in **MiB**? A number is read as MiB; a text with a unit, such as `"1.5 GB"`, is read as it stands.
"""

# %% exercise="2.2"
# Exercise 2.2
cache = ...
### BEGIN SOLUTION
cache = bytes_per_token * 2000 / 2**20
### END SOLUTION

# %% check="2.2"
check("2.2", cache)

# %% [markdown]
"""
You will want this more than once, so make it a function. It returns bytes, for any model whose layers are all alike.
"""

# %% exercise="2.3"
# Exercise 2.3
def kv_bytes(layers, kv_heads, head_dim, bytes_per_element, tokens):
    """Bytes of KV that one sequence of `tokens` tokens leaves."""
    ...


### BEGIN SOLUTION
def kv_bytes(layers, kv_heads, head_dim, bytes_per_element, tokens):
    """Bytes of KV that one sequence of `tokens` tokens leaves."""
    return 2 * layers * kv_heads * head_dim * bytes_per_element * tokens
### END SOLUTION

# %% check="2.3"
check("2.3", kv_bytes)

# %% [markdown]
"""
## Two numbers that look alike

1 GB is 10⁹ bytes. 1 GiB is 2³⁰, which is 7.4 % more. Links are sold in GB/s, memory is reported in GiB, and many papers write "GB" for either. A budget of 20 ms has no room for a silent 7 %.

Three statements about caches, as published. The first two are about models of the same KV shape, yet they print different numbers:

| letter | who says | about | printed |
|---|---|---|---|
| A | Mooncake, FAST 2025 | one token of LLaMA3-70B (80 × 8 × 128, BF16) | 320 KB |
| B | DeepSeek-V3, ISCA 2025, table 1 | one token of Qwen2.5-72B (80 × 8 × 128, BF16) | 327.680 KB |
| C | Mooncake, FAST 2025 | 128k = 131,072 tokens of LLaMA3-70B | 40 GB |

*Published: the two papers named, see Sources.* Which prefix does each of them use, whatever it prints: `"decimal"` (1,000) or `"binary"` (1,024)?
"""

# %% exercise="2.4"
# Exercise 2.4
prefixes = {"A": ..., "B": ..., "C": ...}
### BEGIN SOLUTION
prefixes = {"A": "binary", "B": "decimal", "C": "binary"}
### END SOLUTION

# %% check="2.4"
check("2.4", prefixes)

# %% [markdown]
"""
**What would change this answer?** The shape. Had LLaMA3-70B 64 KV heads, as it has query heads, all three figures would be of a different model, and no choice of prefix would make them fit.

## Real models

The first Transformers gave each query head its own key and value: *multi-head attention*, MHA. OPT-66B does that with 72 heads. *Grouped-query attention*, GQA, lets several query heads share one KV head; Llama-3.1-8B has 32 query heads and 8 KV heads, so it keeps a quarter. *Multi-query attention*, MQA, goes to the end of that road: one KV head for all.

A model's `config.json` says which. Three fields carry the news, and each can be absent:

- `num_key_value_heads`: the KV heads. Absent in older configs, and then it equals `num_attention_heads`.
- `head_dim`: absent in many configs, and then it is `hidden_size / num_attention_heads`. Where it is stated, it wins.
- `num_hidden_layers`: the layers. Ask whether all of them attend, and to how much.

Here is what real configs come to. `kv.load` reads a config that ships with the course, `kv.from_config` turns it into a shape. One row breaks the formula: deepseek-v3 has an attention of a fourth kind, MLA, that keeps one vector in place of keys and values. So there is no 2 in its bytes; *One latent in place of K and V* below says why.
"""

# %%
NAMES = (
    "opt-66b", "phi-3-mini", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b",
    "qwen3-32b", "gemma-2b", "deepseek-v3", "smollm2-135m",
)
rows = []
for name in NAMES:
    shape = kv.from_config(kv.load(name))
    one = shape.groups[0]
    size = kv.bytes_per_token(shape)
    rows.append([name, shape.kind, shape.layers, one.heads, one.head_dim, size])
show_table(
    rows,
    ["model", "attention", "layers", "KV heads", "head_dim", "bytes a token (BF16)"],
    caption="What one token leaves, by model",
    label="published",
    source="each model's config.json; the bytes follow from it",
)

# %%
# Parameters in billions, as the model cards state them, and where each name goes.
CARDS = {
    "opt-66b": (66, -9, 0), "phi-3-mini": (3.8, -9, 0), "llama-3.1-8b": (8, 9, 0),
    "llama-3.1-70b": (70.6, 9, 0), "llama-3.1-405b": (405, -9, 6), "qwen3-32b": (32.8, 9, -9),
    "gemma-2b": (2.5, 9, 0), "deepseek-v3": (671, -12, 0), "smollm2-135m": (0.135, 9, 9),
}
LOOKS = {"MHA": ("#D55E00", "s"), "GQA": ("#0072B2", "o"), "MQA": ("#009E73", "^"), "MLA": ("#000000", "D")}
ax = figure(
    "OPT-66B keeps 34 times as much a token as DeepSeek-V3, a model ten times its size",
    label="published", source="config.json and model card of each model",
    xlabel="parameters in billions", ylabel="KV bytes a token in BF16", xlog=True, ylog=True,
)
for name, kind, *_, size in rows:
    colour, marker = LOOKS[kind]
    billions, dx, dy = CARDS[name]
    ax.plot(billions, size, marker=marker, color=colour, markersize=10, linestyle="")
    name_at(ax, billions, size, f"{name}, {kind}", colour, dx, dy)
ax.set(xlim=(0.08, 2500), ylim=(1e4, 5e6))
show_figure(ax, alt="""
    KV bytes a token against parameters, nine models. OPT-66B with MHA keeps 2,359,296 bytes;
    DeepSeek-V3 with MLA and 671 billion parameters keeps 70,272. The GQA models from 8 to 405
    billion parameters lie between 131,072 and 516,096. Within one kind of attention the bytes
    grow slowly with the model; the kind counts for more: OPT-66B keeps 7.2 times as much as
    Llama-3.1-70B, a GQA model of about its size.
""")

# %% [markdown]
"""
### Find the fault

A colleague sizes Qwen3-32B on the back of an envelope. Her config says:
"""

# %%
config = kv.load("qwen3-32b")
for field in (
    "hidden_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size",
):
    print(f"{field:>20}: {config[field]}")

# %% [markdown]
"""
and her envelope:

> 64 layers. 8 KV heads. A head is 5,120 / 64 = 80 wide. So 2 × 64 × 8 × 80 × 2 = 163,840 bytes a token.

Every product is right, and the total is wrong. Which field of the config has she left unread? Give its name.
"""

# %% exercise="2.5"
# Exercise 2.5
unread_field = ...
### BEGIN SOLUTION
unread_field = "head_dim"
### END SOLUTION

# %% check="2.5"
check("2.5", unread_field)

# %% [markdown]
"""
### One latent in place of K and V

DeepSeek-V3 has 128 heads and yet keeps next to nothing. Its *multi-head latent attention*, MLA, does not store keys and values. It stores one compressed vector per token and layer, from which every head's key and value can be computed again. Its config calls the length of that vector `kv_lora_rank`, 512. Position has to be kept outside the compression, in `qk_rope_head_dim` more elements, 64, which all heads share. So the formula loses two of its factors: no 2, and no heads.

    MLA_bytes = layers × (kv_lora_rank + qk_rope_head_dim) × bytes_per_element × tokens

For DeepSeek-V3 that is 61 × (512 + 64) × 2 = 70,272 bytes a token, the figure that its authors print as 70.272 KB.

A hypothetical MLA model has **40 layers, 128 heads, `kv_lora_rank` 512 and `qk_rope_head_dim` 64, in BF16**. How many bytes exactly does one token leave?
"""

# %% exercise="2.6"
# Exercise 2.6
mla_bytes_per_token = ...
### BEGIN SOLUTION
mla_bytes_per_token = 40 * (512 + 64) * 2
### END SOLUTION

# %% check="2.6"
check("2.6", mla_bytes_per_token)

# %% [markdown]
"""
**A good place to stop**, after 25 of the 45 minutes. You can now say what any of these models leaves behind. Ahead: caches that stop growing, many GPUs, and a transfer between two real servers. When you come back, click this text and choose *Run*, *Run All Above Selected Cell*.

## Layers that forget

So far bytes grow with every token. A layer with a *sliding window* looks back over the last W tokens only, so the keys before them may go. It keeps min(tokens, W) tokens, and then it is full.

Mistral-7B v0.1 has a window of 4,096 on all layers: its cache stops growing. More common today is a mix. In gpt-oss-20b, 12 of 24 layers have a window of 128. In Gemma-3-27B, 52 of 62 have one of 1,024. There the windowed layers fill up early, the others go on, and the curve bends without ever lying flat.
"""

# %%
lengths = [0, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768]
ax = figure(
    "Windows on all layers stop growth; on some they slow it",
    label="published", source="each model's config.json; the bytes follow from it",
    xlabel="tokens of the conversation", ylabel="KV cache (GiB, BF16)",
)
for name in ("llama-3.1-8b", "gemma-3-27b", "gpt-oss-20b", "mistral-7b-v0.1"):
    shape = kv.from_config(kv.load(name))
    line(ax, lengths, [kv.kv_bytes(shape, n) / 2**30 for n in lengths], name)
ax.set(ylim=(0, None), xticks=range(0, 32769, 8192), xticklabels=["0", "8k", "16k", "24k", "32k"])
show_figure(ax, alt="""
    KV cache against tokens, up to 32,768. Llama-3.1-8B, without windows, rises straight to 4 GiB.
    Gemma-3-27B, 52 of 62 layers with a window of 1,024, rises steeply at first and then slowly,
    to 2.9 GiB. gpt-oss-20b, half its layers with a window of 128, reaches 0.75 GiB.
    Mistral-7B v0.1, all layers with a window of 4,096, stays at 0.5 GiB from there on.
""")

# %% [markdown]
"""
A conversation grows from **8,192 to 16,384 tokens**. What happens to the bytes in each model? Answer `"same"`, `"less than double"` or `"double"`. You can read the figure, or you can reason; only one of the two works for gpt-oss-20b.
"""

# %% exercise="2.7"
# Exercise 2.7
growth = {"llama-3.1-8b": ..., "gpt-oss-20b": ..., "mistral-7b-v0.1": ...}
### BEGIN SOLUTION
growth = {
    "llama-3.1-8b": "double",
    "gpt-oss-20b": "less than double",
    "mistral-7b-v0.1": "same",
}
### END SOLUTION

# %% check="2.7"
check("2.7", growth)

# %% [markdown]
"""
Now write the rule for a mixed model down. `layer_bytes` is what one layer keeps for one token. Mind the prompt that is shorter than the window.
"""

# %% exercise="2.8"
# Exercise 2.8
def mixed_kv_bytes(full_layers, window_layers, window, layer_bytes, tokens):
    """Bytes of KV of a model in which `window_layers` layers look back `window` tokens."""
    ...


### BEGIN SOLUTION
def mixed_kv_bytes(full_layers, window_layers, window, layer_bytes, tokens):
    """Bytes of KV of a model in which `window_layers` layers look back `window` tokens."""
    return layer_bytes * (full_layers * tokens + window_layers * min(tokens, window))
### END SOLUTION

# %% check="2.8"
check("2.8", mixed_kv_bytes)

# %% [markdown]
"""
**What would change this answer?** The engine. A window *permits* the server to drop old keys; whether it does so, and how soon, is the engine's business. Ask it, or measure. And a layer with a recurrent state instead of attention follows none of these rules: `pdlab kv` refuses such a model by name, since a guess would look like a result.

## Many GPUs

With *tensor parallelism* one model is spread over several GPUs, and each of these tp workers is called a *rank*. Attention heads are dealt out like cards. The hypothetical model has 8 KV heads. On 8 ranks each holds one head, an eighth of the bytes. On 4 ranks each holds two.

And on 16 ranks? There are 16 places at the table and 8 cards. Half a head is of no use, since a score needs the whole dot product. So each head is *copied* to two ranks, and the model as a whole keeps its cache twice.
"""

# %%
shape = kv.uniform(layers=80, kv_heads=8, head_dim=128)
for tp in (1, 4, 8):
    share = kv.per_rank_bytes(shape, 2000, tp)
    print(f"tp={tp}: {share:>11,} B on each rank for 2,000 tokens   [hypothetical]")

# %% [markdown]
"""
Predict for another model, with **32 query heads and 4 KV heads**. Add up what all ranks hold, and divide by what one rank alone (tp=1) would hold. What is that factor at each of these degrees?
"""

# %% exercise="2.9"
# Exercise 2.9
copies = {"tp=2": ..., "tp=4": ..., "tp=8": ..., "tp=16": ...}
### BEGIN SOLUTION
copies = {"tp=2": 1, "tp=4": 1, "tp=8": 2, "tp=16": 4}
### END SOLUTION

# %% check="2.9"
check("2.9", copies)

# %% [markdown]
"""
**What would change this answer?** MLA. Its one latent serves all heads and cannot be dealt out, so plain tensor parallelism keeps it whole on *every* rank: at tp=8, eight times. That is one reason why DeepSeek's models are served with *data-parallel* attention instead: each rank has the whole attention and takes its own share of the requests.

## Fewer bytes an element

Storing the cache in FP8 takes one byte an element instead of two. As arithmetic that is half, and a sensitivity case worth a line in any plan. Practice adds three things.

*Scale factors.* FP8 has few bits, so numbers are divided by a scale before they are stored, and the scale is stored too. How many scales there are depends on the scheme: one for a whole tensor weighs nothing, one for each token and head does.

*Alignment.* A kernel, the small program that a GPU runs for one operation, may want 16-byte or larger pieces; what does not fit is padded.

*Accuracy.* Rounding changes the keys. Whether the answers stay good is a question for an evaluation on your own tasks.

The hypothetical model goes to FP8 with **one FP32 scale per token, KV head, and K or V**. Four claims follow. For each: does `"arithmetic"` prove it, does it need a `"measurement"`, or is it `"false"`?

| letter | claim |
|---|---|
| A | Without the scales, a token takes half the bytes that it takes in BF16. |
| B | With the scales, it still takes half. |
| C | The scales add 5,120 bytes to each token. |
| D | The model's answers are as good as before. |
"""

# %% exercise="2.10"
# Exercise 2.10
verdicts = {"A": ..., "B": ..., "C": ..., "D": ...}
### BEGIN SOLUTION
verdicts = {"A": "arithmetic", "B": "false", "C": "arithmetic", "D": "measurement"}
### END SOLUTION

# %% check="2.10"
check("2.10", verdicts)

# %%
plain = kv.bytes_per_token(shape, dtype="fp8")
scaled = kv.bytes_per_token(shape, dtype="fp8", fp8_scales="per-token-head")
print(f"FP8 {plain:,} B a token, with scales {scaled:,} B   [hypothetical]")
print(f"the scales add {100 * (scaled / plain - 1):.3f} %")

# %% [markdown]
"""
**What would change this answer?** head_dim. The scale is as large as ever while the head it serves shrinks: with a head_dim of 64 the same scheme adds 6.25 %.

## Whole blocks

A server does not allocate single tokens. It cuts its cache into *blocks* of a fixed number of token slots and hands out whole ones. A prompt of 700 tokens in blocks of 128 takes 6 blocks, which is 768 slots. The last 68 are empty, and when the prompt's blocks travel to another server, they travel along.
"""

# %%
for tokens in (50, 700, 2048):
    n = kv.blocks(tokens, 128)
    more = 100 * (n * 128 / tokens - 1)
    print(f"{tokens:>5,} tokens: {n:>2} × 128 = {n * 128:>5,} slots, {more:.1f} % more   [hypothetical]")

# %% [markdown]
"""
The rounding is small for long prompts and large for short ones. It happens once for *each* prompt: two prompts never share the rest of a block.

## Predict a real transfer

Now everything at once. Two real vLLM servers, one for prefill and one for decode, are joined by NIXL, NVIDIA's library for moving memory between machines. The part of vLLM that calls it is the *connector*. The model is **SmolLM2-135M: 30 layers, 3 KV heads, head_dim 64, BF16**, the **block size is 128**, and nothing is cached. Four requests arrive one after the other, with prompts of **100, 1,000, 2,000 and 3,000 tokens**. The connector counts the bytes that it moves in `vllm:nixl_bytes_transferred` (a histogram: in `/metrics` the name of the sum ends in `_sum`).

What does the counter show after the four? To the byte, as a plain number.
"""

# %% exercise="2.11"
# Exercise 2.11
counted_bytes = ...
### BEGIN SOLUTION
prompts = (100, 1000, 2000, 3000)
slots = sum(-(-tokens // 128) * 128 for tokens in prompts)  # -(-a // b) rounds up
counted_bytes = slots * kv_bytes(30, 3, 64, 2, 1)
### END SOLUTION

# %% check="2.11"
check("2.11", counted_bytes)

# %% [markdown]
"""
Here is the counter itself, prompt by prompt. The cell opens the record once your prediction is right.
"""

# %%
import json

run = recorded("nixl-bytes")
ledger = json.loads((run / "ledger.json").read_text())
moved = [entry for entry in ledger["entries"] if entry["transport"] == "shm"]
if counted_bytes == sum(entry["counter_bytes"] for entry in moved):
    show_table(
        [[e["prompt_tokens"], e["blocks"], e["transfers"], e["counter_bytes"]] for e in moved],
        ["prompt (tokens)", "blocks of 128", "transfers", "counted (B)"],
        caption="What vllm:nixl_bytes_transferred counted on the decode server",
        label="measured", source="SmolLM2-135M, BF16, over NIXL", run=run,
    )
    print(f"counted {sum(e['counter_bytes'] for e in moved):,} B, as predicted")
else:
    print("Predict first: exercise 2.11, as a plain number of bytes.")

# %% [markdown]
"""
## What changes the counter

- **A prefix that decode already holds.** Only the blocks it lacks travel. That is why the prompts here must be new ones.
- **The block size.** It differs between engines, devices and attention kernels. Read it from the server; don't remember it.
- **The layout.** An engine that pads its blocks, or keeps FP8 scales beside them, moves those bytes too.
- **Windows and MLA.** With them the per-token figure is another one, as you have seen.

## Recap

1. Each attention layer keeps a key and a value for each token: 2 × layers × kv_heads × head_dim × bytes × tokens.
2. The hypothetical model leaves 327,680 B a token, so exactly 625 MiB for 2,000 tokens.
3. The attention kind and the windows set the size, not the number of parameters: read `config.json`, `head_dim` included.
4. Ranks share the heads while there are enough of them; then they copy. Blocks are whole, one rounding for each prompt.
5. FP8 halves the elements, not the scales, and arithmetic says nothing about accuracy.

Your guesses from the start:
"""

# %%
opt, deepseek = (kv.bytes_per_token(kv.from_config(kv.load(name))) for name in ("opt-66b", "deepseek-v3"))
guesses({
    "2.a": f"{opt / deepseek:.1f} times as many bytes",
    "2.b": f"{kv.kv_bytes(kv.uniform(layers=80, kv_heads=8, head_dim=128), 2000) / 1e6:.2f} MB",
})

# %% [markdown]
"""
## Two questions from before

Answer from memory, aloud or on paper. Then open the line.

<details><summary>From 01 (on the short path, open it and read): a decode step reads two large things from memory. Which of them does a larger batch share, and which not?</summary>
The weights are read once for the whole batch. Each sequence's KV is its own, so it is read for that sequence alone. That is why, in a model like Llama, a long context keeps decode memory-bound however large the batch is, and why the bytes of this notebook matter even when nothing is transferred.
</details>

<details><summary>From 00: a colleague shows the 625 MiB as "measured". Which label is right, and why?</summary>
Hypothetical. It is arithmetic on a model that does not exist. The bytes of the NIXL transfer are measured: a counter of a real server showed them, and the run says where and when.
</details>

"""

# %% [markdown]
"""
**Next** is notebook 03: these bytes, a link, and a budget of 20 ms.

## Sources

Accessed in November 2026.

- Model shapes: the `config.json` of each model on its Hugging Face page; the copies used here are in `data/models/`.
- R. Qin et al., *Mooncake: Trading More Storage for Less Computation*, FAST 2025: 320 KB a token for LLaMA3-70B, 40 GB for 128k tokens.
- C. Zhao et al., *Insights into DeepSeek-V3*, ISCA 2025, table 1: 70.272, 327.680 and 516.096 KB a token for DeepSeek-V3, Qwen2.5-72B and Llama-3.1-405B.
- vLLM documentation, *Quantized KV Cache* (schemes of scale factors) and *NixlConnector usage* (the transfer and its metrics), version 0.33.
- S. Zhang et al., *OPT: Open Pre-trained Transformer Language Models*, 2022, and OPT-66B's published config.
"""
