"""``pdlab doctor``: what this machine can run, and what to do about what it cannot."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from pdlab.course.output import add_json_flag, print_json, print_table
from pdlab.errors import BadInput


def add(sub: argparse._SubParsersAction) -> None:
    p = sub.add_parser("doctor", help="what this machine can run, and what to do about what it cannot")
    p.add_argument("--engines", nargs="*", type=Path, metavar="FILE",
                   help="instead: engine versions against those of the recorded runs, and settings in "
                        "your files (YAML, JSON, shell) that the engines no longer know")  # fmt: skip
    p.add_argument("--cores", action="store_true",
                   help="instead: measure for some 20 s whether two cores slow each other down")  # fmt: skip
    p.add_argument("--out", type=Path, metavar="DIR", help="with --cores: keep the measurement there")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 1 when the course itself cannot run here (all else is optional); with
    ``--engines``, when a file holds a retired setting."""
    if args.out and not args.cores:
        raise BadInput("--out", "--cores with it: only that measures anything")
    if args.cores and args.engines is not None:
        raise BadInput("--cores and --engines", "one of the two")
    if args.engines is not None:
        return _engines(args.engines, args.json)
    if args.cores:
        return _cores(args.out, args.json)
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


def _cores(out: Path | None, as_json: bool) -> int:
    from pdlab.live import cores

    found = cores.document(cores.measure())
    if out:
        cores.write(out, found)
    if as_json:
        print_json(found)
        return 0
    print("Speed that a loop on the last core keeps beside another loop on the first; 1 is all of it (measured here)")
    print_table(
        [(work, *(f"{found['kept'][work][beside]:.2f}" for beside in cores.KINDS)) for work in cores.KINDS],
        ("work", *(f"beside {beside}" for beside in cores.KINDS)),
    )
    said = found["physical_cores_by_kernel"]
    print(f"\nBy the kernel's word these are {said or 'an unknown number of'} physical cores.\n{found['verdict']}")
    return 0


def _engines(files: list[Path], as_json: bool) -> int:
    from pdlab.live import drift

    hits = {str(path): drift.search(path) for path in files}
    engines = drift.engines()
    if as_json:
        print_json({
            "engines": [asdict(engine) for engine in engines],
            "files": list(hits),
            "retired": [{"file": hit.file, "line": hit.line, **asdict(hit.retired)}
                        for found in hits.values() for hit in found],
        })  # fmt: skip
        return 1 if any(hits.values()) else 0
    print_table(
        [(e.name, "\n".join(f"{r.package} {r.version} ({r.runs} runs)" for r in e.recorded) or "in no run",
          e.installed or "nothing", e.verdict) for e in engines],
        ("engine", "recorded runs", "installed", "verdict"),
    )  # fmt: skip
    if any(e.verdict in ("differs", "same as some") for e in engines):
        print("\nWhere versions differ, times and messages may differ from the labs': read the installed version's manual.")
    if any(e.verdict == "not installed" for e in engines):
        print("\nmake live-env installs the servers' engines, make sim the simulator. The recorded runs need neither.")
    if not files:
        print("\nTo look for retired settings in your own files: pdlab doctor --engines FILE…")
    for path, found in hits.items():
        print(f"\n{path}: {len(found) or 'no'} retired setting{'' if len(found) == 1 else 's'}")
        for hit in found:
            one = hit.retired
            print(f"  line {hit.line}: {one.setting} ({one.engine})\n    {one.instead}\n    source: {one.source}")
    return 1 if any(hits.values()) else 0
