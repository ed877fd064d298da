"""The half of the connector that vLLM calls.  Read it beside the life of one request.

vLLM makes two of these objects in each server.  One lives with the *scheduler* and decides; the
other lives with the *worker* and moves bytes.  They meet once a step, when the scheduler's
``build_connector_meta`` hands the worker what to do.

On prefill: the request finishes -> ``request_finished`` answers "don't free these blocks yet" and
gives the router the address -> a lease is granted -> a server thread answers the pull ->
``get_finished`` tells the scheduler that the blocks may go.

On decode: ``get_num_new_matched_tokens`` claims the prompt as available elsewhere -> blocks are
allocated -> a thread pulls into them -> ``get_finished`` wakes the request.  What failed to arrive is
named by ``get_block_ids_with_load_errors``; whether the request then fails or recomputes is vLLM's
own ``kv_load_failure_policy``.

Limits, on purpose: one rank, one KV cache group, CPU memory, no authentication.  Loopback only.
"""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.v1.request import RequestStatus

from pdlab.live import LOOPBACK
from pdlab.live.tcpkv import wire
from pdlab.live.tcpkv.leases import Leases

log = logging.getLogger("vllm.pdlab.tcpkv")


@dataclass(slots=True)
class Pull:
    """One request that decode has to fetch: from where, and into which of its own blocks."""

    request_id: str
    address: tuple[str, int]
    remote_request_id: str
    block_ids: list[int]


@dataclass
class Step(KVConnectorMetadata):
    """What the scheduler's half tells the worker's half in one step."""

    pulls: list[Pull] = field(default_factory=list)
    grants: dict[str, list[int]] = field(default_factory=dict)


class TcpConnector(KVConnectorBase_V1):
    """See the module.  ``kv_connector_extra_config``: port, lease_s (30), timeout_s (5), checksum (true)."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        config = vllm_config.kv_transfer_config
        extra = config.kv_connector_extra_config
        self.is_prefill = config.is_kv_producer
        self.port = int(extra.get("port", 5800))
        self.lease_s = float(extra.get("lease_s", 30))
        self.timeout_s = float(extra.get("timeout_s", 5))
        self.checksum = bool(extra.get("checksum", True))
        # scheduler's half
        self._next = Step()
        # worker's half
        self._caches: dict[str, torch.Tensor] = {}
        self._leases = Leases()
        self._lock = threading.Lock()
        self._received: set[str] = set()
        self._failed_blocks: set[int] = set()

    # ── the scheduler's half ────────────────────────────────────────────────────────────────

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """How many more prompt tokens can be had elsewhere, and that loading them takes a while."""
        missing = request.num_prompt_tokens - num_computed_tokens
        return (missing, True) if _remote(request) and missing > 0 else (0, False)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Decode has blocks for them now: fetch, once."""
        params = request.kv_transfer_params
        if not _remote(request):
            return
        if num_external_tokens > 0:
            address = (params["remote_host"], int(params["remote_port"]))
            self._next.pulls.append(
                Pull(request.request_id, address, params["remote_request_id"], blocks.get_unhashed_block_ids())
            )
        params["do_remote_prefill"] = False  # a preempted request computes its prompt itself

    def build_connector_meta(self, scheduler_output: Any) -> Step:
        """Hand this step's work to the worker's half."""
        step, self._next = self._next, Step()
        return step

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """Prefill is through: keep the blocks, and say where they can be had.

        An answer that already ended with its first token has nothing to be decoded, so its blocks go.
        """
        params = request.kv_transfer_params or {}
        if not params.get("do_remote_decode") or request.status != RequestStatus.FINISHED_LENGTH_CAPPED:
            return False, None
        self._next.grants[request.request_id] = list(block_ids)
        return True, {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_host": LOOPBACK,
            "remote_port": self.port,
            "remote_request_id": request.request_id,
            "remote_block_ids": list(block_ids),
        }

    # ── the worker's half ───────────────────────────────────────────────────────────────────

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """vLLM shows where the KV cache lies; on prefill, open the door for pulls."""
        blocks = {tensor.shape[0] for tensor in kv_caches.values()}
        if len(blocks) != 1:
            raise ValueError(f"every layer must have its blocks first; found {blocks} in dimension 0")
        self._caches = dict(kv_caches)
        if self.is_prefill:
            connector = self

            class Door(socketserver.BaseRequestHandler):
                def handle(self) -> None:
                    connector._answer(self.request)

            class Server(socketserver.ThreadingTCPServer):
                daemon_threads = allow_reuse_address = True  # a restarted prefill takes its old port again

            server = Server((LOOPBACK, self.port), Door)
            threading.Thread(target=server.serve_forever, name="tcpkv-door", daemon=True).start()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """The step's work has come: grant leases, begin pulls.  Nothing here waits."""
        step = self._get_connector_metadata()
        assert isinstance(step, Step)
        for request_id, block_ids in step.grants.items():
            self._leases.grant(request_id, block_ids, self.lease_s)
        for pull in step.pulls:
            threading.Thread(target=self._fetch, args=(pull,), name="tcpkv-pull", daemon=True).start()

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Requests whose blocks prefill may free, and requests whose blocks decode has."""
        freed, expired = self._leases.collect()
        for request_id in expired:
            log.warning("the lease of %s ended before anyone pulled", request_id)
        with self._lock:
            received, self._received = self._received, set()
        return freed or None, received or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Decode's blocks that hold nothing usable."""
        with self._lock:
            failed, self._failed_blocks = self._failed_blocks, set()
        return failed

    def _fetch(self, pull: Pull) -> None:
        count = 0
        try:
            layers = wire.pull(
                pull.address, pull.remote_request_id, len(pull.block_ids), self.timeout_s, self.checksum
            )
            for name, data in layers:
                self._write(name, pull.block_ids, data)
                count += len(data)
            log.info("pulled %s: %d blocks, %d bytes", pull.request_id, len(pull.block_ids), count)
        except Exception as error:  # a request must come back whatever went wrong, or it waits for ever
            log.error("pull of %s failed after %d bytes: %s", pull.request_id, count, error)
            with self._lock:
                self._failed_blocks.update(pull.block_ids)
        with self._lock:
            self._received.add(pull.request_id)

    def _write(self, name: str, block_ids: list[int], data: bytes) -> None:
        cache = self._caches[name]
        blocks = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(cache.dtype)
        cache[block_ids] = blocks.view(len(block_ids), *cache.shape[1:])

    def _read(self, block_ids: tuple[int, ...]) -> Iterator[tuple[str, bytes]]:
        for name, cache in self._caches.items():
            yield name, cache[list(block_ids)].contiguous().view(torch.uint8).numpy().tobytes()

    def _answer(self, connection: Any) -> None:
        connection.settimeout(self.timeout_s)
        try:
            wire.answer(connection, self._leases.read, self._leases.done, self._read, len(self._caches))
        except (wire.TransferFailed, OSError) as error:
            log.error("a pull broke off: %s", error)

    # ── vLLM also offers to move KV layer by layer, in the middle of a forward pass ─────────

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing to wait for: a request runs only once all its blocks are there."""

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        """Nothing to send yet: decode pulls after prefill is done."""

    def wait_for_save(self) -> None:
        """Nothing was sent."""


def _remote(request: Any) -> bool:
    return bool((request.kv_transfer_params or {}).get("do_remote_prefill"))
