"""The shim that lets vLLM's MooncakeConnector run on a processor, and only on loopback.

A server loads it by ``"kv_connector_module_path": "pdlab.live.connectors.mooncake"``.  Three things
differ from vLLM's own connector, each by one assignment before it is made:

1. The connector asks PyTorch which accelerator it stands on.  A processor is none, and PyTorch raises;
   here the answer is 0, which the CPU platform then ignores.
2. The bootstrap server, where decode learns prefill's address, listens on every interface.  Here it
   listens on loopback.
3. vLLM prints Mooncake's counters only as rounded means.  Here each transfer is logged with its own
   count of bytes and its own time, as the connector records them.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.mooncake import mooncake_connector as vllms

from pdlab.live import LOOPBACK

log = logging.getLogger("vllm.pdlab.mooncake")


class LoopbackBootstrap(vllms.MooncakeBootstrapServer):
    """vLLM's bootstrap server, on loopback whatever address it is given."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(LOOPBACK, port)


class LoggedStats(vllms.MooncakeKVConnectorStats):
    """vLLM's counters; each transfer is logged as well."""

    def record_transfer(self, duration_s: float, total_bytes: int, num_descs: int) -> None:
        """Called by prefill after each push."""
        super().record_transfer(duration_s, total_bytes, num_descs)
        log.info("pushed %d bytes in %.6f s, %d descriptors", total_bytes, duration_s, num_descs)


class MooncakeConnector(vllms.MooncakeConnector):
    """See the module."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if not torch.accelerator.is_available():
            torch.accelerator.current_device_index = lambda: 0
        vllms.MooncakeBootstrapServer = LoopbackBootstrap
        vllms.MooncakeKVConnectorStats = LoggedStats
        super().__init__(*arguments, **named)
