"""What the router adds to the time to the first token, and what it costs.

    python tests/bench/bench_router.py [--rates 20 50] [--seconds 15] [--json FILE]

The same schedule is sent to a token server directly and through the router, in turns.  The server
has one core; the router and the client share the other, as they would on a small machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_common as common  # noqa: E402

from pdlab.course.output import print_table  # noqa: E402


def measure(url: str, rate: float, seconds: float, out: Path) -> dict[str, np.ndarray]:
    """TTFT and gaps in µs of one run."""
    rows = common.run_pdlab(url, rate, int(rate * seconds), out)
    good = [row for row in rows if row["status"] == "ok"]
    if len(good) < len(rows):
        raise SystemExit(f"{len(rows) - len(good)} of {len(rows)} requests failed: {rows[0]['error']}")
    return {
        "ttft": np.array([row["frame_ns"][0] - row["sent_ns"] for row in good]) / 1e3,
        "gap": np.concatenate([np.diff(row["frame_ns"]) for row in good]) / 1e3,
        "tokens": np.array(sum(len(row["frame_ns"]) for row in good)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[20, 50])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    common.take_client_core()
    table, document = [], {"machine": common.machine(), "rows": []}
    with tempfile.TemporaryDirectory() as temporary, common.token_server(Path(temporary)) as server:
        router = subprocess.Popen(
            [sys.executable, "-m", "pdlab.live.router",
             "--worker", server.url, "--until-stdin-closes"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        url = json.loads(router.stdout.readline())["url"]
        for rate in args.rates:
            direct = measure(server.url, rate, args.seconds, Path(temporary) / f"direct-{rate}")
            before = common.cpu_s(router.pid)
            through = measure(url, rate, args.seconds, Path(temporary) / f"router-{rate}")
            cpu_ms = (common.cpu_s(router.pid) - before) * 1e6 / int(through["tokens"])
            # The same quantile of two runs of one schedule: the server's own part drops out.
            added = [np.percentile(through["ttft"], q) - np.percentile(direct["ttft"], q) for q in (50, 99)]
            row = {
                "rate_rps": rate,
                "added_ttft_p50_us": round(float(added[0])),
                "added_ttft_p99_us": round(float(added[1])),
                "gap_p99_direct_us": round(float(np.percentile(direct["gap"], 99))),
                "gap_p99_router_us": round(float(np.percentile(through["gap"], 99))),
                "router_cpu_ms_per_1000_tokens": round(cpu_ms, 1),
            }
            document["rows"].append(row)
            table.append(list(row.values()))
        router.stdin.close()
        router.wait()
    print_table(table, list(document["rows"][0]))
    if args.json:
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
