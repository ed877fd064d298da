"""Link floors: the table of the course, overlap, shards and stores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from pdlab.errors import BadInput
from pdlab.theory import kv, link

SHAPE = kv.uniform(layers=80, kv_heads=8, head_dim=128)


@pytest.mark.parametrize(("tokens", "gb_s", "expected"), [
    (300, 100, 1.9830), (300, 25, 4.9322), (300, 10, 10.8304),
    (2000, 100, 7.5536), (2000, 25, 27.2144), (2000, 10, 66.5360),
    (8192, 100, 27.8435), (8192, 25, 108.3742), (8192, 10, 269.4355),
])
def test_the_handoff_table(tokens, gb_s, expected):
    """Setup 1 ms, BF16: every cell to four decimals."""
    assert round(link.handoff_floor_ms(kv.kv_bytes(SHAPE, tokens), gb_s, 1), 4) == expected


@pytest.mark.parametrize(("gb_s", "expected"), [(100, 4.2768), (25, 14.1072), (10, 33.7680)])
def test_the_fp8_row(gb_s, expected):
    """2,000 tokens in idealised FP8."""
    assert round(link.handoff_floor_ms(kv.kv_bytes(SHAPE, 2000, "fp8"), gb_s, 1), 4) == expected


def test_fp8_with_scales_at_25_gb_s():
    """Scale factors add 0.4096 ms to the 14.1072 ms."""
    size = kv.kv_bytes(SHAPE, 2000, "fp8", "per-token-head")
    assert round(link.handoff_floor_ms(size, 25, 1), 4) == 14.5168


def test_budget_verdicts():
    """Of the three links only 100 GB/s keeps 2,000 tokens within 20 ms; the line is inside."""
    floors = [link.handoff_floor_ms(kv.kv_bytes(SHAPE, 2000), g, 1) for g in (100, 25, 10)]
    assert [link.within_budget(f, 20) for f in floors] == [True, False, False]
    assert link.within_budget(20, 20)


def test_distserve_traffic():
    """OPT-66B, 512 tokens, ten a second: 1,207,959,552 B each, 96.64 Gbit/s."""
    size = kv.kv_bytes(kv.from_config(kv.load("opt-66b")), 512)
    assert size == 1_207_959_552 == 1.125 * 2**30
    assert round(link.traffic_gbit_s(size, 10), 2) == 96.64


def test_aisimulate_moves_ranks_in_parallel():
    """TP8 at 25 GB/s a rank: 81.92 MB each, 3.2768 ms, as the simulator reports."""
    rank = kv.per_rank_bytes(SHAPE, 2000, 8)
    assert rank == 81_920_000
    assert round(link.sharded_ms([rank] * 8, 25), 4) == 3.2768


def test_a_shared_link_is_the_critical_path():
    """Eight ranks behind one 100 GB/s link take as long as that link takes for the sum."""
    rank = kv.per_rank_bytes(SHAPE, 2000, 8)
    assert round(link.sharded_ms([rank] * 8, 25, shared_gb_s=100), 4) == 6.5536
    assert link.sharded_ms([rank] * 8, 25, shared_gb_s=1000) == link.sharded_ms([rank] * 8, 25)


def test_the_slowest_rank_ends_the_handoff():
    """One rank with twice the bytes doubles the time."""
    assert link.sharded_ms([10**9, 2 * 10**9], 10) == 200


def test_layerwise_hides_all_but_the_last_layer():
    """Prefill slower than the link: one layer's transfer and the setup stay visible."""
    size = kv.kv_bytes(SHAPE, 2000)
    exposed = link.layerwise_exposed_ms(400, size, 25, 1, layers=80)
    assert round(exposed, 4) == round(1 + 26.2144 / 80, 4)
    assert round(link.serial_ms(400, size, 25, 1), 4) == 427.2144


