"""``pdlab dynamo``: send our grid through Dynamo's own router and compare its decisions with our rule."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("dynamo", help="compare Dynamo's router with our rule (needs `make dynamo`)")
    p.add_argument("--out", metavar="DIR", help="keep the decisions and their provenance there")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int | None:
    import tempfile
    from pathlib import Path

    from pdlab.live import dynamo

    with tempfile.TemporaryDirectory() as nowhere:
        document = dynamo.record(Path(args.out or nowhere))
    differ = dynamo.differences(document)
    requests = sum(len(part["requests"]) for part in document["settings"])
    if args.json:
        print_json({"label": "measured", "engines": document["engines"], "requests": requests,
                    "differ": differ, "settings": document["settings"]})  # fmt: skip
        return 1 if differ else None
    print("Decisions measured on Dynamo's router; engines simulated by its mockers.")
    for part in document["settings"]:
        told = "its own record of what it sent to decode" if part["predicted_ttl_s"] else "nobody"
        print(f"\neff_isl_threshold {part['eff_isl_threshold']}, ratio {part['eff_isl_ratio_threshold']}; "
              f"the router learns what decode holds from {told}")  # fmt: skip
        print_table(
            [(row["prompt_tokens"], row["cached_on_decode_tokens"], row["uncached_tokens"], row["decision"])
             for row in part["requests"] if row["decision"] and row["kind"] == "grid"],
            ("prompt", "cached on decode", "uncached", "decision"),
        )  # fmt: skip
    print(f"\n{requests - len(differ)} of {requests} decisions (primers included) are what our rule says.")
    for line in differ:
        print(line)
    return 1 if differ else None
