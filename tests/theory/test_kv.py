"""KV sizing: the published table, every attention variant, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pdlab.errors import BadInput
from pdlab.theory import kv

REFUSED = sorted((Path(__file__).parent / "refused").glob("*.json"))
PLAIN = {"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8,
         "num_key_value_heads": 2, "hidden_size": 512}


def config(**changes: object) -> dict:
    """A small valid config with some fields changed; None removes a field."""
    return {k: v for k, v in {**PLAIN, **changes}.items() if v is not None}


@pytest.mark.parametrize(("name", "per_token", "attention"), [
    ("opt-66b", 2_359_296, "MHA"),
    ("llama-2-70b", 327_680, "GQA"),
    ("llama-3.1-70b", 327_680, "GQA"),
    ("llama-3.1-8b", 131_072, "GQA"),
    ("llama-3.1-405b", 516_096, "GQA"),
    ("mistral-7b-v0.1", 131_072, "GQA, sliding window 4096 on all 32 layers"),
    ("qwen3-32b", 262_144, "GQA"),
    ("qwen2.5-72b", 327_680, "GQA"),
    ("deepseek-v3", 70_272, "MLA"),
    ("gpt-oss-20b", 49_152, "GQA, sliding window 128 on 12 of 24 layers"),
    ("gemma-3-27b", 507_904, "GQA, sliding window 1024 on 52 of 62 layers"),
    ("phi-3-mini", 393_216, "MHA, sliding window 262144 on all 32 layers"),
    ("smollm2-135m", 23_040, "GQA"),
    ("gemma-2b", 18_432, "MQA"),
    ("falcon-7b", 8_192, "MQA"),
    ("llama-4-scout", 196_608, "GQA, chunk 8192 on 36 of 48 layers"),
])
def test_bytes_per_token_of_a_published_model(name, per_token, attention):
    """Each shipped config gives exactly the published bytes a token and its kind of attention."""
    shape = kv.from_config(kv.load(name))
    assert kv.bytes_per_token(shape) == per_token
    assert shape.attention == attention


def test_every_shipped_config_states_its_source():
    """No config is shipped without the page it was read from."""
    paths = list(kv.MODELS_DIR.glob("*.json"))
    assert len(paths) >= 16
    for path in paths:
        assert json.loads(path.read_text())["_source"].startswith("https://")


def test_the_worked_example_is_exactly_625_mib():
    """80 layers × 8 heads × 128 × BF16: 2,000 tokens are exactly 625 MiB."""
    shape = kv.uniform(layers=80, kv_heads=8, head_dim=128)
    assert kv.bytes_per_token(shape) == 327_680
    assert kv.kv_bytes(shape, 2000) == 655_360_000 == 625 * 2**20


def test_the_second_example_is_exactly_512_mib():
    """32 × 8 × 128, BF16, 4,096 tokens: 536,870,912 bytes."""
    assert kv.kv_bytes(kv.uniform(32, 8, 128), 4096) == 536_870_912 == 512 * 2**20


def test_nixl_transfer_of_four_prompts():
    """SmolLM2 at block size 128: four prompts take 49 blocks, 144,506,880 bytes."""
    shape, prompts = kv.from_config(kv.load("smollm2-135m")), (100, 1000, 2000, 3000)
    assert sum(kv.blocks(n, 128) for n in prompts) == 49
    assert sum(kv.block_bytes_total(shape, n, 128) for n in prompts) == 144_506_880


def test_vllm_start_up_log_blocks():
    """Llama-3.1-8B: 1,952 blocks of 16 are the 3.81 GiB that vLLM logs, 31,232 tokens."""
    shape = kv.from_config(kv.load("llama-3.1-8b"))
    assert 1952 * 16 == 31_232
    assert round(kv.kv_bytes(shape, 31_232) / 2**30, 2) == 3.81


def test_mooncake_figures_are_binary_units():
    """LLaMA3-70B: 320 KiB a token and 40 GiB for 128 Ki tokens, printed as KB and GB."""
    shape = kv.from_config(kv.load("llama-3.1-70b"))
    assert kv.bytes_per_token(shape) == 320 * 2**10
    assert kv.kv_bytes(shape, 128 * 1024) == 40 * 2**30


def test_fp8_with_and_without_scales():
    """FP8 halves BF16; one FP32 scale per token, head, K or V adds 5,120 bytes, 3.125 %."""
    shape = kv.uniform(80, 8, 128)
    bare = kv.bytes_per_token(shape, "fp8")
    scaled = kv.bytes_per_token(shape, "fp8", "per-token-head")
    assert (bare, scaled - bare) == (163_840, 5_120)
    assert 5_120 / bare == 0.03125


@pytest.mark.parametrize(("dtype", "scales", "name"), [
    ("bfloat16", "per-token-head", "llama-3.1-8b"),
    ("fp8", "per-token-head", "deepseek-v3"),
    ("fp8", "per-block", "llama-3.1-8b"),
    ("int4", "none", "llama-3.1-8b"),
    (None, "none", "llama-3.1-8b"),
])
def test_impossible_number_formats_are_refused(dtype, scales, name):
    """Scales without FP8, scales on a latent, and unknown formats are bad input."""
    with pytest.raises(BadInput):
        kv.kv_bytes(kv.from_config(kv.load(name)), 10, dtype, scales)


def test_a_window_caps_the_total():
    """Mistral stops growing at 4,096 tokens; its bytes per token are those below the cap."""
    shape = kv.from_config(kv.load("mistral-7b-v0.1"))
    assert kv.saturates_at(shape) == 4096
    assert kv.kv_bytes(shape, 4095) < kv.kv_bytes(shape, 4096) == kv.kv_bytes(shape, 50_000)
    assert kv.blocks_held(shape, 50_000, 16) == 256


def test_mixed_layers_saturate_in_part():
    """Gemma-3-27B: past 1,024 tokens only the 10 global layers grow, 81,920 bytes a token."""
    shape = kv.from_config(kv.load("gemma-3-27b"))
    assert kv.saturates_at(shape) is None
    assert kv.kv_bytes(shape, 5001) - kv.kv_bytes(shape, 5000) == 10 * 16 * 128 * 2 * 2
    assert kv.block_bytes_total(shape, 1030, 16) == (52 * 1024 + 10 * 1040) * 8192


@pytest.mark.parametrize(("changes", "windowed"), [
    ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": False, "max_window_layers": 2}, 0),
    ({"model_type": "qwen2", "sliding_window": 64, "max_window_layers": 2}, 0),
    ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}, 1),
    ({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 4}, 0),
    ({"model_type": "mistral", "sliding_window": 64}, 4),
    ({"model_type": "gemma2", "head_dim": 64, "sliding_window": 64}, 2),
    ({"model_type": "cohere2", "sliding_window": 64}, 3),
    ({"model_type": "cohere2", "sliding_window": 64, "sliding_window_pattern": 2}, 2),
    ({"model_type": None, "sliding_window": 64}, 4),
    ({"layer_types": ["full_attention"] * 4}, 0),
])
def test_which_layers_have_a_window(changes, windowed):
    """Each family's own rule decides which layers slide: switch, first layer, pattern or all."""
    shape = kv.from_config(config(**changes))
    assert sum(g.layers for g in shape.groups if g.window == 64) == windowed
    assert shape.layers == 4


