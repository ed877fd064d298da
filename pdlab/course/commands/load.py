"""``pdlab load``: one open-loop load against any OpenAI-compatible server."""

from __future__ import annotations

import argparse
from pathlib import Path

from pdlab import options
from pdlab.course.output import add_json_flag, print_json, print_table
from pdlab.errors import BadInput


def add(sub: argparse._SubParsersAction) -> None:
    """Register the command."""
    parser = sub.add_parser("load", help="send an open-loop load to a server and record every token")
    add_argument = parser.add_argument
    add_argument("url", metavar="URL", help="the server, such as http://127.0.0.1:8000")
    add_argument("--out", type=Path, required=True, metavar="DIR")
    add_argument("--model", help="default: the first one the server lists")
    add_argument("--rate", type=options.real("requests/s", 1e6, low=1e-6), default=1.0, metavar="RPS", help="offered rate, Poisson (1)")
    add_argument("--requests", type=options.whole(), default=60, metavar="N", help="how many (60)")
    add_argument("--warmup", type=options.whole(0), default=0, metavar="N", help="requests before them, marked so")
    add_argument("--prompt-tokens", type=options.whole(), default=200, metavar="N")
    add_argument("--output-tokens", type=options.whole(), default=48, metavar="N")
    add_argument("--trace", type=Path, metavar="FILE", help="a trace instead of rate and lengths")
    add_argument("--seed", type=options.whole(0, 2**63 - 1), default=0)
    add_argument("--vocab-size", type=options.whole(102, 10**8), default=32_000, metavar="N", help="token ids stay below it")
    add_argument("--deadline", type=options.seconds(), default=120.0, metavar="S", help="for a whole answer (120)")
    add_argument("--resume", action="store_true", help="send what an interrupted run in DIR has not; all else as it was asked before")
    add_argument("--insecure", action="store_true", help="accept any TLS certificate")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when every request was answered, 1 otherwise."""
    from pdlab.live import client, load, provenance
    from pdlab.measure import slo
    from pdlab.measure.plan import sha256

    load.base(args.url)
    trace = load.trace(args.trace, args.rate, args.warmup + args.requests, args.prompt_tokens,
                       args.output_tokens, args.seed)  # fmt: skip
    if len(trace) <= args.warmup:
        raise BadInput(f"{args.warmup} of {len(trace)} requests for warm-up", "some left to measure", "--warmup")
    asked = load.asked_of(args.out) if args.resume else {}
    model = args.model or asked.get("model") or load.first_model(args.url, args.insecure)
    offers = load.offers(trace, model, args.vocab_size, args.warmup)
    document = {
        "label": "measured", "source": "pdlab", "offered_rate_rps": None if args.trace else args.rate,
        "seed": args.seed, "date": provenance.now(), "machine": provenance.machine(),
        "workload": {"trace": str(args.trace or trace.origin), "requests": len(trace), "warmup": args.warmup},
    }  # fmt: skip
    load.ask(args.out, args.resume, {
        "url": args.url.rstrip("/"), "model": model, "requests": args.requests, "warmup": args.warmup,
        "trace": f"{args.trace.absolute()} (sha256 {sha256(args.trace)[:16]})" if args.trace else None, **({} if args.trace else {
            "rate": args.rate, "prompt-tokens": args.prompt_tokens, "output-tokens": args.output_tokens, "seed": args.seed,
        }), "vocab-size": args.vocab_size, "deadline": args.deadline,
    })  # fmt: skip
    how = client.Options(deadline_s=args.deadline, verify_tls=not args.insecure)
    url = args.url.rstrip("/") + "/v1/completions"
    done = client.run_load(url, offers, args.out, document, how, args.resume)
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
