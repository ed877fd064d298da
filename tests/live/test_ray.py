"""Both designs of the miniature, really deployed on Ray Serve LLM."""

import pytest

from pdlab.errors import BadInput
from pdlab.live import metrics
from pdlab.live.ray import env, prove

PAGE = """\
# TYPE ray_vllm_prompt_tokens_by_source_total counter
ray_vllm_prompt_tokens_by_source_total{ReplicaId="p",source="local_compute"} 40.0
ray_vllm_prompt_tokens_by_source_total{ReplicaId="d",source="external_kv_transfer"} 40.0
# TYPE ray_vllm_nixl_bytes_transferred histogram
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="d",le="131072.0"} 0.0
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="d",le="524288.0"} 1.0
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="d",le="+Inf"} 1.0
ray_vllm_nixl_bytes_transferred_sum{ReplicaId="d"} 327680.0
"""


def test_counters_stay_apart_by_replica():
    """Ray puts all replicas on one page; prefill's and decode's numbers are told apart."""
    assert prove.counters(metrics.parse(PAGE)) == {
        "p": {"local_compute": 40}, "d": {"external_kv_transfer": 40, "up to 131072": 0, "up to 524288": 1, "up to inf": 1},
    }  # fmt: skip


@pytest.mark.live
def test_ray_serves_both_designs_and_kv_really_moves():
    """20 equal texts; decode fetched every prompt token; transfers have the formula's sizes; nothing is left."""
    try:
        env.python()
    except BadInput as error:
        pytest.skip(str(error))
    found = prove.run(say=lambda _: None)
    assert found["texts_equal"] == prove.REQUESTS and found["texts_distinct"] > 1
    assert found["external_kv_transfer"] == found["prompt_tokens_total"] > 0
    assert found["computed_by_decode"] == 0
    assert found["transfers_up_to_bytes"] == found["formula_up_to_bytes"]
    assert found["transfers_up_to_bytes"]["inf"] == prove.REQUESTS and found["formula_bytes"] > 0
    assert all(one["processes_left"] == 0 < one["processes_seen"] for one in found["designs"].values())
