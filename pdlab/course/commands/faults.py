"""``pdlab faults``: break a live pair on purpose and write down what happened."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab import options
from pdlab.course.output import add_json_flag, print_json, print_table
from pdlab.errors import BadInput


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("faults", help="break a live prefill/decode pair on purpose")
    parser.add_argument("names", nargs="*", metavar="FAULT", help="default: all of them; --list names them")
    parser.add_argument("--list", action="store_true", help="name the faults and what is expected of each")
    parser.add_argument("--repeat", type=options.whole(1, 10_000), default=1, metavar="N", help="runs of each fault (1)")
    parser.add_argument("--repeat-kills", type=options.whole(1, 10_000), metavar="N", help="of those that kill a server (as --repeat)")
    parser.add_argument("--soak", type=options.whole(10), metavar="N", help="instead: N requests with random faults, each accounted for")
    parser.add_argument("--model", default="tiny", help="tiny (default) or another that is on disk")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the table and its provenance")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when every fault has its runs, no token came twice, no block or process stayed; else 1."""
    import sys
    from dataclasses import asdict

    from pdlab.live.faults import catalogue, soak, table
    from pdlab.live.sweep import aloud

    if args.names and (args.list or args.soak is not None):
        raise BadInput(f"{args.names[0]!r} with {'--list' if args.list else '--soak'}", "no fault's name: it takes them all")
    if args.list:
        print_table([[f.name, f.says, f.expects] for f in catalogue.CATALOGUE.values()], ["fault", "what is done", "expected"])
        return 0
    if args.soak is not None:
        account = soak.run(args.soak, out=args.out, say=aloud)
        found = {"label": "measured", "faultless": account.faultless} | asdict(account)
        print_json(found) if args.json else print_table([[key, str(value)] for key, value in found.items()], ["what", "found"])
        return 0 if account.faultless else 1
    result = table.run(args.names, args.repeat, args.out, args.model, say=aloud, repeat_kills=args.repeat_kills)
    rows, short = result.rows, result.short
    clean = all(row.twice == 0 and row.processes <= 0 for row in rows)
    if args.json:
        print_json({"label": "measured", "clean": clean, "short": short, "rows": [asdict(row) for row in rows]})
    else:
        print_table(list(table.summary(rows)), table.HEADERS)
        print("measured on this machine" + ("" if clean else "; something was left behind or came twice"))
        for name, why in short.items():
            print(f"{name}: {why}", file=sys.stderr)
    return 0 if clean and not short else 1
