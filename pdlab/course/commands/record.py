"""``pdlab record``: make the course's recorded runs again, on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("record", help="measure one of the course's recorded runs again")
    p.add_argument("what", choices=("interference", "nixl-bytes", "link", "routing"))
    p.add_argument("--out", type=Path, required=True, help="a new directory for the run")
    p.add_argument("--model", default="smollm2", help="smollm2, tiny, a folder or a model id")
    p.add_argument("--notes", help="what else the machine did, kept in the provenance (routing)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write, and say where; 1 when a server or a transfer failed."""
    from pdlab.errors import BadInput
    from pdlab.live import ledger, link_record, microscope, routing

    if args.out.exists() and any(args.out.iterdir()):
        raise BadInput(f"files in {args.out}", "an empty or new directory", "--out")
    if args.what == "interference":
        microscope.record(args.out, args.model)
    elif args.what == "nixl-bytes":
        ledger.record(args.out, args.model)
    elif args.what == "routing":
        routing.record(args.out, notes=args.notes)
    else:
        link_record.record(args.out)
    print(f"recorded: {args.out}")
    return 0
