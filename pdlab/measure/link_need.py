"""What a plan asks of the link between a prefill rank and a decode rank, in GB/s, and from what it follows.

A rate that the plan states is taken as it stands.  From a budget for the hand-off the rate follows:
the blocks of one prompt on one rank, in what the budget leaves after the setup (a serial hand-off).
"""

from __future__ import annotations

from dataclasses import dataclass

from pdlab.measure.plan import Plan
from pdlab.theory import kv, link

DTYPE = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True)
class Need:
    """At least ``gb_s`` (1e9 bytes of payload a second) for a message of ``message_bytes``.

    The message is one prompt's whole blocks on one rank; ``piece_bytes`` is one block of one layer,
    in which they lie scattered.  ``how`` says where the rate comes from.
    """

    gb_s: float
    message_bytes: int
    piece_bytes: int
    how: str


def of(plan: Plan) -> Need | None:
    """The plan's need; None for a plan that states none."""
    if plan.live is None or (asked := plan.live.link) is None:
        return None
    shape = kv.from_config(kv.find(asked.kv_config))
    ranks = plan.deployments.disaggregated.tensor_parallel_per_replica
    dtype = DTYPE.get(plan.comparison.precision, plan.comparison.precision)
    slots = kv.blocks(asked.prompt_tokens, plan.live.block_size) * plan.live.block_size
    message = kv.per_rank_bytes(shape, slots, ranks, dtype)
    piece = kv.per_rank_bytes(shape, plan.live.block_size, ranks, dtype) // shape.layers
    if asked.gb_s_per_rank is not None:
        return Need(asked.gb_s_per_rank, message, piece, f"{asked.gb_s_per_rank:g} GB/s a rank, as the plan states")
    assert asked.handoff_budget_ms is not None  # the plan has one of the two
    rate = link.needed_gb_s(message, asked.handoff_budget_ms, asked.setup_ms)
    how = (
        f"{message:,} bytes (the KV blocks of {asked.prompt_tokens:,} tokens on one of {ranks} ranks) "
        f"in {asked.handoff_budget_ms:g} - {asked.setup_ms:g} ms"
    )
    return Need(rate, message, piece, how)
