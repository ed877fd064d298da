"""Time and memory of ``pdlab analyze`` on large runs, read from Parquet; prints a table.

    python tests/bench/bench_analyze.py [REQUESTS ...]     # default 10,000 and 100,000, 200 tokens each

Each size is analysed by the command in its own process, so that its peak memory is its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from pdlab.measure import records

TOKENS = 200


def run_of(requests: int) -> pa.Table:
    """A run of ``requests`` answers of 200 tokens, 100 requests/s, gaps of about 10 ms; seeded."""
    rng = np.random.default_rng(0)
    sent = np.cumsum(rng.exponential(1e7, requests)).astype(np.int64)
    gaps = rng.normal(1e7, 1e6, (requests, TOKENS)).clip(1).astype(np.int64)
    frames = sent[:, None] + 4 * 10**7 + np.cumsum(gaps, axis=1)
    offsets = pa.array(np.arange(requests + 1, dtype=np.int32) * TOKENS)
    known = {
        "request_id": pa.array([f"r{i}" for i in range(requests)]),
        "seq": pa.array(np.arange(requests)),
        "warmup": pa.array(np.zeros(requests, bool)),
        "scheduled_ns": pa.array(sent - 5_000),
        "sent_ns": pa.array(sent),
        "end_ns": pa.array(frames[:, -1] + 10_000),
        "frame_ns": pa.ListArray.from_arrays(offsets, pa.array(frames.ravel())),
        "frame_tokens": pa.ListArray.from_arrays(offsets, pa.array(np.ones(frames.size, np.int32))),
        "output_tokens": pa.array(np.full(requests, TOKENS)),
        "status": pa.array(["ok"] * requests),
    }
    columns = [known.get(f.name, pa.nulls(requests, f.type)) for f in records.SCHEMA]
    return pa.Table.from_arrays(columns, schema=records.SCHEMA)


def measure(requests: int) -> tuple[float, float, float]:
    """(wall seconds, peak MiB, file MiB) of one ``pdlab analyze``."""
    with tempfile.TemporaryDirectory() as directory:
        provenance = records.provenance(label="hypothetical", source="bench_analyze")
        records.write_run(directory, run_of(requests), provenance)
        size = (Path(directory) / records.PARQUET).stat().st_size / 2**20
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "pdlab.course.cli", "analyze", directory, "--json"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            raise SystemExit(f"pdlab analyze ended with status {status}")
        return wall, usage.ru_maxrss / 1024, size


def main(sizes: list[int]) -> None:
    """Print one line a size."""
    print(f"{'requests':>9} {'tokens':>11} {'wall s':>7} {'peak MiB':>9} {'file MiB':>9}")
    for requests in sizes:
        wall, peak, size = measure(requests)
        print(f"{requests:>9,} {requests * TOKENS:>11,} {wall:>7.2f} {peak:>9.0f} {size:>9.1f}")


if __name__ == "__main__":
    main([int(arg) for arg in sys.argv[1:]] or [10_000, 100_000])
