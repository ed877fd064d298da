"""How long moving KV takes at least: floors, never forecasts.

Bandwidth here is *effective*: sustained payload bytes a second, setup time not included, in
GB/s of 1e9 bytes.  A floor leaves out queueing, buffer allocation and synchronisation; a
transfer that passes its floor can still be late.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdlab.errors import BadInput
from pdlab.theory._check import not_negative, positive, shown, whole

__all__ = [
    "bandwidth_floor_ms", "handoff_floor_ms", "layerwise_crossover_bytes", "layerwise_exposed_ms",
    "layerwise_ms", "measured_with_setup_gb_s", "needed_gb_s", "serial_ms", "sharded_ms", "store_ms",
    "sync_ms_from_crossover", "traffic_gbit_s", "within_budget",
]

HIGHEST_GB_S = 1e6  # a million GB/s: beyond any link, so a slip of units


def bandwidth_floor_ms(kv_bytes: int | float, effective_gb_s: float) -> float:
    """Milliseconds that ``kv_bytes`` take at ``effective_gb_s`` with nothing else in the way."""
    kv_bytes = not_negative(kv_bytes, "kv_bytes", "bytes")
    return kv_bytes / (_bandwidth(effective_gb_s) * 1e9) * 1000


def handoff_floor_ms(kv_bytes: int | float, effective_gb_s: float, setup_ms: float) -> float:
    """Setup plus the bandwidth floor, in milliseconds.

    Do not add a setup that the bandwidth was measured with: it is in there already.
    """
    return not_negative(setup_ms, "setup_ms", "ms") + bandwidth_floor_ms(kv_bytes, effective_gb_s)


def within_budget(handoff_ms: float, budget_ms: float) -> bool:
    """Whether a hand-off of ``handoff_ms`` fits ``budget_ms``; on the line counts as inside."""
    return not_negative(handoff_ms, "handoff_ms", "ms") <= positive(budget_ms, "budget_ms", "ms")


def needed_gb_s(kv_bytes: int | float, budget_ms: float, setup_ms: float) -> float:
    """The effective bandwidth in GB/s from which the hand-off floor fits ``budget_ms``."""
    left_ms = positive(budget_ms, "budget_ms", "ms") - not_negative(setup_ms, "setup_ms", "ms")
    return positive(kv_bytes, "kv_bytes", "bytes") / 1e9 / (positive(left_ms, "budget_ms - setup_ms", "ms") / 1000)


def measured_with_setup_gb_s(kv_bytes: int | float, effective_gb_s: float, setup_ms: float) -> float:
    """The rate in GB/s that a clock around the whole hand-off would show, setup inside."""
    total_ms = handoff_floor_ms(kv_bytes, effective_gb_s, setup_ms)
    return positive(kv_bytes, "kv_bytes", "bytes") / 1e9 / (total_ms / 1000)


def serial_ms(
    prefill_ms: float, kv_bytes: int | float, effective_gb_s: float, setup_ms: float
) -> float:
    """Prefill, then the hand-off of all layers: start of prefill to the last byte, in ms."""
    return not_negative(prefill_ms, "prefill_ms", "ms") + handoff_floor_ms(
        kv_bytes, effective_gb_s, setup_ms
    )


def layerwise_ms(
    prefill_ms: float, kv_bytes: int | float, effective_gb_s: float, setup_ms: float,
    layers: int, sync_ms: float = 0.0,
) -> float:
    """Each layer is sent while later layers compute: start of prefill to the last byte, in ms.

    Equal layers, one link, one setup.  ``sync_ms`` is what starting and tracking one layer's
    transfer adds to that layer's computation.  A two-stage pipeline: the slower stage runs
    ``layers`` times, the quicker one once.
    """
    layers = whole(layers, "layers", high=4096)
    compute = not_negative(prefill_ms, "prefill_ms", "ms") / layers + not_negative(
        sync_ms, "sync_ms", "ms"
    )
    send = bandwidth_floor_ms(kv_bytes, effective_gb_s) / layers
    pipeline = layers * max(compute, send) + min(compute, send)
    return not_negative(setup_ms, "setup_ms", "ms") + pipeline


def layerwise_exposed_ms(
    prefill_ms: float, kv_bytes: int | float, effective_gb_s: float, setup_ms: float,
    layers: int, sync_ms: float = 0.0,
) -> float:
    """What layer-wise transfer adds on top of ``prefill_ms``: the part that is not hidden."""
    total = layerwise_ms(prefill_ms, kv_bytes, effective_gb_s, setup_ms, layers, sync_ms)
    return total - prefill_ms


def layerwise_crossover_bytes(effective_gb_s: float, layers: int, sync_ms: float) -> float:
    """KV bytes from which layer-wise beats serial, while prefill is slower than the link.

    Serial exposes the transfer time T; layer-wise exposes layers × sync + T / layers.  They
    meet at T = sync × layers² / (layers − 1): in words, once one layer's transfer takes a little
    longer than the synchronisation it costs.
    """
    layers = whole(layers, "layers", low=2, high=4096)
    sync_ms = not_negative(sync_ms, "sync_ms", "ms")
    transfer_ms = sync_ms * layers**2 / (layers - 1)
    return transfer_ms / 1000 * _bandwidth(effective_gb_s) * 1e9


def sync_ms_from_crossover(kv_bytes: int | float, effective_gb_s: float, layers: int) -> float:
    """The synchronisation time a layer that puts the crossover at ``kv_bytes``, in ms."""
    layers = whole(layers, "layers", low=2, high=4096)
    return bandwidth_floor_ms(kv_bytes, effective_gb_s) * (layers - 1) / layers**2


def sharded_ms(
    rank_bytes: Sequence[int | float], rank_gb_s: float, setup_ms: float = 0.0,
    shared_gb_s: float | None = None,
) -> float:
    """Ranks send in parallel: the hand-off ends with the slowest, in ms.

    ``rank_bytes`` has the bytes of each rank and ``rank_gb_s`` the bandwidth of each rank's own
    link.  Where all of them also cross one link of ``shared_gb_s``, its floor for the sum of the
    bytes holds as well, and the larger of the two is the critical path.
    """
    if isinstance(rank_bytes, (str, bytes)) or not len(rank_bytes):
        raise BadInput(shown(rank_bytes), "the bytes of each rank", "rank_bytes")
    slowest = max(bandwidth_floor_ms(size, rank_gb_s) for size in rank_bytes)
    if shared_gb_s is not None:
        slowest = max(slowest, bandwidth_floor_ms(sum(rank_bytes), shared_gb_s))
    return not_negative(setup_ms, "setup_ms", "ms") + slowest


def store_ms(
    kv_bytes: int | float, write_gb_s: float, read_gb_s: float, put_setup_ms: float = 0.0,
    get_setup_ms: float = 0.0,
) -> float:
    """Through a shared store the bytes move twice: published by prefill, then read by decode."""
    return handoff_floor_ms(kv_bytes, write_gb_s, put_setup_ms) + handoff_floor_ms(
        kv_bytes, read_gb_s, get_setup_ms
    )


def traffic_gbit_s(bytes_per_request: int | float, requests_per_s: float) -> float:
    """Average KV traffic in Gbit/s (1e9 bits), protocol overhead not included."""
    size = not_negative(bytes_per_request, "bytes_per_request", "bytes")
    return size * not_negative(requests_per_s, "requests_per_s") * 8 / 1e9


def _bandwidth(effective_gb_s: float) -> float:
    value = positive(effective_gb_s, "effective_gb_s", "GB/s")
    if value > HIGHEST_GB_S:
        raise BadInput(shown(value), f"at most {HIGHEST_GB_S:,.0f} GB/s", "effective_gb_s",
                       "Bandwidth is in GB/s, not in bytes a second")
    return value
