"""DistServe's M/D/1 forms: the paper's algebra, its claims, and a simulated queue."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, strategies as st

from pdlab.errors import BadInput
from pdlab.theory import queueing

loads = st.floats(0.0, 0.98)
prefills = st.floats(1e-3, 10)
speedups = st.floats(1.01, 1.99)


@given(loads, prefills, speedups)
def test_the_forms_as_printed(load, d, k):
    """Equations 1, 2 and 3 of section 3.1 as the paper writes them."""
    r = load / d
    assert math.isclose(queueing.md1_mean_ttft_s(r, d), d + r * d**2 / (2 * (1 - r * d)))
    assert math.isclose(queueing.mean_ttft_inter_s(r, d), d + r * d**2 / (4 * (2 - r * d)))
    assert math.isclose(queueing.mean_ttft_intra_s(r, d, k), d / k + r * d**2 / (2 * k * (k - r * d)))


@given(prefills, speedups)
def test_low_rates_favour_intra_and_high_rates_inter(d, k):
    """The paper's claim: tensor parallelism first, pipeline stages as the rate grows."""
    cross = queueing.crossover_rate_rps(d, k)
    assert 0 < cross < k / d
    low, high = cross * 0.9, cross + (k / d - cross) * 0.1
    assert queueing.mean_ttft_intra_s(low, d, k) < queueing.mean_ttft_inter_s(low, d)
    assert queueing.mean_ttft_intra_s(high, d, k) > queueing.mean_ttft_inter_s(high, d)


def test_a_smaller_speedup_moves_the_crossover_down():
    """Figure 4b: a lower K makes intra-operator parallelism lose sooner."""
    rates = [queueing.crossover_rate_rps(1.0, k) for k in (1.2, 1.5, 1.8)]
    assert rates == sorted(rates)


def test_a_full_queue_waits_for_ever():
    """At a load of one the mean wait is infinite, not negative."""
    assert queueing.md1_mean_wait_s(1, 1) == math.inf
    assert queueing.md1_mean_wait_s(2, 1) == math.inf


def test_a_simulated_queue_agrees():
    """200,000 Poisson arrivals at load 0.8 wait what the form says, within 5 %."""
    draw, clock, free, waited = random.Random(1), 0.0, 0.0, 0.0
    for _ in range(200_000):
        clock += draw.expovariate(0.8)
        start = max(clock, free)
        waited += start - clock
        free = start + 1.0
    assert math.isclose(waited / 200_000, queueing.md1_mean_wait_s(0.8, 1.0), rel_tol=0.05)


@pytest.mark.parametrize("call", [
    lambda: queueing.md1_mean_wait_s(-1, 1), lambda: queueing.md1_mean_wait_s(1, 0),
    lambda: queueing.md1_mean_wait_s(math.nan, 1), lambda: queueing.mean_ttft_intra_s(1, 1, 1),
    lambda: queueing.mean_ttft_intra_s(1, 1, 2), lambda: queueing.crossover_rate_rps(0, 1.5),
])
def test_impossible_queues_are_refused(call):
    """Negative rates, no service time, and a speed-up outside (1, 2)."""
    with pytest.raises(BadInput):
        call()
