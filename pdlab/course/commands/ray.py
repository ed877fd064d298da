"""``pdlab ray``: both designs of the miniature on Ray Serve LLM, held against each other."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab.course.output import add_json_flag, print_json, print_table
from pdlab.errors import BadInput, Failed


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("ray", help="deploy both designs on Ray Serve LLM and prove the transfer")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the proof and its provenance")
    parser.add_argument("--kill", action="store_true", help="also kill the prefill replica and watch Ray recover")
    parser.add_argument("--scale", action="store_true", help="instead: scale prefill apart from decode, by serve run (with --out)")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when all of it holds; 1 when something differs or Ray did not come up."""
    from pdlab.live.ray import prove, scale
    from pdlab.live.sweep import aloud

    if args.scale and not args.out:
        raise BadInput("--scale without --out", "a directory to write to", do="Give one: --scale --out DIR.")
    try:
        if args.scale:
            found = scale.record(args.out, aloud)
            if args.json:
                print_json(found)
            return 0 if all(step["settled"] for step in found["steps"]) else 1
        found = prove.run(args.out, args.kill, aloud)
    except OSError as error:
        raise Failed(str(error)) from error
    if args.json:
        print_json(found)
    else:
        same = "equal to the byte" if found["nixl_bytes"] == found["formula_bytes"] else "NOT equal"
        print_table(
            [
                ("equal greedy texts", f"{found['texts_equal']} of {found['requests']}"),
                ("prompt tokens from prefill", f"{found['external_kv_transfer']:,.0f} of {found['prompt_tokens_total']:,}"),
                ("bytes that NIXL moved", f"{sum(found['nixl_bytes']):,} in {len(found['nixl_bytes'])} transfers"),
                ("bytes by the formula", f"{sum(found['formula_bytes']):,}, each transfer {same}"),
                ("processes left", " and ".join(str(one["processes_left"]) for one in found["designs"].values())),
                ("all of it holds", "yes" if found["holds"] else "no"),
            ],
            ("Ray Serve LLM, measured here", "found"),
        )
    return 0 if found["holds"] else 1
