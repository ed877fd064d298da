"""``pdlab sweep``: carry a plan out on real servers."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab import options
from pdlab.course.output import add_json_flag, print_json
from pdlab.errors import BadInput, Failed


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("sweep", help="run a plan's two designs on real vLLM servers")
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a plan file with a live section")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted sweep in DIR")
    parser.add_argument("--tune", action="store_true",
                        help="first choose aggregated serving's chunk size among the plan's")  # fmt: skip
    parser.add_argument("--chunk", type=options.whole(), metavar="TOKENS", help="aggregated serving's chunk size")
    parser.add_argument("--on", choices=["vllm", "ray"], default="vllm",
                        help="vLLM behind the course's router, or Ray Serve LLM (make ray)")  # fmt: skip
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when every run is done, 1 when servers or client failed."""
    from pdlab.live import sweep

    try:
        if args.on == "ray":
            from pdlab.live.ray import sweep as on_ray

            if args.tune:
                raise BadInput("--tune with --on ray", "one of them", do="Tune without Ray, then give --chunk.")
            out = on_ray.run_sweep(args.plan, args.out, args.resume, args.chunk)
        else:
            out = sweep.run_sweep(args.plan, args.out, args.resume, args.tune, args.chunk)
    except Failed as error:
        raise Failed(f"{error}\nWhat was measured is kept: go on with --resume.") from error
    if args.json:
        print_json({"out": str(out)})
    else:
        print(f"done; judge it with: pdlab analyze {out} --plan {args.plan}")
    return 0
