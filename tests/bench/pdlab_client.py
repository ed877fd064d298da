"""Our client as a command, so that the benchmark measures it as it measures the others.

    python tests/bench/pdlab_client.py URL RATE COUNT OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_common as common  # noqa: E402

if __name__ == "__main__":
    url, rate, count, out = sys.argv[1:]
    common.run_pdlab(url, float(rate), int(count), Path(out))
