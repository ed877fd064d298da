"""``pdlab record``: make the course's recorded runs again, on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("record", help="measure one of the course's recorded runs again")
    p.add_argument("what", choices=("interference", "nixl-bytes", "link"))
    p.add_argument("--out", type=Path, required=True, help="a new directory for the run")
    p.add_argument("--model", default="smollm2", help="smollm2, tiny, a folder or a model id")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write, and say where."""
    from pdlab.errors import BadInput

    if args.out.exists() and any(args.out.iterdir()):
        raise BadInput(f"files in {args.out}", "an empty or new directory", "--out")
    if args.what == "interference":
        from pdlab.live import microscope

        microscope.record(args.out, args.model)
    elif args.what == "nixl-bytes":
        from pdlab.live import ledger

        ledger.record(args.out, args.model)
    else:
        from pdlab.live import link_record

        link_record.record(args.out)
    print(f"recorded: {args.out}")
    return 0
