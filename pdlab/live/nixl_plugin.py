"""A vLLM plugin: on a processor, let NIXL's progress thread sleep, and leave each server on its cores.

NIXL's Python API starts its progress thread with a delay of zero, so the thread polls without
pause: one whole core per server, idle or not.  On a machine with many cores nobody notices.  On
two cores it takes half of the machine.  With 200 µs between polls the idle load is about 2 %.

vLLM's NIXL connector moves the thread that sets it up to the last core of each NUMA node, "for KV
transfer" (vLLM 0.32.0, nixl/base_worker.py), out of whatever cores the server was given.  On a
processor that is the thread which computes.  So prefill and decode, a core each by the plan, would
both compute on the last core while the first is idle.  It asks the platform which cores those are;
here the answer is none.

The same plugin keeps ``pdlab.live.nixl_ledger`` where the environment asks for that.

vLLM calls ``register`` in every process it starts (entry point group ``vllm.general_plugins``).
"""

from __future__ import annotations

import os
from typing import Any

from pdlab.live import nixl_ledger

ENV = "PDLAB_NIXL_PROGRESS_DELAY_US"  # set by pdlab.live.serve; unset means: leave NIXL alone
DEFAULT_DELAY_US = 200
FEW_CORES = 8  # from here on a spinning thread per server is affordable


def delay_for(cores: int) -> int | None:
    """Microseconds between polls on a machine with that many cores; None leaves NIXL as it is."""
    return DEFAULT_DELAY_US if cores < FEW_CORES else None


class _DelayedAgents:
    """NIXL's binding module with one constructor replaced."""

    def __init__(self, binding: Any, delay_us: int) -> None:
        self._binding, self._delay_us = binding, delay_us

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    def nixlAgent(self, name: str, config: Any) -> Any:  # noqa: N802 - NIXL's spelling
        config.pthrDelay = self._delay_us
        return self._binding.nixlAgent(name, config)


def register() -> None:
    """Keep this process on its cores; patch NIXL's Python API, once, if the environment asks for it."""
    _stay_on_own_cores()
    delay = os.environ.get(ENV)
    if not delay and not os.environ.get(nixl_ledger.ENV):
        return
    try:
        import nixl._api as api
    except ImportError:  # a server without NIXL has no such thread
        return
    nixl_ledger.register(api)
    if delay and not isinstance(api.nixlBind, _DelayedAgents):
        api.nixlBind = _DelayedAgents(api.nixlBind, int(delay))


def _stay_on_own_cores() -> None:
    """The CPU platform then names no core to move to; nothing else asks it for these."""
    try:
        from vllm.platforms import current_platform
    except ImportError:  # imported by pdlab itself, outside a server
        return
    if current_platform.is_cpu():
        type(current_platform).discover_numa_topology = classmethod(lambda cls: [])
