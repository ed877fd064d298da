"""``pdlab trace FILE``: what a workload trace holds."""

from __future__ import annotations

import argparse

from pdlab import options
from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("trace", help="summarise a workload trace (Mooncake JSONL or Azure CSV)")
    p.add_argument("file", help="the trace")
    p.add_argument(
        "--block-tokens", type=options.whole(), metavar="N",
        help="tokens a hash id stands for (default: declared beside the trace, else 512)",
    )  # fmt: skip
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int | None:
    from pdlab.measure import traces, workload

    found = workload.summary(traces.read_trace(args.file, args.block_tokens))
    if args.json:
        print_json(found)
        return None
    rate = "one instant" if found["rate_rps"] is None else f"{found['rate_rps']:.3f} requests/s"
    held = found["block_hit_ratio"]
    reuse = (
        "the trace has lengths only: prefix reuse is unknown"
        if held is None
        else f"one for {found['block_tokens']} tokens; "
        f"an endless cache would hold {held:.1%} of the blocks"
    )
    kinds = ", ".join(f"{name} {count}" for name, count in found["kinds"].items())
    print_table(
        [
            ("requests", f"{found['requests']:,} over {found['duration_s']:,.1f} s, {rate}"),
            ("kinds", kinds),
            ("hash ids", reuse),
        ],
        ("trace", found["origin"]),
    )
    print()
    lengths = [(side, *found[f"{side}_tokens"].values()) for side in ("prompt", "output")]
    print_table(
        [(side, f"{mean:,.2f}", *(f"{v:,.0f}" for v in rest)) for side, mean, *rest in lengths],
        ("tokens", "mean", "p50", "p95", "p99", "max"),
    )
    return None
