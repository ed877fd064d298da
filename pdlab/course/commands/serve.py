"""``pdlab serve``: hold real servers up, with the router in front, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pdlab import options
from pdlab.course.output import add_json_flag


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("serve", help="start one side of a plan and hold it up")
    p.add_argument("plan", type=Path, help="a plan with a live section, such as data/plans/miniature-2core.yaml")
    p.add_argument("--design", choices=("aggregated", "disaggregated"), required=True)
    p.add_argument("--model", help="instead of the plan's: tiny, smollm2, a folder or a model id")
    p.add_argument("--chunk", type=options.whole(), metavar="TOKENS", help="max_num_batched_tokens (default: the plan's largest)")
    p.add_argument("--logs", type=Path, help="where the servers' logs go")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 after Ctrl-C once all is up, 130 before; Failed when a server or the router ends by itself."""
    from pdlab.live.front import router_process
    from pdlab.live.serve import Deployment, Spec
    from pdlab.measure import plan

    changes = {"model": args.model} if args.model else {}
    spec = Spec.from_plan(plan.load(args.plan), args.design, args.chunk, **changes)
    with Deployment(spec, args.logs) as deployment, router_process(deployment) as (router, url):
        _tell(args, deployment, url)
        try:
            deployment.wait(router)
        except KeyboardInterrupt:
            return 0
        finally:
            print("stopping …", file=sys.stderr)


def _tell(args: argparse.Namespace, deployment, url: str) -> None:
    from pdlab.course.output import print_json, print_table

    servers = [(s.name, s.base_url, str(s.pid), str(s.log_path)) for s in deployment.servers]
    if args.json:
        print_json({
            "url": url, "model": deployment.model_name, "budget": deployment.describe_budget(),
            "servers": [dict(zip(("name", "base_url", "pid", "log"), row)) for row in servers],
        })  # fmt: skip
        sys.stdout.flush()
        return
    print_table(servers, ("server", "url", "pid", "log"))
    print(f"\nbudget: {deployment.describe_budget()}\nrouter: {url}/v1  model: {deployment.model_name}")
    print("Ctrl-C stops all of it.", flush=True)
