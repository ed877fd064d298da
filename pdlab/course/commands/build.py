"""``pdlab build``: make both notebooks of each source, or check that the stored ones are current."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("build", help="build the notebooks from solutions/NN-name.py, or check them")
    p.add_argument("notebooks", nargs="*", metavar="NN", help="numbers such as 02 or L1 (default: all)")
    p.add_argument("--check", action="store_true", help="change nothing; fail when a notebook is not current")
    p.add_argument("--no-run", action="store_true", help="execute nothing; keep or compare the stored outputs")
    p.add_argument("--accept-fewer", action="store_true", help="let the number of compared cells fall")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import sys

    from pdlab.course.build import build
    from pdlab.course.source import ROOT

    products = build(ROOT, args.notebooks, args.check, not args.no_run, args.accept_fewer)
    problems = [problem for product in products for problem in product.problems]
    shown = [(p, p.path.relative_to(ROOT).as_posix()) for p in products]
    if args.json:
        print_json(
            {
                "products": [
                    {"path": path, "state": p.state, "compared_cells": p.compared, "seconds": round(p.seconds, 2), "problems": p.problems}
                    for p, path in shown
                ],
                "ok": not problems,
            }
        )
    else:
        for p, path in shown:
            print(f"{p.state:<10}{path}  {p.compared} cells compared, {p.seconds:.1f} s")
        for problem in problems:
            print(problem.replace(f"{ROOT}/", ""), file=sys.stderr)
        if not products:
            print("no source in solutions/ yet")
    return 1 if problems else 0
