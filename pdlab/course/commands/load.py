"""``pdlab load``: one open-loop load against any OpenAI-compatible server."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab.course.output import add_json_flag, print_json, print_table


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("load", help="send an open-loop load to a server and record every token")
    add_argument = parser.add_argument
    add_argument("url", metavar="URL", help="the server, such as http://127.0.0.1:8000")
    add_argument("--out", type=Path, required=True, metavar="DIR")
    add_argument("--model", help="default: the first one the server lists")
    add_argument("--rate", type=float, default=1.0, metavar="RPS", help="offered rate, Poisson (1)")
    add_argument("--requests", type=int, default=60, metavar="N", help="how many (60)")
    add_argument("--warmup", type=int, default=0, metavar="N", help="requests before them, marked so")
    add_argument("--prompt-tokens", type=int, default=200, metavar="N")
    add_argument("--output-tokens", type=int, default=48, metavar="N")
    add_argument("--trace", type=Path, metavar="FILE", help="a trace instead of rate and lengths")
    add_argument("--seed", type=int, default=0)
    add_argument("--vocab-size", type=int, default=32_000, metavar="N", help="token ids stay below it")
    add_argument("--deadline", type=float, default=120.0, metavar="S")
    add_argument("--resume", action="store_true", help="send what an interrupted run in DIR has not")
    add_argument("--insecure", action="store_true", help="accept any TLS certificate")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when every request was answered, 1 otherwise."""
    from pdlab.live import client, load, provenance
    from pdlab.measure import slo

    trace = load.trace(args.trace, args.rate, args.warmup + args.requests, args.prompt_tokens,
                       args.output_tokens, args.seed)  # fmt: skip
    model = args.model or load.first_model(args.url, args.insecure)
    offers = load.offers(trace, model, args.vocab_size, args.warmup)
    document = {
        "label": "measured", "source": "pdlab", "offered_rate_rps": None if args.trace else args.rate,
        "seed": args.seed, "date": provenance.now(), "machine": provenance.machine(),
        "workload": {"trace": str(args.trace or trace.origin), "requests": len(trace), "warmup": args.warmup},
    }  # fmt: skip
    options = client.Options(deadline_s=args.deadline, verify_tls=not args.insecure)
    url = args.url.rstrip("/") + "/v1/completions"
    done = client.run_load(url, offers, args.out, document, options, args.resume)
    report = slo.analyse(done).to_dict()
    if args.json:
        print_json(report)
    else:
        states = ", ".join(f"{count} {status}" for status, count in report["by_status"].items())
        print(f"{report['offered']} offered after warm-up: {states}; records in {args.out}")
        columns = ("p50", "p95", "p99", "max")
        rows = [
            [name, *("" if report[name][c] is None else f"{report[name][c]:.3f}" for c in columns)]
            for name in ("ttft_ms", "tpot_ms", "itl_ms", "dispatch_lag_ms")
        ]
        print_table(rows, ["", *columns])
    return 0 if set(report["by_status"]) <= {"ok"} else 1
