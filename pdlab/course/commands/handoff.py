"""``pdlab handoff``: the least time that moving a prompt's KV takes, link by link."""

from __future__ import annotations

import argparse


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    from pdlab.course.arguments import add_prompt_options
    from pdlab.course.output import add_json_flag

    p = sub.add_parser("handoff", help="the hand-off floor of a prompt over one or more links")
    add_prompt_options(p)
    p.add_argument("--link", required=True, nargs="+", action="extend", metavar="GB_S",
                   help="effective bandwidth in GB/s; several values, or the flag several times")
    p.add_argument("--setup-ms", required=True, metavar="S",
                   help="setup of one hand-off in ms, not contained in the bandwidth")
    p.add_argument("--budget-ms", required=True, metavar="B", help="time allowed for it, in ms")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print a row a link; passing the floor keeps a link on the list, nothing more."""
    from pdlab.course.arguments import not_negative_arg, positive_arg, read_prompt
    from pdlab.course.output import print_json, print_table
    from pdlab.theory import kv, link

    shape, tokens, how = read_prompt(args)
    setup_ms = not_negative_arg(args.setup_ms, "--setup-ms", "ms")
    budget_ms = positive_arg(args.budget_ms, "--budget-ms", "ms")
    size = kv.kv_bytes(shape, tokens, **how)
    rows = []
    for text in args.link:
        gb_s = positive_arg(text, "--link", "GB/s")
        floor = link.handoff_floor_ms(size, gb_s, setup_ms)
        rows.append({
            "effective_bandwidth_gb_s": gb_s,
            "bandwidth_floor_ms": link.bandwidth_floor_ms(size, gb_s),
            "handoff_floor_ms": floor,
            "within_budget": link.within_budget(floor, budget_ms),
        })
    if args.json:
        print_json({
            "model": shape.name, "tokens": tokens, **how, "kv_bytes": size, "kv_mib": size / 2**20,
            "setup_ms": setup_ms, "budget_ms": budget_ms, "links": rows, "label": "hypothetical",
        })
        return
    print(f"{shape.name}, {tokens:,} tokens: {size:,} B of KV, {setup_ms:g} ms setup, "
          f"{budget_ms:g} ms budget (hypothetical)")
    print_table(
        [(f"{r['effective_bandwidth_gb_s']:g}", f"{r['bandwidth_floor_ms']:.4f}",
          f"{r['handoff_floor_ms']:.4f}", "yes" if r["within_budget"] else "no") for r in rows],
        ("effective GB/s", "bandwidth floor ms", "hand-off floor ms", "floor within budget"),
    )
    print("A floor: queueing, buffers and synchronisation come on top.")
