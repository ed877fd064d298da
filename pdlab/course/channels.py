"""A kernel's two channels, for whoever runs notebooks: the tests and the confined grader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient


def message(client: BlockingKernelClient, channel: str, timeout_s: float) -> dict[str, Any]:
    """The next message of ``iopub`` (what a cell shows) or ``shell`` (its reply).

    Raises ``queue.Empty`` where none comes within ``timeout_s``, and KeyError for another channel.
    """
    receive = {"iopub": client.get_iopub_msg, "shell": client.get_shell_msg}[channel]
    return receive(timeout=timeout_s)
