"""Start real vLLM servers, aggregated or disaggregated, and leave none behind.

    with Deployment(Spec("tiny", design="disaggregated")) as pair:
        print(pair.prefill[0].base_url, pair.decode[0].base_url)

A ``Spec`` says what to run; a ``Deployment`` runs it: free loopback ports, one log per server,
cores (or GPUs) dealt and counted, ready when ``/health`` answers.  Each server hangs on a keeper
(``keeper.py``) that ends it as soon as this program is gone, however it went.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pdlab.errors import BadInput, Failed
from pdlab.live import budget, env, metrics, models, nixl_plugin
from pdlab.live.same_model import identity, same_model
from pdlab.measure.plan import Plan

Role = Literal["aggregated", "prefill", "decode"]
LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)  # below the range from which the kernel takes outgoing ports
READY_TIMEOUT_S = 600.0
KV_ROLE = {"prefill": "kv_producer", "decode": "kv_consumer"}
TELLING = re.compile(r"error|exception|traceback|killed|cannot|refused|no such|usage:", re.I)


class ServerFailed(Failed):
    """A server ended, or didn't become ready; the message carries the telling lines of its log."""


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


@dataclass(frozen=True)
class Server:
    """One vLLM server.  ``pid`` leads a process group of its own; ``units`` are cores or GPUs."""

    name: str
    role: Role
    base_url: str
    pid: int
    log_path: Path
    units: tuple[int, ...]
    side_channel_port: int

    def metrics(self) -> metrics.Metrics:
        """Scrape this server's ``/metrics``."""
        return metrics.scrape(self.base_url)


