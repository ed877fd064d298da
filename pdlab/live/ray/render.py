"""A plan rendered for Ray Serve LLM 2.60: the arguments of a builder, and a ``serve`` YAML file.

    render.arguments(plan, "disaggregated", "/models/tiny")   for build_pd_openai_app(...)
    render.document(plan, "aggregated", "/models/tiny")       for `serve run FILE`, `serve deploy FILE`

Nothing of Ray is imported.  Keys follow ``LLMConfig``.  ``prove`` runs the arguments on CPUs and
``scale`` the file, by ``serve run``; no deployment on GPUs has been run yet.
"""

from __future__ import annotations

from typing import Any, Literal

import yaml

from pdlab.errors import BadInput
from pdlab.live import LOOPBACK, nixl_plugin
from pdlab.measure.plan import Live, Plan

Design = Literal["aggregated", "disaggregated"]
BUILDER = {"aggregated": "build_openai_app", "disaggregated": "build_pd_openai_app"}
NAME_PREFIX = {"aggregated": "LLMServer:", "prefill": "Prefill:", "decode": "Decode:"}


def arguments(
    plan: Plan, design: Design, model: str, name: str | None = None, headroom: dict[str, int] | None = None,
    chunk_tokens: int | None = None,
) -> dict[str, Any]:
    """The one argument of the design's builder.

    ``model`` is a folder or hub id that every node can read; ``name`` is what requests call it.
    ``headroom`` adds replicas to a pool's upper autoscaling bound, by the pool's name
    (aggregated, prefill, decode).  Without it a pool's range is the plan's number alone.
    ``chunk_tokens`` is the chunk size of all engines; the plan's largest unless one is given.
    """
    live = plan.live_section
    if chunk_tokens is not None:
        live = live.model_copy(update={"max_num_batched_tokens": [chunk_tokens]})
    sides = plan.deployments
    if design == "aggregated":
        side = sides.aggregated
        counts, ranks = {"aggregated": side.replicas}, (side.tensor_parallel, side.pipeline_parallel)
    elif design == "disaggregated":
        pair = sides.disaggregated
        counts = {"prefill": pair.prefill_replicas, "decode": pair.decode_replicas}
        ranks = (pair.tensor_parallel_per_replica, pair.pipeline_parallel_per_replica)
    else:
        raise BadInput(f"design {design!r}", "aggregated or disaggregated")
    extra = headroom or {}
    if unknown := extra.keys() - counts.keys():
        raise BadInput(f"headroom for {', '.join(sorted(unknown))}", " or ".join(counts), "headroom")
    if any(more < 0 for more in extra.values()):
        raise BadInput(f"headroom {extra}", "0 or more replicas", "headroom")
    configs = {
        pool: _config(live, model, name or live.model, ranks, (count, count + extra.get(pool, 0)),
                      pool != "aggregated", plan.comparison.revision)
        for pool, count in counts.items()
    }  # fmt: skip
    if design == "aggregated":
        return {"llm_configs": [configs["aggregated"]]}
    return {f"{pool}_config": config for pool, config in configs.items()}


def deployment_name(pool: str, name: str) -> str:
    """What Ray Serve LLM calls a pool's deployment, for a model that requests call ``name``."""
    return NAME_PREFIX[pool] + name.replace("/", "--").replace(".", "_")


def document(
    plan: Plan, design: Design, model: str, port: int = 8000, replicas: dict[str, int] | None = None, **options: Any
) -> str:
    """A file for ``serve run`` and ``serve deploy``.  It listens on loopback; ``options`` are those of ``arguments``.

    Each pool's range stands twice: in the builder's arguments and beside them, under ``deployments``,
    where ``replicas`` may set another number by the pool's name.  Serve builds an application anew
    when its arguments change, and also when such an entry is there for the first time; a number in
    one that was there it applies to that pool alone.
    """
    given = arguments(plan, design, model, **options)
    ranges = {pool: config["deployment_config"]["autoscaling_config"] for pool, config in _by_pool(given).items()}
    if unknown := (replicas or {}).keys() - ranges.keys():
        raise BadInput(f"replicas for {', '.join(sorted(unknown))}", " or ".join(ranges), "replicas")
    ranges |= {pool: {"min_replicas": count, "max_replicas": count} for pool, count in (replicas or {}).items()}
    name = options.get("name") or plan.live_section.model
    application: dict[str, Any] = {
        "name": design,
        "route_prefix": "/",
        "import_path": f"ray.serve.llm:{BUILDER[design]}" if design in BUILDER else "",
        "args": given,
        "deployments": [
            {"name": deployment_name(pool, name), "autoscaling_config": dict(count)} for pool, count in ranges.items()
        ],
    }
    return document_of([application], port)


