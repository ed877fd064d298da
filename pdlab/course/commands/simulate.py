"""``pdlab simulate PLAN --out DIR``: predict a plan on GPUs that are not here, or prove a recording."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("simulate", help="simulate a plan with AISimulate (needs `make sim`)")
    p.add_argument("plan", help="the plan file")
    p.add_argument("--out", required=True, metavar="DIR", help="where the runs are, or will be")
    p.add_argument(
        "--check", action="store_true",
        help="write nothing: simulate again and compare with DIR bit for bit",
    )  # fmt: skip
    p.add_argument("--only", metavar="PATH", help="only runs whose path begins so, as main/ or splits/")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int | None:
    import sys
    from pathlib import Path

    from pdlab.live import simulate

    def tell(point, run) -> None:
        print(f"simulated {point.path}: {run.table.num_rows} requests", file=sys.stderr)

    if args.check:
        differ = simulate.check(args.plan, args.out, args.only, tell)
        hashes = simulate.read_hashes(Path(args.out))
    else:
        differ, hashes = [], simulate.record(args.plan, args.out, args.only, tell)
    compared = [path for path in hashes if path.startswith(args.only or "")]
    digest = simulate.total(hashes[path] for path in compared)
    if args.json:
        print_json({"label": "simulated", "runs": len(compared), "checked": args.check,
                    "differ": differ, "sha256": digest})  # fmt: skip
    elif not args.check:
        print(f"Wrote {len(compared)} simulated runs to {args.out} (sha256 {digest}).")
    elif differ:
        print(f"{len(differ)} of {len(compared)} runs differ from {args.out}: {', '.join(differ)}")
    else:
        print(f"All {len(compared)} runs equal {args.out} bit for bit (sha256 {digest}).")
    return 1 if differ else None
