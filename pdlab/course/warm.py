"""Start a Python program in a hundredth of a second: fork it from a process that has imported already.

A program of this course spends most of a second on imports before it does anything.  Where one is
started many times, a *warm* process imports its modules once and forks a child for each start.  The
two speak over a socket that has no name and no address, so nothing else can ask it for anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

MOST_FDS, MOST_BYTES = 16, 1 << 16  # of one request
_BEYOND = 200  # descriptors above those given out that are closed as well


class Child:
    """A forked program, with the part of ``subprocess.Popen`` that its parent needs."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid, self.returncode, self._status = pid, None, status

    def poll(self) -> int | None:
        """The exit status, negative for a signal as in ``subprocess``; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, at most ``timeout`` seconds; raises ``subprocess.TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            told = os.read(self._status, 64)
            os.close(self._status)
            if not told:  # the warm process is gone: nobody would see this one end, so it ends here
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            self.returncode = int(told) if told else -signal.SIGKILL
        return self.returncode

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Warm:
    """A process that has imported ``modules``.  Use as a context manager: it ends with the block.

    Children that still run then are left alone.
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._modules, self._env = list(modules), dict(os.environ if env is None else env)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stop()

    def start(
        self, call: str, arguments: Sequence[str] = (), *, fds: Sequence[int], cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None, new_session: bool = False,
    ) -> Child:  # fmt: skip
        """Run ``call`` ("module:function") with a list of ``arguments`` in a child; what it returns is its exit status.

        The child has ``fds`` as its descriptors 0, 1, 2, …, and no other; ``env`` is added to its environment.
        """
        request = {"call": call, "arguments": list(arguments), "cwd": str(cwd or os.getcwd()), "env": dict(env or {}), "session": new_session}
        reading, writing = os.pipe()
        try:
            with self._lock:
                pid = self._ask(json.dumps(request).encode(), [writing, *fds])
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return Child(pid, reading)

    def _ask(self, request: bytes, fds: list[int]) -> int:
        """Send one request; a warm process that somebody has ended is started anew, once."""
        for _ in range(2):
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._begin()
            with contextlib.suppress(ConnectionError):
                socket.send_fds(self._socket, [request], fds)
                if answer := self._socket.recv(64):
                    return int(answer)
            self._stop()
        raise RuntimeError(f"the process that has imported {', '.join(self._modules)} ends before it answers")

    def _begin(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), *self._modules],
                env=self._env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def _stop(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.wait()
            self._process = None


def _serve(control: socket.socket) -> dict[str, object] | None:
    """Fork for each request; returns the request in the child, and None in the parent when nobody asks any more."""
    statuses: dict[int, int] = {}

    def reap(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = statuses.pop(ended[0])
                with contextlib.suppress(BrokenPipeError):  # nobody waits for this one
                    os.write(status, str(os.waitstatus_to_exitcode(ended[1])).encode())
                os.close(status)

    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which then closes its socket
    while True:
        text, fds, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_FDS)
        if not text:
            return None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid:
            statuses[pid] = fds[0]
            for fd in fds[1:]:
                os.close(fd)
            control.send(str(pid).encode())
        else:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        if not pid:
            control.detach()
            _arrange(fds[1:])
            return json.loads(text)


def _arrange(fds: list[int]) -> None:
    """Make ``fds`` the descriptors 0, 1, 2, … of this process, and close every other one."""
    parked = [fcntl.fcntl(fd, fcntl.F_DUPFD, len(fds)) for fd in fds]
    for number, fd in enumerate(parked):
        os.dup2(fd, number)
    os.closerange(len(fds), max(parked) + _BEYOND)


def main() -> int:
    """Import, then serve; in a child: run what was asked for."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()  # what is shared with the children need not be looked at in each of them
    request = _serve(control)
    if request is None:
        return 0
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    module, _, function = request["call"].partition(":")
    sys.argv[:] = [module, *request["arguments"]]
    try:
        status = getattr(importlib.import_module(module), function)(request["arguments"])
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status or 0)  # taking every module apart would take longer than many a program


if __name__ == "__main__":
    sys.exit(main())
