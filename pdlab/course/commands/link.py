"""``pdlab link``: measure the NIXL link between two processes, of this machine or of two."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from pdlab import options
from pdlab.course.output import add_json_flag, print_json, print_table

SUFFIXES = {"K": 10, "M": 20, "G": 30}
SIZE = re.compile(r"([0-9]{1,15})([KMG]?)I?B?")
DEFAULT_REPEATS = 15


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("link", help="effective bandwidth of NIXL over UCX at several message sizes")
    p.add_argument("--sizes", help="bytes, such as 4K,64K,1M,16M (K, M, G are powers of 1024)")
    p.add_argument("--transport", choices=("shm", "tcp", "auto"),
                   help="shm (on one machine), tcp, or auto: UCX chooses (with --listen and --peer)")  # fmt: skip
    p.add_argument("--memory", choices=("dram", "vram"), default="dram",
                   help="where the bytes lie: the machine's memory or a GPU's")  # fmt: skip
    p.add_argument("--repeats", type=options.whole(3, 100_000), default=DEFAULT_REPEATS, help=f"timed transfers of each size ({DEFAULT_REPEATS})")
    p.add_argument("--descriptor-bytes", type=options.whole(1, 1 << 40), metavar="BYTES", help="cut each message into pieces, as KV blocks do")
    p.add_argument("--no-progress-delay", action="store_true", help="let NIXL's progress thread spin")
    p.add_argument("--at-least-gb-s", type=options.real("GB/s", 1e6), metavar="X", help="exit status 1 when the largest size gets less")
    ends = p.add_mutually_exclusive_group()
    ends.add_argument("--listen", metavar="HOST:PORT",
                      help="on the machine that holds the bytes: serve one measurement, then end")  # fmt: skip
    ends.add_argument("--peer", metavar="HOST:PORT", help="on the machine that pulls them: measure against --listen there")
    p.add_argument("--wait", type=options.seconds(), default=300.0, metavar="S", help="how long the two ends wait for each other (300)")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 with a table or one JSON document; 1 when a transfer failed, a byte arrived changed, or the
    largest size got less than ``--at-least-gb-s``."""
    from pdlab.live import link

    sizes = [_bytes(text) for text in args.sizes.split(",")] if args.sizes is not None else list(link.SIZES)
    return _listen(args) if args.listen is not None else _told(args, _measured(args, sizes))


def _measured(args: argparse.Namespace, sizes: list[int]) -> Any:
    from pdlab.live import link, link_hosts

    delay = None if args.no_progress_delay else "auto"
    if args.peer is not None:
        return link_hosts.measure(
            *link_hosts.address(args.peer, "--peer"), sizes, args.repeats, args.descriptor_bytes,
            args.transport or link.AUTO, args.memory, args.wait, delay,
        )[1]  # fmt: skip
    transport = args.transport or "shm"
    return link.measure(transport, sizes, args.repeats, args.descriptor_bytes, delay, args.memory)[1]


def _listen(args: argparse.Namespace) -> int:
    from pdlab.errors import BadInput
    from pdlab.live import link, link_hosts

    if args.at_least_gb_s is not None:
        raise BadInput("--at-least-gb-s beside --listen", "it beside --peer, where the figures are", "--listen")

    def say(host: str, port: int) -> None:
        if args.json:
            print_json({"listening": f"{host}:{port}"})
        else:
            print(f"listening on {host}:{port} for one measurement")
        sys.stdout.flush()

    delay = None if args.no_progress_delay else "auto"
    host, port = link_hosts.address(args.listen, "--listen")
    held = link_hosts.listen(host, port, args.transport or link.AUTO, args.memory, args.wait, delay, say)
    print(f"measured from the other end, {held:,} bytes held; its figures are there", file=sys.stderr)
    return 0


def _told(args: argparse.Namespace, report: Any) -> int:
    """Print the report, hold it against the minimum, and give the exit status."""
    from dataclasses import asdict

    largest, least = report.largest, args.at_least_gb_s
    enough = None if least is None else largest.gb_s >= least
    if args.json:
        print_json({"label": "measured", **asdict(report), "memory": args.memory, "peer": args.peer,
                    "at_least_gb_s": least, "enough": enough})  # fmt: skip
    else:
        _print(args, report)
    if enough is False:
        print(f"pdlab link: {largest.gb_s:.2f} GB/s at {largest.size_bytes:,} bytes is under the minimum of {least:g} GB/s.",
              file=sys.stderr)  # fmt: skip
    return 1 if enough is False else 0


def _print(args: argparse.Namespace, report: Any) -> None:
    print_table(
        [
            (f"{size.size_bytes:,}", f"{size.transfer_ms:.4f}", f"{size.gb_s:.2f}",
             f"{size.gb_s_low:.2f} to {size.gb_s_high:.2f}", size.count)
            for size in report.sizes
        ],
        ("bytes", "median ms", "GB/s", "middle half", "transfers"),
    )  # fmt: skip
    half, where = report.half_bandwidth_bytes, f"from {args.peer}" if args.peer else "on this machine"
    memory = "" if args.memory == "dram" else ", GPU memory"
    print(f"\nmeasured {where}, NIXL over UCX, transport {report.transport}{memory}; every byte checked")
    said = f"half of that from about {half:,.0f} bytes on" if half else "half of that and more at every size"
    print(f"at the largest size {report.largest.gb_s:.2f} GB/s, {said}")
    print(f"at most {report.peak_gb_s:.2f} GB/s, which may be the rate of a cache")
    print(f"first transfer, connecting included: {report.first_ms:.1f} ms")
    if args.at_least_gb_s is not None and report.largest.gb_s >= args.at_least_gb_s:
        print(f"that is enough: at least {args.at_least_gb_s:g} GB/s was asked for")


def _bytes(text: str) -> int:
    from pdlab.errors import BadInput

    found = SIZE.fullmatch(text.strip().upper())
    if not found:
        raise BadInput(f"size {options.shown(text)}", "whole bytes such as 65536, 64K or 16M", "--sizes")
    return int(found[1]) << SUFFIXES.get(found[2], 0)
