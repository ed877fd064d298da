"""``pdlab compare``: two runs side by side, and a ratio only when they may be compared."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: Any) -> None:
    """Declare the command."""
    p = sub.add_parser("compare", help="two runs side by side; validity gates first, ratios only if all hold")
    p.add_argument("run_a", type=Path, metavar="RUN_A", help="the baseline")
    p.add_argument("run_b", type=Path, metavar="RUN_B")
    p.add_argument("--plan", type=Path, help="judge by this plan's acceptance (else the reference plan's)")
    p.add_argument("--single", type=Path, metavar="RUN", help="a run of one replica of the baseline, same trace")
    p.add_argument("--normalise", action="store_true",
                   help="divide rates by unequal budgets: this answers another question")  # fmt: skip
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when ratios may be drawn, 1 when they are refused."""
    from pdlab.measure import importers, plan, slo
    from pdlab.measure.compare import compare

    acceptance, options = slo.REFERENCE_ACCEPTANCE, {}
    if args.plan:
        chosen = plan.load(args.plan)
        acceptance = chosen.acceptance
        options = {"output_tokens_minimum_for_tpot": chosen.comparison.output_tokens_minimum_for_tpot}
    single = importers.read(args.single) if args.single else None
    found = compare(
        importers.read(args.run_a), importers.read(args.run_b), acceptance,
        single=single, normalise=args.normalise, **options,
    )  # fmt: skip
    if args.json:
        print_json(found.to_dict())
        return 0 if found.valid else 1
    print(f"A: {args.run_a} [{found.a.label}]   B: {args.run_b} [{found.b.label}]")
    print(found.question)
    print_table([[c.name, c.result.replace("_", " "), c.detail] for c in found.checks], ["validity", "result", ""])
    print()
    text = lambda x: "unknown" if x is None else f"{x:.4g}"  # noqa: E731
    ratio = lambda x: "" if x is None else f"{x:.3f}"  # noqa: E731
    print_table([[r.metric, text(r.a), text(r.b), ratio(r.ratio)] for r in found.rows], ["", "A", "B", "B / A"])
    if not found.valid:
        failed = ", ".join(c.name for c in found.checks if c.result == "fail")
        print(f"No ratio is drawn: {failed} failed.")
    return 0 if found.valid else 1
