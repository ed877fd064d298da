"""DistServe's queueing forms for prefill: an M/D/1 queue, split two ways over two GPUs.

Poisson arrivals at a rate, one service time for all (equal prompts, no batching).  From Zhong
et al., DistServe, OSDI 2024, section 3.1.  Times in seconds, rates in requests a second.
"""

from __future__ import annotations

import math

from pdlab.errors import BadInput
from pdlab.theory._check import not_negative, positive, shown

__all__ = [
    "crossover_rate_rps", "md1_mean_ttft_s", "md1_mean_wait_s", "mean_ttft_inter_s",
    "mean_ttft_intra_s",
]


def md1_mean_wait_s(rate_rps: float, service_s: float) -> float:
    """Mean wait before service in an M/D/1 queue; ``inf`` when it is full (load of 1 or more)."""
    rate, service = not_negative(rate_rps, "rate_rps"), positive(service_s, "service_s", "s")
    load = rate * service
    return rate * service**2 / (2 * (1 - load)) if load < 1 else math.inf


def md1_mean_ttft_s(rate_rps: float, prefill_s: float) -> float:
    """Mean TTFT on one worker: DistServe's equation 1, D + R D² / (2 (1 − R D))."""
    return prefill_s + md1_mean_wait_s(rate_rps, prefill_s)


def mean_ttft_inter_s(rate_rps: float, prefill_s: float) -> float:
    """Two pipeline stages (inter-operator): equation 2, D + R D² / (4 (2 − R D)).

    A request still takes D, but the next one may enter after D / 2.
    """
    return prefill_s + md1_mean_wait_s(rate_rps, prefill_s / 2)


def mean_ttft_intra_s(rate_rps: float, prefill_s: float, speedup: float) -> float:
    """Tensor parallelism over two (intra-operator): equation 3, D/K + R D² / (2 K (K − R D)).

    ``speedup`` is K, between 1 and 2: two GPUs never quite halve the time.
    """
    return md1_mean_ttft_s(rate_rps, prefill_s / _speedup(speedup))


def crossover_rate_rps(prefill_s: float, speedup: float) -> float:
    """The rate at which both splits give the same mean TTFT; below it intra-operator is quicker.

    Found by bisection on the load of the intra-operator split, where the difference of the two
    forms changes sign exactly once.
    """
    speedup = _speedup(speedup)
    low, high = 0.0, speedup / positive(prefill_s, "prefill_s", "s")
    for _ in range(200):
        middle = (low + high) / 2
        if mean_ttft_intra_s(middle, prefill_s, speedup) < mean_ttft_inter_s(middle, prefill_s):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _speedup(value: float) -> float:
    number = positive(value, "speedup")
    if not 1 < number < 2:
        raise BadInput(shown(value), "a speed-up between 1 and 2 for two GPUs", "speedup")
    return number