def test_explicit_head_dim_wins():
    """A head_dim in the config overrides hidden_size / heads; null counts as absent."""
    assert kv.from_config(config(head_dim=96)).groups[0].head_dim == 96
    assert kv.from_config({**PLAIN, "head_dim": None}).groups[0].head_dim == 64


def test_nested_text_config():
    """A multimodal config is sized by its text_config, class defaults filled in as published."""
    nested = {"model_type": "gemma3", "text_config": {
        "model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "sliding_window": 1024}}
    shape = kv.from_config(nested)  # Gemma-3-4B leaves its heads to the class
    assert kv.bytes_per_token(shape) == 34 * 4 * 256 * 2 * 2


@pytest.mark.parametrize(("name", "tp", "share"), [
    ("llama-3.1-70b", 8, 1 / 8), ("llama-3.1-70b", 16, 1 / 8), ("llama-3.1-70b", 64, 1 / 8),
    ("deepseek-v3", 8, 1), ("opt-66b", 8, 1 / 8), ("smollm2-135m", 9, 1 / 3), ("gemma-2b", 4, 1),
])
def test_bytes_per_rank(name, tp, share):
    """Heads are split, or replicated below one a rank; a latent is whole on every rank."""
    shape = kv.from_config(kv.load(name))
    assert kv.per_rank_bytes(shape, 1000, tp) == kv.kv_bytes(shape, 1000) * share


@pytest.mark.parametrize(("name", "tp"), [
    ("llama-3.1-70b", 3), ("llama-3.1-70b", 128), ("smollm2-135m", 2), ("smollm2-135m", 6),
    ("deepseek-v3", 3), ("llama-3.1-8b", 0), ("llama-3.1-8b", -1), ("llama-3.1-8b", True),
    ("llama-3.1-8b", 2.0),
])
def test_a_tp_that_does_not_divide_is_refused(name, tp):
    """No rank gets a fraction of a head."""
    with pytest.raises(BadInput, match="tp"):
        kv.per_rank_bytes(kv.from_config(kv.load(name)), 100, tp)


def test_kv_heads_that_do_not_divide_the_ranks_are_refused():
    """12 query heads on 4 KV heads over 6 ranks: replication would be uneven."""
    with pytest.raises(BadInput, match="KV heads"):
        kv.per_rank_bytes(kv.uniform(2, 4, 64, query_heads=12), 10, 6)


def test_refused_files_are_there():
    """The list of refused architectures is not empty, so the next test cannot pass unseen."""
    assert len(REFUSED) == 9


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.stem)
def test_unsizable_architectures_are_refused_by_name(path):
    """Recurrent, hybrid, sparse-index, layer-sharing and encoder-decoder models are named."""
    parsed = json.loads(path.read_text())
    name = parsed.get("text_config", parsed)["model_type"]
    with pytest.raises(BadInput) as caught:
        kv.from_config(path)
    assert name in str(caught.value)
    assert "not guessed" in str(caught.value)


@pytest.mark.parametrize("changes", [
    {"model_type": "a-model-of-next-year"},
    {"layer_types": ["full_attention"] * 3 + ["linear_attention"]},
    {"layer_types": ["full_attention"] * 3 + ["conv"]},
    {"layer_types": ["full_attention"] * 3 + [7]},
    {"kv_lora_rank": 512, "qk_rope_head_dim": 64},
    {"sliding_window": 64},
    {"mamba_d_state": 16},
    {"num_kv_shared_layers": 2},
    {"index_topk": 2048},
])
def test_doubtful_configs_are_refused(changes):
    """A field that means another cache refuses the config even under a familiar name."""
    with pytest.raises(BadInput, match="not guessed"):
        kv.from_config(config(**changes))


@pytest.mark.parametrize("changes", [
    {"num_hidden_layers": None}, {"num_attention_heads": None},
    {"hidden_size": None}, {"model_type": "mistral", "num_key_value_heads": None},
    {"num_hidden_layers": 10**9}, {"num_hidden_layers": 0}, {"num_hidden_layers": -4},
    {"num_hidden_layers": True}, {"num_hidden_layers": "80"}, {"num_hidden_layers": 4.0},
    {"num_hidden_layers": float("nan")}, {"num_hidden_layers": [4]},
    {"num_key_value_heads": 3}, {"num_key_value_heads": 16}, {"num_key_value_heads": 0},
    {"hidden_size": 511}, {"head_dim": -1}, {"head_dim": 10**9}, {"head_dim": "128"},
    {"model_type": 3}, {"model_type": "mistral", "sliding_window": 0},
    {"model_type": "mistral", "sliding_window": -1}, {"model_type": "mistral", "sliding_window": 1.5},
    {"layer_types": ["full_attention"] * 3}, {"layer_types": "full_attention"},
    {"layer_types": ["sliding_attention"] * 4},
    {"model_type": "qwen2", "use_sliding_window": "yes"},
    {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 64},
    {"text_config": 3}, {"text_config": {}},
    {"model_type": "deepseek_v3"}, {"model_type": "deepseek_v3", "kv_lora_rank": 512},
    {"model_type": "falcon"}, {"model_type": "falcon", "multi_query": 1},
], ids=str)
def test_missing_and_absurd_fields_are_refused(changes):
    """Every missing, contradictory or absurd field is one BadInput that names the place."""
    with pytest.raises(BadInput) as caught:
        kv.from_config(config(**changes))
    assert "config" in str(caught.value)


@pytest.mark.parametrize("values", [(0, 8, 128), (80, 0, 128), (80, 8, 0), (10**9, 8, 128),
                                    (80, 8.0, 128), ("80", 8, 128), (True, 8, 128)])
def test_absurd_hypothetical_models_are_refused(values):
    """``uniform`` holds its three numbers to the same limits."""
    with pytest.raises(BadInput):
        kv.uniform(*values)


shapes = st.builds(
    lambda layers, kv_heads, group, head_dim, window: kv.uniform(
        layers, kv_heads, head_dim, query_heads=kv_heads * group, window=window),
    st.integers(1, 200), st.integers(1, 64), st.integers(1, 16), st.integers(1, 512),
    st.none() | st.integers(1, 10_000),
)
formats = st.sampled_from([("bfloat16", "none"), ("float16", "none"), ("float32", "none"),
                           ("fp8", "none"), ("fp8", "per-token-head")])
lengths = st.integers(0, 20_000)


@given(shapes, lengths, formats)
def test_bytes_are_linear_until_a_window_caps_them(shape, tokens, how):
    """Tokens below the window cost the same each; above it nothing; never less than zero."""
    per_token = kv.bytes_per_token(shape, *how)
    kept = min(tokens, shape.groups[0].window or tokens)
    assert kv.kv_bytes(shape, tokens, *how) == kept * per_token >= 0


@given(shapes, shapes, lengths, formats)
def test_bytes_are_additive_over_layers(one, other, tokens, how):
    """A model of both kinds of layers keeps the sum."""
    both = kv.KvShape(one.groups + other.groups, "GQA")
    assert kv.kv_bytes(both, tokens, *how) == (
        kv.kv_bytes(one, tokens, *how) + kv.kv_bytes(other, tokens, *how))


@given(st.integers(1, 100), st.integers(0, 6), st.integers(0, 6), st.integers(1, 256), lengths,
       st.integers(0, 8))
def test_ranks_together_hold_at_least_the_whole(layers, kv_log, group_log, head_dim, tokens, tp_log):
    """tp × per-rank ≥ total; equal when the heads are split, more when they are replicated."""
    heads, query, tp = 2**kv_log, 2 ** (kv_log + group_log), 2 ** min(tp_log, kv_log + group_log)
    shape = kv.uniform(layers, heads, head_dim, query_heads=query)
    total, rank = kv.kv_bytes(shape, tokens), kv.per_rank_bytes(shape, tokens, tp)
    assert tp * rank >= total
    assert (tp * rank == total) == (tp <= heads or tokens == 0)


@given(shapes, lengths, st.integers(1, 512))
def test_whole_blocks_round_up_by_less_than_a_block(shape, tokens, size):
    """Blocks cover the tokens, with fewer than one block of slots to spare."""
    spare = kv.block_bytes_total(shape, tokens, size) - kv.kv_bytes(shape, tokens)
    assert 0 <= spare < size * kv.bytes_per_token(shape)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "80", "llama"]),
    lambda inner: st.lists(inner, max_size=3), max_leaves=3)


@given(st.dictionaries(st.sampled_from([
    *PLAIN, "head_dim", "sliding_window", "layer_types", "use_sliding_window", "max_window_layers",
    "kv_lora_rank", "qk_rope_head_dim", "text_config", "multi_query", "attention_chunk_size",
]), json_values | st.sampled_from(["llama", "qwen2", "gemma2", "deepseek_v3", "falcon", 4, 8, 64])))
def test_any_json_object_is_sized_or_refused(parsed):
    """No config, however mangled, ends in anything but a size or a BadInput."""
    try:
        shape = kv.from_config(parsed)
    except BadInput:
        return
    assert kv.kv_bytes(shape, 10) > 0
