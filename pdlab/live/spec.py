"""What a vLLM server is told: its command line and its environment, from one ``Spec``.

``serve`` starts servers from these words, ``render`` writes the same words for other machines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pdlab.errors import BadInput
from pdlab.live import LOOPBACK, budget, env, models, nixl_plugin
from pdlab.measure.plan import Plan

Role = Literal["aggregated", "prefill", "decode"]
KV_ROLE = {"prefill": "kv_producer", "decode": "kv_consumer"}


@dataclass(frozen=True)
class Spec:
    """What to run.  Sizes in bytes and tokens; ``units`` are cores on a CPU, else GPUs.

    ``replicas`` counts for ``aggregated``; ``prefill`` and ``decode`` for ``disaggregated``.
    ``connector_config`` is merged into vLLM's ``--kv-transfer-config`` of both roles
    (for example ``{"kv_load_failure_policy": "recompute"}``); ``role_config`` adds to one role.
    ``units=None`` takes the whole machine.  ``ucx_tls`` forces NIXL's transports, such as "tcp".
    ``progress_delay_us`` is for NIXL's progress thread on a CPU (see ``nixl_plugin``); "auto" goes
    by the number of cores.  ``mismatched`` allows a pair whose two sides hold different models, to
    show what that does.
    """

    model: str
    design: Literal["aggregated", "disaggregated"] = "aggregated"
    replicas: int = 1
    prefill: int = 1
    decode: int = 1
    connector: str = "NixlConnector"
    connector_config: Mapping[str, Any] = field(default_factory=dict)
    role_config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    device: str = "auto"
    units: int | None = None
    tensor_parallel: int = 1
    dtype: str = "bfloat16"
    max_model_len: int = 4096
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    kv_cache_bytes: int = 1 << 30
    prefix_caching: bool = True
    progress_delay_us: int | None | Literal["auto"] = "auto"
    ucx_tls: str | None = None
    extra_args: tuple[str, ...] = ()
    role_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    mismatched: bool = False

    def roles(self) -> list[Role]:
        """One role a server, in the order in which servers are numbered and cores dealt."""
        if self.design == "aggregated":
            counts: dict[Role, int] = {"aggregated": self.replicas}
        elif self.design == "disaggregated":
            counts = {"prefill": self.prefill, "decode": self.decode}
        else:
            raise BadInput(f"design {self.design!r}", "aggregated or disaggregated")
        for role, count in counts.items():
            if count < 1:
                raise BadInput(f"{count} {role} servers", "at least 1")
        return [role for role, count in counts.items() for _ in range(count)]

    def names(self) -> list[str]:
        """Names of the servers, in the order of their roles: prefill-0, prefill-1, decode-0."""
        roles = self.roles()
        return [f"{role}-{roles[:index].count(role)}" for index, role in enumerate(roles)]

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        design: Literal["aggregated", "disaggregated"],
        max_num_batched_tokens: int | None = None,
        **changes: Any,
    ) -> Spec:
        """One side of a plan.  The chunk size is the plan's largest unless one is given."""
        live, pools = plan.live_section, plan.deployments
        transfer = live.nixl
        sides: dict[str, dict[str, Any]] = {
            "aggregated": {
                "replicas": pools.aggregated.replicas,
                "tensor_parallel": pools.aggregated.tensor_parallel,
            },
            "disaggregated": {
                "prefill": pools.disaggregated.prefill_replicas,
                "decode": pools.disaggregated.decode_replicas,
                "tensor_parallel": pools.disaggregated.tensor_parallel_per_replica,
                "connector_config": {
                    "kv_buffer_device": transfer.buffer_device,
                    "kv_load_failure_policy": transfer.load_failure_policy,
                    "kv_connector_extra_config": {
                        "backends": transfer.backends,
                        "kv_lease_duration": transfer.lease_seconds,
                    },
                },
            },
        }
        return cls(**{
            "model": live.model,
            "design": design,
            "device": live.device,
            "units": plan.used(design),
            "dtype": live.dtype,
            "max_model_len": live.max_model_len,
            "max_num_batched_tokens": max_num_batched_tokens or max(live.max_num_batched_tokens),
            "max_num_seqs": live.max_num_seqs,
            "block_size": live.block_size,
            "kv_cache_bytes": live.kv_cache_bytes or 0,  # on GPUs the plan gives a share of their memory instead
            "extra_args": _gpu_args(plan, design),
            "progress_delay_us": transfer.progress_thread_delay_us or None,
            **sides[design],
            **changes,
        })  # fmt: skip

    def arguments(self, role: Role, model: models.Model, device: str, port: int, host: str = LOOPBACK) -> list[str]:
        """The server's command line after ``python``, on a ``device`` that is settled: cpu or cuda."""
        options: dict[str, Any] = {
            "model": model.path,
            "served-model-name": model.name,
            "host": host,
            "port": port,
            "dtype": self.dtype,
            "max-model-len": self.max_model_len,
            "max-num-batched-tokens": self.max_num_batched_tokens,
            "max-num-seqs": self.max_num_seqs,
            "block-size": self.block_size,
            "uvicorn-log-level": "warning",
        }
        flags = ["--enable-prefix-caching" if self.prefix_caching else "--no-enable-prefix-caching"]
        if device == "cpu":
            options["kv-cache-memory-bytes"] = self.kv_cache_bytes
            options["distributed-executor-backend"] = "uni"
            flags.append("--enforce-eager")
        else:
            options["tensor-parallel-size"] = self.tensor_parallel
        if role != "aggregated":
            options["kv-transfer-config"] = json.dumps(self.transfer_config(role, device))
        pairs = [text for key, value in options.items() if value is not None
                 for text in (f"--{key}", str(value))]
        return ["-m", "vllm.entrypoints.openai.api_server", *pairs, *flags,
                *self.extra_args, *self.role_args.get(role, ())]

    def transfer_config(self, role: Role, device: str) -> dict[str, Any]:
        """vLLM's ``--kv-transfer-config`` of a role."""
        config = {"kv_connector": self.connector, "kv_role": KV_ROLE[role]}
        if self.connector.startswith("Nixl"):
            config["kv_buffer_device"] = device
        return config | dict(self.connector_config) | dict(self.role_config.get(role, {}))

    def settings(
        self, model: models.Model, shares: budget.Budget, share: tuple[int, ...], side_channel: int, host: str = LOOPBACK
    ) -> dict[str, str]:
        """The server's environment variables, beside those that it inherits: on one of the budget's ``shares``."""
        settings = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_LOGGING_COLOR": "0",  # the log is read as text, telling lines and all
            "VLLM_HOST_IP": host,
            "VLLM_NIXL_SIDE_CHANNEL_HOST": host,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel),
            "UCX_NET_DEVICES": "lo",  # else UCX listens on the machine's own address as well
            "PYTHONSAFEPATH": "1",  # the folder we are started in must not shadow what is installed
            "PYTHONHASHSEED": "0",  # block hashes must agree between servers
        }
        if host == LOOPBACK:  # for /reset_prefix_cache and /server_info; it opens far more, so never on a network
            settings["VLLM_SERVER_DEV_MODE"] = "1"
        if model.local:
            settings |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        if self.ucx_tls:
            settings["UCX_TLS"] = self.ucx_tls
        if shares.device == "cpu":
            settings |= {
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": "1" if shares.shared else str(len(share)),
            }
            if (openmp := env.openmp()) is not None:
                settings |= {"LD_PRELOAD": str(openmp), "KMP_BLOCKTIME": "1"}
            delay = self.progress_delay_us
            if delay == "auto":
                delay = nixl_plugin.delay_for(len(budget.cores()))
            if delay is not None:
                settings[nixl_plugin.ENV] = str(delay)
        else:
            settings["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, share))
            del settings["UCX_NET_DEVICES"]  # GPUs reach each other over more than the network
        return settings | dict(self.environment)


def chunk_sizes(plan: Plan) -> list[int]:
    """The sizes that aggregated serving is tuned over, each once."""
    return list(dict.fromkeys(plan.live_section.max_num_batched_tokens))


# VLLM_CPU_KVCACHE_SPACE would override --kv-cache-memory-bytes; PYTHONPATH could shadow vLLM's own.
NOT_INHERITED = {nixl_plugin.ENV, "VLLM_CPU_KVCACHE_SPACE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}


def inherited() -> dict[str, str]:
    """This process's environment variables, without those that would change what a server does."""
    return {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}


def _gpu_args(plan: Plan, design: Literal["aggregated", "disaggregated"]) -> tuple[str, ...]:
    """What only servers on GPUs are told: their share of the memory, and the pinned revision."""
    live, sides = plan.live, plan.deployments
    stages = {"aggregated": sides.aggregated.pipeline_parallel,
              "disaggregated": sides.disaggregated.pipeline_parallel_per_replica}[design]  # fmt: skip
    if stages > 1:
        raise BadInput(f"{stages} pipeline stages", "1: servers here split a model by tensor parallelism only", "deployments")
    if live is None or live.device != "cuda":
        return ()
    options = {"--gpu-memory-utilization": live.gpu_memory_utilization, "--revision": plan.comparison.revision}
    said = [text for key, value in options.items() if value is not None for text in (key, str(value))]
    return (*said, *(["--enforce-eager"] if live.enforce_eager else []))
