"""``pdlab transfer-model``: the course's hypothetical model over its three links, as JSON."""

from __future__ import annotations

import argparse

LINKS_GB_S = (100.0, 25.0, 10.0)
SETUP_MS, BUDGET_MS = 1.0, 20.0
PROMPT_TOKENS = 2000
SHORT_PROMPT_TOKENS, SHORT_PROMPT_LINK_GB_S = 300, 10.0


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    from pdlab.course.output import add_json_flag

    p = sub.add_parser("transfer-model",
                       help="the worked example of notebook 03 as one JSON document")
    add_json_flag(p)  # the document is all there is: with or without the flag
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the document."""
    from pdlab.course.output import print_json

    print_json(document())


def document() -> dict:
    """80 layers, 8 KV heads of 128, BF16; 1 ms setup against a 20 ms budget."""
    from pdlab.theory import kv, link

    shape = kv.uniform(layers=80, kv_heads=8, head_dim=128)
    size = kv.kv_bytes(shape, PROMPT_TOKENS)

    def row(gb_s: float) -> dict:
        floor = link.handoff_floor_ms(size, gb_s, SETUP_MS)
        return {
            "effective_bandwidth_gb_s": gb_s,
            "bandwidth_floor_ms": _digits(link.bandwidth_floor_ms(size, gb_s)),
            "handoff_floor_ms": _digits(floor),
            "floor_within_20ms_budget": link.within_budget(floor, BUDGET_MS),
        }

    short = kv.kv_bytes(shape, SHORT_PROMPT_TOKENS)
    return {
        "scope": "hypothetical: 80 layers, 8 KV heads of 128 elements, 2 bytes each; one equivalent "
                 "link at an effective bandwidth; 1 ms setup; floors, not latencies",
        "bytes_per_token": kv.bytes_per_token(shape),
        "prompt_tokens": PROMPT_TOKENS,
        "kv_bytes": size,
        "kv_mib": size / 2**20,
        "links": [row(gb_s) for gb_s in LINKS_GB_S],
        "broken_short_prompt_case": {
            "prompt_tokens": SHORT_PROMPT_TOKENS,
            "effective_bandwidth_gb_s": SHORT_PROMPT_LINK_GB_S,
            "handoff_floor_ms": _digits(
                link.handoff_floor_ms(short, SHORT_PROMPT_LINK_GB_S, SETUP_MS)),
        },
    }


def _digits(ms: float) -> float:
    """Milliseconds to 10 decimals: the noise of binary fractions off, every real digit kept."""
    return round(ms, 10)
