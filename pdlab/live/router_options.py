"""The router's command-line options, apart from the router so that reading them costs no import."""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from pdlab.errors import BadInput
from pdlab.live.placement import BLOCK_SIZE, CACHE_BLOCKS, CHOICES
from pdlab.live.policy import RULES
from pdlab.options import seconds, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``pdlab router`` and of ``python -m pdlab.live.router``."""
    add = parser.add_argument
    add("--worker", action="append", default=[], metavar="URL", help="an aggregated replica (repeat for more)")
    add("--prefill", action="append", default=[], metavar="URL", help="a prefill server (repeat for more)")
    add("--decode", action="append", default=[], metavar="URL", help="a decode server (repeat for more)")
    add("--policy", default="all-remote", metavar="RULE", help=f"which prompts go to prefill: {RULES}")
    add("--prefill-choice", choices=CHOICES, default="queue",
        help="the prefill server with the fewest tokens queued (default), or done first, hits counted, or in turn")  # fmt: skip
    add("--block-size", type=whole(), default=BLOCK_SIZE, metavar="TOKENS",
        help=f"a block of the servers' prefix caches ({BLOCK_SIZE})")  # fmt: skip
    add("--cache-blocks", type=whole(high=10**9), default=CACHE_BLOCKS, metavar="N",
        help=f"blocks that a server is believed to keep ({CACHE_BLOCKS})")  # fmt: skip
    add("--on-failure", choices=["fail", "retry"], default="fail",
        help="retry: once, before the first token, on another prefill server or on decode itself")  # fmt: skip
    add("--port", type=whole(0, 65_535), default=0, help="0 takes a free one (default)")
    add("--log", type=Path, metavar="FILE", help="append one JSON line a request")
    add("--prefill-deadline", type=seconds(), default=60.0, metavar="S", help="for prefill's answer (60)")
    add("--first-token-deadline", type=seconds(), default=60.0, metavar="S",
        help="from the decode request to its first token, transfer included (60)")  # fmt: skip
    add("--request-deadline", type=seconds(), default=300.0, metavar="S", help="for the whole request (300)")
    add("--until-stdin-closes", action="store_true", help="end when the starting program is gone")


def check(args: argparse.Namespace) -> None:
    """BadInput for an address that is no server's."""
    for option in ("worker", "prefill", "decode"):
        for url in getattr(args, option):
            if not _is_server(url):
                raise BadInput(repr(url), "a server such as http://127.0.0.1:8100", f"--{option}")
        given = [url.rstrip("/") for url in getattr(args, option)]
        if twice := next((url for url in given if given.count(url) > 1), None):
            raise BadInput(f"{twice} a second time", "each server once", f"--{option}")


def _is_server(url: str) -> bool:
    """Scheme and host, perhaps a port and a path, and nothing that would swallow the path put behind."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or the host no address
        return False
    return whole and url.isprintable() and not set(url) & set(" ?#@\\")
