"""``pdlab analyze``: metrics, gates and verdict of runs, whatever tool made them."""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path
from typing import Any

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: Any) -> None:
    """Declare the command."""
    p = sub.add_parser("analyze", help="latency, attainment, gates and verdict of runs or a sweep")
    p.add_argument("results", nargs="+", type=Path, metavar="RESULT",
                   help="run or sweep directory, records file, or result of vLLM bench, guidellm or aiperf")  # fmt: skip
    p.add_argument("--plan", type=Path, help="judge by this plan's acceptance (else the reference plan's)")
    p.add_argument("--partial", action="store_true", help="of a damaged file, read the rows that are whole")
    p.add_argument("--exit-zero", action="store_true", help="end with 0 whatever the verdicts are (else 1 where not every one is a pass)")
    add_json_flag(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when every verdict is a pass, 1 otherwise; always 0 with ``--exit-zero``."""
    from pdlab.measure import importers, plan, records, slo

    acceptance, options, judged_by = slo.REFERENCE_ACCEPTANCE, {}, "reference plan (no --plan given)"
    if args.plan:
        chosen = plan.load(args.plan)
        acceptance, judged_by = chosen.acceptance, str(args.plan)
        options = {"output_tokens_minimum_for_tpot": chosen.comparison.output_tokens_minimum_for_tpot}
    documents, verdicts = [], []
    for path in args.results:
        if (path / records.SWEEP).exists():
            document = _sweep(records.read_sweep(path), acceptance, options, args.partial)
            verdicts += ["pass" if c["rate_rps"] is not None else "fail" for c in document["capacity"]]
        else:
            report = slo.analyse(importers.read(path, args.partial), acceptance, **options)
            document = report.to_dict()
            verdicts.append(report.verdict)
        documents.append(document | {"path": str(path), "judged_by": judged_by, "acceptance": acceptance.model_dump()})
    if args.json:
        print_json(documents[0] if len(documents) == 1 else {"results": documents})
    else:
        for document in documents:
            (_print_sweep if "capacity" in document else _print_report)(document)
    return 0 if args.exit_zero or all(v == "pass" for v in verdicts) else 1


def _sweep(sweep: Any, acceptance: Any, options: dict, partial: bool) -> dict[str, Any]:
    from pdlab.measure import records, slo

    key = lambda entry: (entry.design, entry.cache_state or "")  # noqa: E731 - used twice, below only
    runs, capacities = [], []
    for (design, cache), group in groupby(sorted(sweep.entries, key=key), key=key):
        points = []
        for entry in group:
            report = slo.analyse(records.read_run(entry.dir, partial), acceptance, **options)
            points.append((entry.offered_rate_rps, report))
            runs.append({"run": entry.name, "design": design, "cache_state": cache or None,
                         "rate_rps": entry.offered_rate_rps, "report": report.to_dict()})  # fmt: skip
        found = slo.capacity(points)
        capacities.append({"design": design, "cache_state": cache or None, "rate_rps": found.rate_rps,
                           "result": found.result, "passes_up_to": found.passes_up_to,
                           "reason": found.reason})  # fmt: skip
    return {"plan": sweep.plan, "runs": runs, "capacity": capacities}


def _number(value: Any, digits: int = 3) -> str:
    if value is None:
        return "unknown"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _print_report(d: dict[str, Any]) -> None:
    print(f"{d['path']}  [{d['label'] or 'no label'}; {d['source'] or 'unknown source'}]")
    states = ", ".join(f"{n} {status}" for status, n in d["by_status"].items())
    print(f"offered {d['offered']} ({states or 'none'}), {d['one_token']} with fewer tokens than TPOT needs")
    a = d["joint_attainment"]
    share = _number(a["all_offered"], 4)
    if a["unknown"]:
        share = f"between {_number(a['at_least'], 4)} and {_number(a['at_most'], 4)}"
    interval = f" (95 % interval {a['interval'][0]:.4f} to {a['interval'][1]:.4f})" if a["interval"] else ""
    print(f"good {a['good']}, can't be judged {a['unknown']}, of {a['denominator']}; over all offered {share}{interval}")
    print(f"throughput {_number(d['throughput_rps'], 4)}, goodput {_number(d['goodput_rps'], 4)} requests/s; "
          f"window {_number(d['window_s'])} s, {d['window_source']}")  # fmt: skip
    names = ("ttft_ms", "ttft_from_schedule_ms", "tpot_ms", "itl_ms", "max_itl_ms", "e2e_ms", "dispatch_lag_ms")
    columns = ("n", "mean", "p50", "p95", "p99", "max")
    print_table([[n, *(_number(d[n][c]) for c in columns)] for n in names], ["", *columns])
    print()
    print_table(
        [[g["name"], _number(g["value"], 4), _number(g["limit"]), g["result"].replace("_", " "), g["reason"]]
         for g in d["gates"]],
        ["gate", "value", "limit", "result", "why"],
    )  # fmt: skip
    print(f"verdict: {d['verdict'].replace('_', ' ')}, judged by {d['judged_by']}")
    for note in d["notes"]:
        print(f"note: {note}")
    print()


def _print_sweep(d: dict[str, Any]) -> None:
    print(f"{d['path']}  sweep of {d['plan']}, judged by {d['judged_by']}")
    rows = []
    for entry in d["runs"]:
        r = entry["report"]
        rows.append([entry["design"], entry["cache_state"] or "", f"{entry['rate_rps']:g}", r["label"], r["offered"],
                     _number(r["joint_attainment"]["all_offered"], 4), _number(r["error_rate"], 4),
                     _number(r["ttft_ms"]["p99"], 1), _number(r["tpot_ms"]["p99"], 2), _number(r["itl_ms"]["p99"], 2),
                     r["queue_trend"]["result"].replace("_", " "), r["verdict"].replace("_", " ")])  # fmt: skip
    print_table(rows, ["design", "cache", "rate", "label", "offered", "attainment", "errors", "TTFT p99 ms",
                       "TPOT p99 ms", "ITL p99 ms", "queue", "verdict"])  # fmt: skip
    print()
    print_table(
        [[c["design"], c["cache_state"] or "", _number(c["rate_rps"], 2), c["result"].replace("_", " "), c["reason"]]
         for c in d["capacity"]],
        ["design", "cache", "capacity (requests/s)", "", "why"],
    )  # fmt: skip
    print()
