"""``pdlab plan check`` and ``pdlab plan render``: whether a plan can be carried out, and the commands that do it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pdlab import options
from pdlab.course.output import add_json_flag, print_json, print_table

TARGETS = ("local", "slurm", "ray", "kubernetes")


def add(sub: Any) -> None:
    """Declare the command."""
    p = sub.add_parser("plan", help="check a comparison plan, or write out the commands that carry it out")
    actions = p.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="keys, values, placeholders, equal budgets")
    check.add_argument("file", type=Path, metavar="FILE")
    add_json_flag(check)
    p.set_defaults(run=run)
    check.set_defaults(run=run)
    render = actions.add_parser("render", help="the commands of every server, router and run, for machines of yours")
    render.add_argument("file", type=Path, metavar="PLAN", help="a plan with a live section")
    render.add_argument("--target", choices=TARGETS, required=True)
    render.add_argument("--design", choices=("aggregated", "disaggregated"), help="one of the two (default: both)")
    render.add_argument("--out", type=Path, metavar="DIR", help="write files there instead of printing them")
    render.add_argument("--model", metavar="MODEL", help="instead of the plan's: a hub id, or a folder as an absolute path")
    render.add_argument("--chunk", type=options.whole(), metavar="TOKENS",
                        help="aggregated serving's chunk size, where the plan names several (see --tune)")  # fmt: skip
    render.add_argument("--tune", action="store_true",
                        help="write out what chooses that size instead: a run with each of the plan's")  # fmt: skip
    render.add_argument("--least-bad", action="store_true",
                        help="with --tune: name one where no request met its targets with any size, too")  # fmt: skip
    render.add_argument("--image", metavar="NAME", help="kubernetes: the course's image in your registry (see the Dockerfile)")
    render.add_argument("--explain", action="store_true", help="print why each flag is there, instead of the files")
    render.add_argument("--verify", action="store_true",
                        help="also ask the installed vLLM's argument parser about every command")  # fmt: skip
    add_json_flag(render)
    render.set_defaults(run=run_render)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 for a sound plan; a faulty one is bad input (2)."""
    from pdlab.errors import BadInput
    from pdlab.measure import link_need, plan, slo, traces

    found = plan.load(args.file)
    c, needed = found.comparison, slo.requests_needed(found.acceptance.slo_attainment_min)
    need = link_need.of(found)
    rates = [
        {"rate_rps": rate, "expected_requests": rate * c.duration_seconds, "enough": rate * c.duration_seconds >= needed}
        for rate in c.offered_rates_rps
    ]
    missing = ""
    try:
        traces.find(c.workload_trace, args.file)
    except BadInput as error:
        missing = str(error)
    if args.json:
        print_json({
            "file": str(args.file), "sha256": plan.sha256(args.file), "budget": found.budget,
            "budget_unit": found.budget_unit, "nodes": found.nodes, "requests_needed": needed, "rates": rates,
            "link_at_least_gb_s": need.gb_s if need else None,
            "workload_trace_exists": not missing,
        })  # fmt: skip
        return 0
    print(f"{args.file}: sound; {found.budget} {found.budget_unit}s on each side, model {c.model_revision}")
    print_table(
        [[f"{r['rate_rps']:g}", f"{r['expected_requests']:g}", "yes" if r["enough"] else "no"] for r in rates],
        ["requests/s", f"requests expected in {c.duration_seconds:g} s", f"enough for {found.acceptance.slo_attainment_min:g} ({needed})"],
    )  # fmt: skip
    if need:
        print(f"link: at least {need.gb_s:.2f} GB/s between a prefill and a decode rank ({need.how})")
    if missing:
        print(f"note: a run needs its trace: {missing}")
    return 0


def run_render(args: argparse.Namespace) -> int:
    """Exit status 0 with the files; 1 when the engine's parser refused a command (``--verify``)."""
    from pdlab.live.render import flags, paper, targets
    from pdlab.measure import plan as plans

    designs = (args.design,) if args.design else paper.DESIGNS
    files = targets.render(args.file, args.target, designs, args.model, args.chunk, args.image, args.tune, args.least_bad)
    for one in paper.remarks(plans.load(args.file), designs, args.chunk):
        print(f"note: {one}", file=sys.stderr)
    if args.out:
        _write(args.out, files)
    explained = flags.used(files.values())
    checked = _checked(files) if args.verify else None
    if args.json:
        print_json({"files": files, "flags": explained, "verified": checked,
                    "written": [str(args.out / name) for name in files] if args.out else []})  # fmt: skip
    elif args.explain:
        print_table([(program, flag, why) for program, every in explained.items() for flag, why in every.items()],
                    ("of", "flag", "why"))  # fmt: skip
    elif args.out:
        print("\n".join(f"written: {args.out / name}" for name in files))
    else:
        for name, text in files.items():
            print(text if len(files) == 1 else f"# ---- {name} ----\n{text}", end="")
    return _tell(checked)


def _write(out: Path, files: dict[str, str]) -> None:
    from pdlab.errors import BadInput

    try:
        out.mkdir(parents=True, exist_ok=True)
        there = [one for one in sorted(out.iterdir()) if one.suffix in (".yaml", ".py", ".sh", ".sbatch") and one.name not in files]
        if left := [one.name for one in there if b"\n# Rendered " in b"\n" + one.read_bytes()[:2000]]:
            raise BadInput(f"{', '.join(left)} of another rendering", "a folder of its own for each", f"--out {out}",
                           "Name another, or delete what is there: who applies the folder would start both.")  # fmt: skip
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                (out / name).chmod(0o755)
    except OSError as error:
        raise BadInput(f"{out} ({error.strerror})", "a folder that can be written", "--out") from None


def _checked(files: dict[str, str]) -> dict[str, Any]:
    """What the engine's parser said; ``engine`` is null, with the reason, where there is none to ask."""
    from pdlab.errors import BadInput
    from pdlab.live.render import verify

    try:
        outcome = verify.verify(files)
    except BadInput as error:
        return {"engine": None, "reason": str(error), "commands": len(verify.commands(files)), "refused": []}
    return {
        "engine": outcome.engine, "reason": None, "commands": len(outcome.errors),
        "refused": [{"file": c.file, "name": c.name, "error": error} for c, error in outcome.refused],
    }  # fmt: skip


def _tell(checked: dict[str, Any] | None) -> int:
    if checked is None:
        return 0
    if checked["engine"] is None:
        count, reason = checked["commands"], checked["reason"]
        print(f"pdlab plan: the {count} vLLM commands could not be checked: {reason}", file=sys.stderr)
        return 0
    for one in checked["refused"]:
        print(f"pdlab plan: {one['file']}, {one['name']}: {one['error']}", file=sys.stderr)
    taken = checked["commands"] - len(checked["refused"])
    print(f"{taken} of {checked['commands']} vLLM commands are taken by the argument parser of {checked['engine']}",
          file=sys.stderr)  # fmt: skip
    return 1 if checked["refused"] else 0
