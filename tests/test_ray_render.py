"""A plan as Ray Serve LLM's configuration: what is written, without Ray."""

import pytest
import yaml

from pdlab.errors import BadInput
from pdlab.live.env import ROOT
from pdlab.live.ray import render
from pdlab.measure import plan as plans


@pytest.fixture(scope="module")
def plan():
    return plans.load(ROOT / "data/plans/miniature-2core.yaml")


def test_aggregated_counts_and_no_connector(plan):
    """The aggregated side has the plan's replicas, one core each, and no KV connector."""
    (config,) = render.arguments(plan, "aggregated", "/m")["llm_configs"]
    assert config["deployment_config"]["autoscaling_config"] == {"min_replicas": 2, "max_replicas": 2}
    assert config["placement_group_config"] == {"bundles": [{"CPU": 1}]}
    assert "kv_transfer_config" not in config["engine_kwargs"]


def test_pools_scale_apart_and_share_model_and_connector(plan):
    """Headroom moves one pool's upper bound alone; both sides name one model and connector."""
    pair = render.arguments(plan, "disaggregated", "/m", headroom={"prefill": 3})
    prefill, decode = pair["prefill_config"], pair["decode_config"]
    assert prefill["deployment_config"]["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 4}
    assert decode["deployment_config"]["autoscaling_config"] == {"min_replicas": 1, "max_replicas": 1}
    assert prefill["model_loading_config"] == decode["model_loading_config"]
    for side in (prefill, decode):
        assert side["engine_kwargs"]["kv_transfer_config"]["kv_connector"] == "NixlConnector"


def test_gpu_ranks_become_bundles(plan):
    """On GPUs a replica's bundles are its ranks, and no CPU setting is left."""
    both = plan.deployments.disaggregated.model_copy(update={"tensor_parallel_per_replica": 4})
    gpu = plan.model_copy(update={
        "live": plan.live.model_copy(update={"device": "cuda"}),
        "deployments": plan.deployments.model_copy(update={"disaggregated": both}),
    })  # fmt: skip
    config = render.arguments(gpu, "disaggregated", "/m")["decode_config"]
    assert config["placement_group_config"]["bundles"] == [{"GPU": 1}] * 4
    assert not {"accelerator_config", "runtime_env"} & config.keys()
    assert "distributed_executor_backend" not in config["engine_kwargs"]


@pytest.mark.parametrize("design", ["aggregated", "disaggregated"])
def test_yaml_holds_the_same_arguments(plan, design):
    """The serve file carries exactly what the builder would be given, on loopback."""
    read = yaml.safe_load(render.document(plan, design, "/m"))
    (application,) = read["applications"]
    assert application["args"] == render.arguments(plan, design, "/m")
    assert application["import_path"] == f"ray.serve.llm:{render.BUILDER[design]}"
    assert read["http_options"]["host"] == "127.0.0.1"


@pytest.mark.parametrize("headroom", [{"aggregated": 1}, {"decode": -1}])
def test_bad_headroom_is_refused(plan, headroom):
    """A pool the design does not have, or a negative number, is bad input."""
    with pytest.raises(BadInput):
        render.arguments(plan, "disaggregated", "/m", headroom=headroom)


def test_a_pool_is_scaled_beside_the_application(plan):
    """Another number for one pool changes its entry and nothing else: Serve then builds nothing anew."""
    def read(**more):
        return yaml.safe_load(render.document(plan, "disaggregated", "/m", name="org/a.b", **more))["applications"][0]

    plain, wider = read(), read(replicas={"prefill": 2})
    assert [one["name"] for one in plain["deployments"]] == ["Prefill:org--a_b", "Decode:org--a_b"]
    assert wider["deployments"][0].pop("autoscaling_config") == {"min_replicas": 2, "max_replicas": 2}
    assert plain["deployments"][0].pop("autoscaling_config") == {"min_replicas": 1, "max_replicas": 1}
    assert wider == plain
    with pytest.raises(BadInput):
        read(replicas={"aggregated": 2})


def test_one_chunk_size_for_all_engines(plan):
    """A tuned chunk size replaces the plan's largest."""
    (config,) = render.arguments(plan, "aggregated", "/m", chunk_tokens=128)["llm_configs"]
    assert config["engine_kwargs"]["max_num_batched_tokens"] == 128
