"""``pdlab progress``: the whole course at a glance."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("progress", help="which exercises are done, as the saved notebooks show them")
    p.add_argument("--prove", action="store_true", help="run the notebooks through the grader instead")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from pdlab.course import progress

    notebooks = progress.survey(args.prove)
    lines = progress.completion(notebooks)
    points, most = sum(n.points for n in notebooks), sum(n.max_points for n in notebooks)
    if args.json:
        print_json(
            {
                "basis": "graded now" if args.prove else "saved notebooks",
                "points": points,
                "max_points": most,
                "notebooks": [notebook.document() for notebook in notebooks],
                "completion": [line.document() for line in lines],
            }
        )
        return
    print_table(
        [
            (n.name, *(n.count(outcome) for outcome in progress.OUTCOMES), f"{n.points}/{n.max_points}", n.remark)
            for n in notebooks
        ],
        ["notebook", *progress.OUTCOMES, "points", "remark"],
    )
    how = "graded now" if args.prove else "as the notebooks were saved; pdlab progress --prove grades them"
    print(f"\n{points} of {most} points ({how})")
    if lines:
        print()
        print_table(
            [
                ("done" if line.done else f"{list(line.proved_by.values()).count('correct')} of {len(line.proved_by)}",
                 line.says, ", ".join(line.proved_by))
                for line in lines
            ],
            ["state", "you can, or about what", "proved by"],
        )  # fmt: skip
