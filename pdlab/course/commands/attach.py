"""``pdlab attach``: a plan's runs of one design, on servers that are up already."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab import options
from pdlab.course.output import add_json_flag, print_json


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("attach", help="a plan's runs of one design, on servers started elsewhere")
    parser.add_argument("plan", type=Path, metavar="PLAN")
    parser.add_argument("--design", choices=("aggregated", "disaggregated"), required=True)
    parser.add_argument("--url", required=True, help="the router in front of the servers (pdlab router)")
    parser.add_argument("--router-log", type=Path, metavar="FILE",
                        help="the router's --log, for routes and steps; leave it out for another proxy")  # fmt: skip
    parser.add_argument("--server", action="append", default=[], metavar="NAME=URL",
                        help="a server behind it (repeat for more)")  # fmt: skip
    parser.add_argument("--chunk", type=options.whole(), metavar="TOKENS", help="the chunk size that aggregated servers run with")
    parser.add_argument("--tune", action="store_true",
                        help="instead of the plan's runs the one that this chunk size is judged by; the last of them names the best")  # fmt: skip
    parser.add_argument("--least-bad", action="store_true",
                        help="with --tune: name one where no request met its targets with any size, too")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="one directory for both designs; what is there is kept")  # fmt: skip
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when every run of the design is done, 1 when servers or client failed."""
    from pdlab.errors import BadInput, Failed
    from pdlab.live import attach

    servers: dict[str, str] = {}
    for text in args.server:
        name, equals, url = text.partition("=")
        if not equals or not name or not url.startswith("http") or name in servers:
            raise BadInput(f"{text!r}", "NAME=URL, each name once", "--server")
        servers[name] = url
    if args.least_bad and not args.tune:
        raise BadInput("--least-bad without --tune", "both: it is about the choice that --tune makes", "--least-bad")
    try:
        chosen = attach.run(args.plan, args.out, args.design, args.url, servers, args.router_log, args.chunk,
                            tune=args.tune, least_bad=args.least_bad)  # fmt: skip
    except Failed as error:
        raise Failed(f"{error}\nWhat was measured is kept: run the same command again to go on.") from error
    if args.json:
        print_json({"out": str(args.out), "design": args.design, **({"chosen_chunk_tokens": chosen} if args.tune else {})})
    elif args.tune:
        print(f"chunks of {args.chunk} tokens are tried" if chosen is None else f"tuned: --chunk {chosen}")
    else:
        print(f"{args.design} is done; with both designs there: pdlab analyze {args.out} --plan {args.plan}")
    return 0