def document_of(applications: list[dict[str, Any]], port: int = 8000) -> str:
    """A serve file of these applications; with none, ``serve deploy`` deletes those of earlier files."""
    return yaml.safe_dump({"http_options": {"host": LOOPBACK, "port": port}, "applications": applications}, sort_keys=False)


def _by_pool(arguments: dict[str, Any]) -> dict[str, Any]:
    """The pools' configs by the pools' names, each scaled by itself."""
    if configs := arguments.get("llm_configs"):
        return {"aggregated": configs[0]}
    return {pool: arguments[f"{pool}_config"] for pool in ("prefill", "decode")}


def device(arguments: dict[str, Any]) -> Literal["cpu", "cuda"]:
    """What the rendered arguments of a builder ask for."""
    config = next(iter(_by_pool(arguments).values()))
    return "cpu" if "accelerator_config" in config else "cuda"


def _config(
    live: Live, model: str, name: str, ranks: tuple[int, int], replicas: tuple[int, int], transfers: bool,
    revision: str | None,
) -> dict[str, Any]:  # fmt: skip
    """One pool's ``LLMConfig``, as plain data: safe for YAML."""
    workers = ranks[0] * ranks[1]
    engine: dict[str, Any] = {
        "dtype": live.dtype,
        "max_model_len": live.max_model_len,
        "block_size": live.block_size,
        "max_num_batched_tokens": max(live.max_num_batched_tokens),
        "max_num_seqs": live.max_num_seqs,
        "enforce_eager": live.enforce_eager,
        "tensor_parallel_size": ranks[0],
        "pipeline_parallel_size": ranks[1],
    }
    if revision is not None:
        engine["revision"] = revision
    if transfers:
        engine["kv_transfer_config"] = {
            "kv_connector": "NixlConnector",
            "kv_role": "kv_both",
            "kv_buffer_device": live.nixl.buffer_device,
            "kv_load_failure_policy": live.nixl.load_failure_policy,
            "kv_connector_extra_config": {
                "backends": list(live.nixl.backends), "kv_lease_duration": live.nixl.lease_seconds,
            },
        }  # fmt: skip
    config: dict[str, Any] = {
        "model_loading_config": {"model_id": name, "model_source": model},
        "engine_kwargs": engine,
        "deployment_config": {
            "autoscaling_config": {"min_replicas": replicas[0], "max_replicas": replicas[1]}
        },
    }
    if live.device == "cuda":
        if live.gpu_memory_utilization is not None:
            engine["gpu_memory_utilization"] = live.gpu_memory_utilization
        config["placement_group_config"] = {"bundles": [{"GPU": 1} for _ in range(workers)]}
        return config
    if workers != 1:
        raise BadInput(f"{workers} ranks a replica on a CPU", "1", "deployments",
                       "On CPUs this renders replicas of one process.")  # fmt: skip
    # Cores for the engine come from the placement group; the actor itself asks for none beside it.
    config["accelerator_config"] = {"kind": "cpu"}
    config["placement_group_config"] = {"bundles": [{"CPU": live.threads_per_server}]}
    config["deployment_config"]["ray_actor_options"] = {"num_cpus": 0}
    engine |= {"distributed_executor_backend": "uni", "kv_cache_memory_bytes": live.kv_cache_bytes}
    variables = {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(live.threads_per_server),
        "VLLM_NO_USAGE_STATS": "1",
    }
    if transfers:
        variables |= {"VLLM_NIXL_SIDE_CHANNEL_HOST": LOOPBACK, "UCX_NET_DEVICES": "lo"}
        if delay := live.nixl.progress_thread_delay_us:
            variables[nixl_plugin.ENV] = str(delay)
    config["runtime_env"] = {"env_vars": variables}
    return config
