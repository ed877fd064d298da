"""``pdlab plan check``: whether a plan can be carried out as it is written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: Any) -> None:
    """Declare the command."""
    p = sub.add_parser("plan", help="check a comparison plan")
    actions = p.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="keys, values, placeholders, equal budgets")
    check.add_argument("file", type=Path, metavar="FILE")
    add_json_flag(check)
    p.set_defaults(run=run)
    check.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 for a sound plan; a faulty one is bad input (2)."""
    from pdlab.measure import plan, slo

    found = plan.load(args.file)
    c, needed = found.comparison, slo.requests_needed(found.acceptance.slo_attainment_min)
    rates = [
        {"rate_rps": rate, "expected_requests": rate * c.duration_seconds, "enough": rate * c.duration_seconds >= needed}
        for rate in c.offered_rates_rps
    ]
    if args.json:
        print_json({
            "file": str(args.file), "sha256": plan.sha256(args.file), "budget": found.budget,
            "budget_unit": found.budget_unit, "requests_needed": needed, "rates": rates,
            "workload_trace_exists": Path(c.workload_trace).exists(),
        })  # fmt: skip
        return 0
    print(f"{args.file}: sound; {found.budget} {found.budget_unit}s on each side, model {c.model_revision}")
    print_table(
        [[f"{r['rate_rps']:g}", f"{r['expected_requests']:g}", "yes" if r["enough"] else "no"] for r in rates],
        ["requests/s", f"requests expected in {c.duration_seconds:g} s", f"enough for {found.acceptance.slo_attainment_min:g} ({needed})"],
    )  # fmt: skip
    if not Path(c.workload_trace).exists():
        print(f"note: {c.workload_trace} is not here; a run needs it (paths count from the working directory)")
    return 0
