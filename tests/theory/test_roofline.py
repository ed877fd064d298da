"""Roofline: weights counted exactly, work counted by hand, and which side binds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pdlab.errors import BadInput
from pdlab.theory import kv, roofline

EIGHT_B = kv.load("llama-3.1-8b")
TOY = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 4,
       "intermediate_size": 8, "vocab_size": 10, "tie_word_embeddings": True}


@pytest.mark.parametrize(("name", "count"), [
    ("llama-3.1-8b", 8_030_261_248), ("llama-3.1-70b", 70_553_706_496),
    ("llama-3.1-405b", 405_853_388_800), ("llama-2-70b", 68_976_648_192),
    ("mistral-7b-v0.1", 7_241_732_096), ("qwen3-32b", 32_762_123_264),
    ("smollm2-135m", 134_515_008), ("gemma-2b", 2_506_172_416), ("phi-3-mini", 3_821_079_552),
    ("qwen2.5-72b", 72_706_203_648),
])
def test_parameters_as_published(name, count):
    """The weights counted from a config are the number that the checkpoint holds."""
    assert roofline.parameters(kv.load(name)) == count
    assert roofline.weight_bytes(kv.load(name)) == 2 * count


def test_toy_work_by_hand():
    """One layer of width 4: every product counted on paper."""
    products = 4 * 4 + 2 * 4 * 2 + 4 * 4 + 3 * 4 * 8  # q, k and v, o, gated MLP
    decode = roofline.decode(TOY, batch=1, context_tokens=3)
    assert decode.flops == 2 * (products + 40) + 4 * 2 * 2 * 3
    assert decode.bytes == 2 * (products + 40) + 3 * 2 * 2 * 2
    prefill = roofline.prefill(TOY, batch=1, tokens=3)
    assert prefill.flops == 2 * (3 * products + 40) + 4 * 2 * 2 * 6
    assert prefill.intensity == prefill.flops / prefill.bytes


def test_prefill_of_one_token_is_decode_of_one_token():
    """With a single position both phases are the same work."""
    assert roofline.prefill(EIGHT_B, 3, 1) == roofline.decode(EIGHT_B, 3, 1)


def test_prefill_is_compute_bound_and_lone_decode_memory_bound():
    """2,000 tokens of Llama-3.1-8B on an H100: prefill far above the ridge, decode far below."""
    h100 = roofline.device("h100-sxm")
    assert roofline.bound(roofline.prefill(EIGHT_B, 1, 2000), h100) == "compute"
    assert roofline.bound(roofline.decode(EIGHT_B, 1, 2000), h100) == "memory"


def test_the_batch_at_which_decode_turns():
    """Short contexts have such a batch, exactly one apart from memory-bound; long ones have none."""
    h100 = roofline.device("h100-sxm")
    batch = roofline.decode_turns_compute_bound_at(EIGHT_B, 128, h100)
    assert batch is not None
    assert roofline.bound(roofline.decode(EIGHT_B, batch, 128), h100) == "compute"
    assert roofline.bound(roofline.decode(EIGHT_B, batch - 1, 128), h100) == "memory"
    assert roofline.decode_turns_compute_bound_at(EIGHT_B, 2000, h100) is None


def test_a_window_limits_attention_work():
    """Past its window Mistral's decode work no longer grows, and prefill grows linearly."""
    mistral = kv.load("mistral-7b-v0.1")
    assert roofline.decode(mistral, 1, 4096) == roofline.decode(mistral, 1, 9000)
    one, two, three = (roofline.prefill(mistral, 1, n).flops for n in (5000, 6000, 7000))
    assert two - one == three - two


def test_every_device_has_source_and_label():
    """The table states where each peak comes from; nothing in it is above 10 PFLOP/s."""
    table = roofline.devices()
    assert {"a100-80gb-sxm", "h100-sxm", "h200-sxm", "l40s", "xeon-8480plus"} <= set(table)
    for device in table.values():
        assert device.label == "published"
        assert len(device.source) > 20
        assert 1e13 < device.peak_flops < 1e16
        assert 1e11 < device.bandwidth_bytes_s < 1e14


@pytest.mark.parametrize("call", [
    lambda: roofline.device("h1000"), lambda: roofline.prefill(EIGHT_B, 0, 10),
    lambda: roofline.decode(EIGHT_B, 1, 0), lambda: roofline.decode(EIGHT_B, 1, 10, "int3"),
    lambda: roofline.parameters(kv.load("deepseek-v3")), lambda: roofline.parameters(kv.load("gpt-oss-20b")),
    lambda: roofline.parameters({k: v for k, v in TOY.items() if k != "vocab_size"}),
    lambda: kv.load("no-such-model"),
])
def test_what_has_no_roofline_is_refused(call):
    """Unknown devices and models, mixtures of experts, empty batches."""
    with pytest.raises(BadInput):
        call()


@settings(max_examples=50)
@given(st.integers(1, 4000), st.integers(1, 8000))
def test_decode_intensity_grows_with_the_batch(batch, context):
    """Weights are shared, so another sequence never lowers FLOPs per byte."""
    one, more = (roofline.decode(EIGHT_B, b, context) for b in (batch, batch + 1))
    assert more.intensity >= one.intensity > 0
