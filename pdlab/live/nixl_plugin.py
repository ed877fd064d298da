"""A vLLM plugin: let NIXL's progress thread sleep between polls.

NIXL's Python API starts its progress thread with a delay of zero, so the thread polls without
pause: one whole core per server, idle or not.  On a machine with many cores nobody notices.  On
two cores it takes half of the machine.  With 200 µs between polls the idle load is about 2 %.

The same plugin keeps ``pdlab.live.nixl_ledger`` where the environment asks for that.

vLLM calls ``register`` in every process it starts (entry point group ``vllm.general_plugins``).
Only the standard library is imported, so the live environment needs nothing else of pdlab.
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
    """Patch NIXL's Python API in this process, once, if the environment asks for it."""
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
