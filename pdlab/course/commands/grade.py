"""``pdlab grade NOTEBOOK…``: how every exercise of a learner's notebook stands."""

from __future__ import annotations

import argparse
import signal

from pdlab import options
from pdlab.course.output import add_json_flag, print_json, print_table, printable


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("grade", help="run learners' notebooks and report every exercise; the files are not changed")
    p.add_argument("notebook", nargs="+", help="a learner's notebook, under any name")
    p.add_argument("--cell-timeout", type=options.seconds(), default=20.0, metavar="S", help="seconds a cell may take (20)")
    p.add_argument("--notebook-timeout", type=options.seconds(), default=240.0, metavar="S", help="seconds a notebook may take (240)")
    p.add_argument("--memory-mb", type=options.whole(1, 1 << 30), default=2048, metavar="MB", help="memory a notebook may take (2048)")
    p.add_argument("--jobs", type=options.whole(1, 1024), metavar="N", help="notebooks at a time (one for each processor)")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from pdlab.course import grade, grade_sandbox

    # A batch that is ended from outside takes its copies and processes along, as on Ctrl-C.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, signal.default_int_handler)
    limits = grade.Limits(args.cell_timeout, args.notebook_timeout, args.memory_mb)
    reports = grade.grade([Path(name) for name in args.notebook], limits, args.jobs)
    if args.json:
        print_json(
            {
                "points": sum(report.points for report in reports),
                "max_points": sum(report.max_points for report in reports),
                "contained": grade_sandbox.contained(),
                "notebooks": [report.document() for report in reports],
            }
        )
    else:
        for report in reports:
            _print(report)
    return 2 if any(report.error for report in reports) else 0


def _print(report: object) -> None:
    if report.error:
        print(f"{printable(report.error)}\n")
        return
    print(f"{printable(report.notebook)}: {report.points} of {report.max_points} points ({report.course_notebook}, {report.seconds:.1f} s)\n")
    rows = [
        (r.id, r.title, r.outcome, f"{r.points}/{r.max_points}", "; ".join(filter(None, [r.message, *r.notes])))
        for r in report.exercises
    ]
    print_table(rows, ["exercise", "title", "outcome", "points", "remarks"])
    for note in report.notes:
        print(f"note: {note}")
    print()
