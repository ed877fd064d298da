"""Kernels that start in a tenth of a second: forked from a process that has imported already.

A notebook kernel spends a second or two on imports.  The course executes some thirty notebooks at a
time, so one *nursery* process imports them once and forks a kernel per notebook.  All kernels get the
same fixed environment, so that a notebook says the same thing on every machine.  Where forking after
imports is unsafe (anything but Linux) kernels start the ordinary way, in the same environment.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

FIXED = {
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "PYTHONHASHSEED": "0",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PDLAB_GUESSES": "",  # a build shows its own guesses, and leaves a learner's alone
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    # One thread each: two notebooks at a time on two cores, and no threads in the nursery at a fork.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
PRELOAD = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "matplotlib.font_manager",
    "numpy",
    "pandas",
    "pint",
    "pyarrow.parquet",
    "pydantic",
    "tabulate",
    "yaml",
    "pdlab.course",
    "pdlab.course.checks",
    "pdlab.course.plots",
    "pdlab.course.predictions",
    "pdlab.course.show",
    "pdlab.measure.slo",
    "pdlab.theory.kv",
)


def environment() -> dict[str, str]:
    """The environment of every kernel: this process's, with what a result may depend on fixed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_", "MPL", "JPY_", "PDLAB_RUN_"))}
    return kept | FIXED | {"IPYTHONDIR": _scratch()}


@cache
def _scratch() -> str:
    """A folder for what a kernel writes about itself, so that no one's own settings are read or changed."""
    folder = tempfile.mkdtemp(prefix="pdlab-kernels-")
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork of this process that ends first must leave it
        shutil.rmtree(folder, ignore_errors=True)


class _Nursery:
    """The process that forks kernels.  One line of JSON asks for a kernel, one line answers its pid."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def fork(self, connection_file: str, cwd: str | None) -> int:
        """Fork a kernel that serves ``connection_file``; its pid."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                # -P keeps the current folder out of sys.path: a notebook imports what is installed.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", __name__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment(),
                )
                atexit.register(self.close)
            request = {"connection_file": connection_file, "cwd": cwd or os.getcwd()}
            print(json.dumps(request), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the kernel nursery ended; its own message stands above")
        return int(answer)

    def close(self) -> None:
        """End the nursery; kernels still running see their parent go and end too."""
        with self._lock:
            if self._process is not None:
                self._process.stdin.close()
                self._process.wait()
                self._process.stdout.close()
                self._process = None


nursery = _Nursery()


class _Forked:
    """The part of ``subprocess.Popen`` that a kernel manager uses, for a kernel of the nursery."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 1  # the nursery reaps its children at once, so the exit status is not kept
        return None

    def wait(self) -> int | None:
        return self.poll()

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _ForkProvisioner(LocalProvisioner):
    """Launches a kernel by a fork of the nursery instead of a new interpreter."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        self.pid = nursery.fork(self.parent.connection_file, kwargs.get("cwd"))
        self.process = _Forked(self.pid)
        self.cwd = kwargs.get("cwd")
        return self.connection_info


def manager(asynchronous: bool = False) -> KernelManager:
    """A kernel manager, not yet started, for a Python kernel of this very environment."""
    connection_file = str(Path(_scratch()) / f"{uuid.uuid4()}.json")  # goes with the folder, however the kernel ended
    km = (AsyncKernelManager if asynchronous else KernelManager)(kernel_name="python3", connection_file=connection_file)
    if sys.platform == "linux":
        km.provisioner = _ForkProvisioner(parent=km, kernel_spec=km.kernel_spec, kernel_id="pdlab")
    return km


def start_options() -> dict[str, Any]:
    """What ``start_kernel`` is given so that an ordinarily started kernel has the same environment."""
    return {} if sys.platform == "linux" else {"env": environment()}


def _serve() -> None:
    """The nursery's loop: import once, then fork a kernel for each line on stdin."""
    import gc
    import importlib

    for name in PRELOAD:
        try:
            importlib.import_module(name)
        except Exception:  # missing or broken: the notebook that imports it will say so
            continue
    gc.freeze()  # keep what is shared with the kernels out of their collections
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped by the system
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which then closes stdin
    nursery_pid = os.getpid()
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_kernel(request, nursery_pid)
        print(pid, flush=True)


def _become_kernel(request: dict[str, str], nursery_pid: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.chdir(request["cwd"])
    sys.argv[:] = ["ipykernel_launcher"]
    os.environ["JPY_PARENT_PID"] = str(nursery_pid)
    from ipykernel.kernelapp import IPKernelApp

    try:
        IPKernelApp.launch_instance(
            argv=["-f", request["connection_file"], "--HistoryManager.enabled=False", "--quiet"]
        )
    finally:
        os._exit(0)


if __name__ == "__main__":
    _serve()