def test_layerwise_on_a_slow_link_is_bound_by_the_link():
    """A link slower than prefill hides the computation instead, but for the first layer."""
    assert round(link.layerwise_ms(8, 10**9, 10, 0, layers=4), 4) == 102.0


def test_splitwise_serial_below_the_crossover():
    """With the sync time of a 512-token crossover, 511 tokens go serial and 513 layer-wise."""
    gb_s, layers = 50, 80  # 400 Gbit/s InfiniBand, as in Splitwise's H100 machines
    sync = link.sync_ms_from_crossover(kv.kv_bytes(SHAPE, 512), gb_s, layers)
    assert math.isclose(link.layerwise_crossover_bytes(gb_s, layers, sync), kv.kv_bytes(SHAPE, 512))
    for tokens, serial_wins in ((511, True), (513, False)):
        size, prefill = kv.kv_bytes(SHAPE, tokens), 0.2 * tokens
        serial = link.serial_ms(prefill, size, gb_s, 1)
        assert (serial < link.layerwise_ms(prefill, size, gb_s, 1, layers, sync)) == serial_wins


def test_a_store_moves_the_bytes_twice():
    """Published at 10 GB/s and read at 20: 100 ms and 50 ms, each with its own setup."""
    assert link.store_ms(10**9, 10, 20, 1, 2) == 153


def test_a_rate_measured_with_setup_needs_no_setup_added():
    """Transfer time at the measured-with-setup rate already is the hand-off floor."""
    size = kv.kv_bytes(SHAPE, 2000)
    rate = link.measured_with_setup_gb_s(size, 25, 1)
    assert rate < 25
    assert math.isclose(link.bandwidth_floor_ms(size, rate), 27.2144)


@pytest.mark.parametrize("gb_s", [0, -1, math.nan, math.inf, "25", None, True, 1e9])
def test_impossible_bandwidths_are_refused(gb_s):
    """Zero, negative, NaN, infinite, text, and bytes a second given for GB/s."""
    with pytest.raises(BadInput, match="gb_s"):
        link.bandwidth_floor_ms(1000, gb_s)


@pytest.mark.parametrize("call", [
    lambda: link.handoff_floor_ms(1, 1, -1), lambda: link.handoff_floor_ms(-1, 1, 1),
    lambda: link.within_budget(1, 0), lambda: link.sharded_ms([], 1),
    lambda: link.sharded_ms("12", 1), lambda: link.layerwise_ms(1, 1, 1, 1, layers=0),
    lambda: link.traffic_gbit_s(1, -1), lambda: link.layerwise_crossover_bytes(1, 1, 1),
])
def test_other_impossible_inputs_are_refused(call):
    """Negative times and sizes, no budget, no ranks, no layers."""
    with pytest.raises(BadInput):
        call()


positive = st.floats(1e-3, 1e3)


@given(positive, st.integers(0, 10**12), positive, positive, st.integers(1, 200))
def test_layerwise_without_sync_is_never_slower_than_serial(prefill, size, gb_s, setup, layers):
    """Overlap alone cannot hurt, and cannot beat the longer of the two stages."""
    both = link.layerwise_ms(prefill, size, gb_s, setup, layers)
    serial = link.serial_ms(prefill, size, gb_s, setup)
    longest = max(prefill, link.bandwidth_floor_ms(size, gb_s))
    assert both <= serial * (1 + 1e-9)
    assert both >= longest * (1 - 1e-9)


@given(st.floats(1e3, 1e11), st.floats(1, 1e4), st.floats(0, 0.9))
def test_the_needed_rate_meets_the_budget_exactly(size, budget_ms, share):
    """At the needed rate the floor is the budget; a setup as long as the budget leaves no rate at all."""
    rate = link.needed_gb_s(size, budget_ms, share * budget_ms)
    assert link.handoff_floor_ms(size, rate, share * budget_ms) == pytest.approx(budget_ms)
    with pytest.raises(BadInput, match="budget_ms - setup_ms"):
        link.needed_gb_s(size, budget_ms, budget_ms)
