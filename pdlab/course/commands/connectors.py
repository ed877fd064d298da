"""``pdlab connectors``: run each KV connector on a real pair and say what it moved and how it fails."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab.course.output import add_json_flag, print_json, print_table
from pdlab.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
RUN, PAGES = ROOT / "data/runs/connectors", ROOT / "labs/connectors"


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    p = sub.add_parser("connectors", help="run each KV connector on a real pair and compare them")
    p.add_argument("names", nargs="*", metavar="NAME", help="such as NixlConnector or nixl; default: all")
    p.add_argument("--out", type=Path, metavar="DIR", help="keep the table and its provenance there")
    p.add_argument("--logs", type=Path, metavar="DIR", help="keep the servers' logs there")
    p.add_argument("--pages", action="store_true", help="run nothing: make the tables in labs/connectors again from the recorded run")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0; 1 where a connector that is installed, and has been seen to work, did not do what it promises."""
    import json
    from dataclasses import asdict

    from pdlab.live import env
    from pdlab.live.connectors import kinds, table
    from pdlab.live.connectors import run as runs

    if args.pages and args.names:
        raise BadInput(f"{args.names[0]!r} with --pages", "no connector's name: all pages are made again")
    if args.pages:
        about = json.loads((RUN / runs.records.PROVENANCE).read_text())
        table.write(PAGES, table.blocks(runs.read(RUN), about), lambda path: print(f"wrote {path.relative_to(ROOT)}"))
        return 0
    env.python()  # all pairs stand on it
    rows = runs.run(kinds.pick(args.names), args.out, args.logs)
    if args.json:
        print_json({"label": "measured", "rows": [asdict(row) for row in rows]})
    else:
        for row in rows:
            print(f"{row.connector}: measured here")
            print_table(zip(table.HEADERS[1:], table.summary(row)[1:], strict=True), ("", ""))
            for cells in table.failures([row]):
                print_table(zip(table.FAILURE_HEADERS[1:], cells[1:], strict=True), ("", ""))
            print()
    return 0 if all(table.holds(row) for row in rows if row.version and kinds.KINDS[row.connector].works) else 1
