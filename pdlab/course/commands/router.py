"""``pdlab router``: the proxy in front of running servers."""

from __future__ import annotations

import argparse

from pdlab.live.router_options import add_arguments


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("router", help="an OpenAI-compatible proxy in front of both designs")
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the router until it is stopped."""
    from pdlab.live import router

    return router.run(args)
