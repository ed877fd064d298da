"""A sweep that is killed and resumed, on scripted servers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import forked
import pytest
from fake_deployment import scripted, write_plan

from pdlab.live import sweep
from pdlab.measure import records

COUNTS = {20: 12, 40: 22}


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_a_sweep_has_every_request_exactly_once(tmp_path, seed):
    """kill -9 twice at random moments, then resume: each run has each of its requests once, answered."""
    path, out = write_plan(tmp_path), tmp_path / "out"
    moments = random.Random(seed)
    kills = 0
    for _ in range(2):
        process = forked.popen([sys.executable, "-m", "fake_deployment", str(path), str(out)], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not (out / "plan.yaml").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.2, 4.0))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills, "the sweep was over before it could be killed"
    with scripted():
        sweep.run_sweep(path, out, resume=True, say=lambda text: None)
    for entry in records.read_sweep(out).entries:
        table = entry.read().table
        assert table["seq"].to_pylist() == list(range(COUNTS[int(entry.offered_rate_rps)]))
        assert len(set(table["request_id"].to_pylist())) == table.num_rows
        assert set(table["status"].to_pylist()) == {"ok"}, set(table["error"].to_pylist())
        assert not list(entry.dir.glob("*.bin"))