class Deployment:
    """The servers of one ``Spec``, up between ``start`` and ``stop`` (or as a context manager)."""

    def __init__(
        self,
        spec: Spec,
        run_dir: str | Path | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        self.spec, self.ready_timeout_s = spec, ready_timeout_s
        self.roles = spec.roles()
        self.device = budget.device(spec.device)
        self.budget = budget.split(self.device, len(self.roles), spec.units, spec.tensor_parallel)
        self.python = env.python()
        self.model = models.resolve(spec.model)
        if not spec.mismatched:
            common = {"--model": self.model.path, "--revision": self.model.revision, "--dtype": spec.dtype}
            same_model({role: identity(common, spec.role_args.get(role, ())) for role in self.roles})
        self.run_dir = Path(run_dir) if run_dir else models.cache_dir() / "logs" / _stamp()
        self.servers: list[Server] = []
        self._keepers: dict[str, subprocess.Popen[str]] = {}

    @property
    def model_name(self) -> str:
        """The name to put in a request's ``model``."""
        return self.model.name

    def by_role(self, role: Role) -> list[Server]:
        """The servers of one role, in order."""
        return [server for server in self.servers if server.role == role]

    aggregated = property(lambda self: self.by_role("aggregated"))
    prefill = property(lambda self: self.by_role("prefill"))
    decode = property(lambda self: self.by_role("decode"))

    def __enter__(self) -> Deployment:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def describe_budget(self) -> str:
        """The budget in one line, with each server's share."""
        return self.budget.describe(_names(self.roles))

    def start(self) -> Deployment:
        """Start all servers side by side and wait until each answers ``/health``."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        try:
            for index in range(len(self.roles)):
                self.servers.append(self._spawn(index))
            deadline = time.monotonic() + self.ready_timeout_s
            for server in self.servers:
                self._wait_ready(server, deadline)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every server and wait until its whole process tree is gone.  Safe to repeat."""
        keepers = list(self._keepers.values())
        for keeper in keepers:
            _close(keeper)
        for keeper in keepers:
            keeper.wait()
        self._keepers.clear()
        self.servers.clear()

    def wait(self, router: subprocess.Popen[str] | None = None) -> None:
        """Wait for ever; ServerFailed as soon as a server, or the given router, ends by itself."""
        while True:
            if router is not None and (status := router.poll()) is not None:
                raise ServerFailed(f"the router has ended with status {status}")
            for server in self.servers:
                if not self.alive(server):
                    raise ServerFailed(f"{server.name} has ended; its log says:\n{_tail(server.log_path)}")
            time.sleep(0.5)

    def alive(self, server: Server) -> bool:
        """Whether that server's process is still there."""
        keeper = self._keepers.get(server.name)
        return keeper is not None and keeper.poll() is None

    def signal(self, server: Server, number: int) -> None:
        """Send a signal to the whole process group of one server (a fault, on purpose)."""
        os.killpg(server.pid, number)

    def kill(self, server: Server) -> None:
        """``kill -9`` one server and wait until its process tree is gone."""
        self.signal(server, signal.SIGKILL)
        self._keepers[server.name].wait()

    def restart(self, server: Server) -> Server:
        """Start a server again in the place of one that has ended; same name, new ports."""
        if keeper := self._keepers.pop(server.name, None):
            _close(keeper)
            keeper.wait()
        index = self.servers.index(server)
        self.servers[index] = self._spawn(index)
        self._wait_ready(self.servers[index], time.monotonic() + self.ready_timeout_s)
        return self.servers[index]

    def reset_prefix_caches(self) -> None:
        """Empty every server's prefix cache, so that the next run starts cold."""
        for server in self.servers:
            request = urllib.request.Request(f"{server.base_url}/reset_prefix_cache", method="POST")
            with urllib.request.urlopen(request, timeout=30):
                pass

    def provenance(self) -> dict[str, Any]:
        """What ran: versions, model and revision, the spec, the budget.  JSON-ready."""
        return {
            "versions": env.versions(),
            "model": {"name": self.model.name, "revision": self.model.revision},
            "spec": asdict(self.spec) | {"device": self.device},
            "budget": self.describe_budget(),
        }

    def _spawn(self, index: int) -> Server:
        name, role = _names(self.roles)[index], self.roles[index]
        share = self.budget.shares[index]
        port, side_channel = free_ports(2)
        log_path = self.run_dir / f"{name}.log"
        cores = ",".join(map(str, share)) if self.device == "cpu" else ""
        command = [str(self.python), *self._arguments(role, port)]
        with log_path.open("a") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), cores]
                + ["--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_inherited() | self._settings(share, side_channel),
                start_new_session=True,
            )
        self._keepers[name] = keeper
        pid = int(keeper.stdout.readline() or 0)  # type: ignore[union-attr]
        if not pid:
            raise ServerFailed(f"{name} could not be started: {' '.join(command)}\n{_tail(log_path)}")
        return Server(name, role, f"http://{LOOPBACK}:{port}", pid, log_path, share, side_channel)

    def _arguments(self, role: Role, port: int, host: str = LOOPBACK) -> list[str]:
        spec = self.spec
        options: dict[str, Any] = {
            "model": self.model.path,
            "served-model-name": self.model.name,
            "host": host,
            "port": port,
            "dtype": spec.dtype,
            "max-model-len": spec.max_model_len,
            "max-num-batched-tokens": spec.max_num_batched_tokens,
            "max-num-seqs": spec.max_num_seqs,
            "block-size": spec.block_size,
            "uvicorn-log-level": "warning",
        }
        flags = ["--enable-prefix-caching" if spec.prefix_caching else "--no-enable-prefix-caching"]
        if self.device == "cpu":
            options["kv-cache-memory-bytes"] = spec.kv_cache_bytes
            options["distributed-executor-backend"] = "uni"
            flags.append("--enforce-eager")
        else:
            options["tensor-parallel-size"] = spec.tensor_parallel
        if role != "aggregated":
            options["kv-transfer-config"] = json.dumps(self._transfer_config(role))
        pairs = [text for key, value in options.items() if value is not None
                 for text in (f"--{key}", str(value))]
        return ["-m", "vllm.entrypoints.openai.api_server", *pairs, *flags,
                *spec.extra_args, *spec.role_args.get(role, ())]

    def _transfer_config(self, role: Role) -> dict[str, Any]:
        config = {"kv_connector": self.spec.connector, "kv_role": KV_ROLE[role]}
        if self.spec.connector.startswith("Nixl"):
            config["kv_buffer_device"] = self.device
        return config | dict(self.spec.connector_config) | dict(self.spec.role_config.get(role, {}))

    def _settings(self, share: tuple[int, ...], side_channel: int, host: str = LOOPBACK) -> dict[str, str]:
        settings = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_LOGGING_COLOR": "0",  # the log is read as text, telling lines and all
            "VLLM_HOST_IP": host,
            "VLLM_NIXL_SIDE_CHANNEL_HOST": host,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel),
            "VLLM_SERVER_DEV_MODE": "1",  # for /reset_prefix_cache; the servers are on loopback
            "UCX_NET_DEVICES": "lo",  # else UCX listens on the machine's own address as well
            "PYTHONSAFEPATH": "1",  # the folder we are started in must not shadow what is installed
            "PYTHONHASHSEED": "0",  # block hashes must agree between servers
        }
        if self.model.local:
            settings |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        if self.spec.ucx_tls:
            settings["UCX_TLS"] = self.spec.ucx_tls
        if self.device == "cpu":
            settings |= {
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": "1" if self.budget.shared else str(len(share)),
            }
            if (openmp := env.openmp()) is not None:
                settings |= {"LD_PRELOAD": str(openmp), "KMP_BLOCKTIME": "1"}
            delay = self.spec.progress_delay_us
            if delay == "auto":
                delay = nixl_plugin.delay_for(len(budget.cores()))
            if delay is not None:
                settings[nixl_plugin.ENV] = str(delay)
        else:
            settings["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, share))
            del settings["UCX_NET_DEVICES"]  # GPUs reach each other over more than the network
        return settings | dict(self.spec.environment)

    def _wait_ready(self, server: Server, deadline: float) -> None:
        def healthy() -> bool:
            try:
                with urllib.request.urlopen(f"{server.base_url}/health", timeout=5):
                    return True
            except (urllib.error.URLError, OSError):
                return False

        log = server.log_path
        wait_ready(
            healthy, {server.name: self._keepers[server.name]}, deadline,
            lambda: f"{server.name} was not ready after {self.ready_timeout_s:.0f} s; its log {log} ends:\n{_tail(log)}",
            lambda name: f"its log {log} says:\n{_tail(log)}",
        )  # fmt: skip


# VLLM_CPU_KVCACHE_SPACE would override --kv-cache-memory-bytes; PYTHONPATH could shadow vLLM's own.
NOT_INHERITED = {nixl_plugin.ENV, "VLLM_CPU_KVCACHE_SPACE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}


def _inherited() -> dict[str, str]:
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


def wait_ready(
    ready: Callable[[], bool],
    held: Mapping[str, subprocess.Popen[str]],
    deadline: float,
    late: Callable[[], str],
    ended: Callable[[str], str],
    every_s: float = 0.1,
) -> None:
    """Ask ``ready`` until it says yes; ServerFailed when a held process has ended, or at the deadline.

    ``deadline`` is on the monotonic clock, in seconds.  ``late`` says what to tell then, ``ended`` what
    to tell of the process of that name besides its status.
    """
    while True:
        for name, process in held.items():
            if (status := process.poll()) is not None:
                raise ServerFailed(f"{name} ended with status {status} before it was ready; {ended(name)}")
        if ready():
            return
        if time.monotonic() > deadline:
            raise ServerFailed(late())
        time.sleep(every_s)


def _close(keeper: subprocess.Popen[str]) -> None:
    if keeper.stdin and not keeper.stdin.closed:
        keeper.stdin.close()


def _names(roles: list[Role]) -> list[str]:
    return [f"{role}-{roles[:index].count(role)}" for index, role in enumerate(roles)]


def _stamp() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _tail(log_path: Path, lines: int = 12) -> str:
    """The lines of a log that tell why a server ended: errors first, else its last lines."""
    text = log_path.read_text(errors="replace").splitlines() if log_path.exists() else []
    telling = [line for line in text if TELLING.search(line)]
    return "\n".join(f"  {line}" for line in (telling or text)[-lines:]) or "  (the log is empty)"
