"""``pdlab link``: measure the NIXL link between two processes of this machine."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json, print_table

SUFFIXES = {"K": 10, "M": 20, "G": 30}


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("link", help="effective bandwidth of NIXL over UCX at several message sizes")
    p.add_argument("--sizes", help="bytes, such as 4K,64K,1M,16M (K, M, G are powers of 1024)")
    p.add_argument("--transport", choices=("shm", "tcp"), default="shm")
    p.add_argument("--repeats", type=int, default=15, help="timed transfers of each size (15)")
    p.add_argument("--descriptor-bytes", type=int, metavar="BYTES", help="cut each message into pieces, as KV blocks do")
    p.add_argument("--no-progress-delay", action="store_true", help="let NIXL's progress thread spin")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 with a table or one JSON document; 1 when a transfer failed or a byte arrived changed."""
    import sys
    from dataclasses import asdict

    from pdlab.live import link

    sizes = [_bytes(text) for text in args.sizes.split(",")] if args.sizes else link.SIZES
    delay = None if args.no_progress_delay else "auto"
    try:
        _, report = link.measure(args.transport, sizes, args.repeats, args.descriptor_bytes, delay)
    except link.LinkFailed as error:
        print(f"pdlab link: {error}", file=sys.stderr)
        return 1
    if args.json:
        print_json({"label": "measured", **asdict(report)})
        return 0
    print_table(
        [
            (f"{size.size_bytes:,}", f"{size.transfer_ms:.4f}", f"{size.gb_s:.2f}",
             f"{size.gb_s_low:.2f} to {size.gb_s_high:.2f}", size.count)
            for size in report.sizes
        ],
        ("bytes", "median ms", "GB/s", "middle half", "transfers"),
    )  # fmt: skip
    half = report.half_bandwidth_bytes
    print(f"\nmeasured on this machine, NIXL over UCX, transport {report.transport}; every byte checked")
    print(f"peak {report.peak_gb_s:.2f} GB/s, at the largest size {report.sizes[-1].gb_s:.2f} GB/s")
    print("half of the peak at " + (f"{half:,.0f} bytes" if half else "less than the smallest size"))
    print(f"first transfer, connecting included: {report.first_ms:.1f} ms")
    return 0


def _bytes(text: str) -> int:
    from pdlab.errors import BadInput

    number, shift = text.strip().upper().removesuffix("B").removesuffix("I"), 0
    if number[-1:] in SUFFIXES:
        number, shift = number[:-1], SUFFIXES[number[-1]]
    if not number.isdigit():
        raise BadInput(f"size {text!r}", "whole bytes such as 65536, 64K or 16M", "--sizes")
    return int(number) << shift
