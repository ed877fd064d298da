"""``pdlab doctor``: what this machine can run, and what to do about what it cannot."""

from __future__ import annotations

import argparse

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("doctor", help="what this machine can run, and what to do about what it cannot")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 1 when the course itself cannot run here; all else is optional."""
    from pdlab.course import doctor

    found = doctor.findings()
    document = doctor.report(found)
    if args.json:
        print_json(document)
    else:
        print_table([(f.thing, "ok" if f.ok else "missing", f.found) for f in found], ("", "", "found"))
        print()
        for f in found:
            if not f.ok:
                print(f"{f.thing}: {f.do}")
        print()
        for need, use in doctor.USES.items():
            print(f"{'yes' if document['can_run'][need] else 'no':<4} {use}")
    return 0 if document["can_run"]["course"] else 1
