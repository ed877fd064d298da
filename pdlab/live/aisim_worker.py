"""Run AISimulate on many configurations in one process.

It runs under the simulator's own interpreter (``.venv-sim``), so it imports nothing of pdlab.
It reads jobs, one JSON line each ({"name", "config"}), from standard input, and writes one result
for each to OUT/NAME.json.  A line on standard output says what is done.  One process serves all
jobs because the simulator takes seconds to import and half a second to predict.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

KEPT_SUMMARY = (
    "completed_requests", "num_requests", "duration_ms", "request_throughput_rps",
    "output_throughput_tok_s", "prefix_cache_reused_ratio", "mean_ttft_ms", "mean_e2e_latency_ms",
    "mean_itl_ms", "median_itl_ms", "p95_itl_ms", "p99_itl_ms", "max_itl_ms",
)  # fmt: skip


def main(out: Path) -> None:
    """Predict every job on standard input."""
    from aisimulate.config.cli import CorePredictionConfig
    from aisimulate.predict import run_prediction
    from aisimulate.stack import resolve_runner_factory
    from aisimulate.sweeper.replay import ReplayOutputRequirements

    factory = resolve_runner_factory("engine")
    wanted = ReplayOutputRequirements(
        include_raw_report=True, capture_per_request=True, capture_memory_diagnostics=True
    )
    for line in sys.stdin:
        job = json.loads(line)
        config = CorePredictionConfig.model_validate(job["config"])
        result = run_prediction(
            config, stack="engine", runner_factory=factory, output_requirements=wanted
        )
        native, summary = result.native, result.summary
        document = {
            "requests": native["per_request"],
            "summary": {key: summary[key] for key in KEPT_SUMMARY},
            "busy_ms": {p["name"]: p["latency_ms"] for p in native["power_diagnostics"]["phases"]},
            "timing_data": {
                role: entry.get("data_version")
                for role, entry in summary["prediction_provenance"].items()
            },
            "memory": native.get("memory_diagnostics"),
        }
        (out / f"{job['name']}.json").write_text(json.dumps(document))
        print(job["name"], flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(Path(sys.argv[1]))
