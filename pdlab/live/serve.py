"""Start real vLLM servers, aggregated or disaggregated, and leave none behind.

    with Deployment(Spec("tiny", design="disaggregated")) as pair:
        print(pair.prefill[0].base_url, pair.decode[0].base_url)

A ``Spec`` says what to run; a ``Deployment`` runs it: free loopback ports, one log per server,
cores (or GPUs) dealt and counted, ready when ``/health`` answers.  Each server hangs on a keeper
(``keeper.py``) that ends it as soon as this program is gone, however it went.
"""

from __future__ import annotations

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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdlab.errors import Failed
from pdlab.live import LOOPBACK, budget, direct, env, metrics, models
from pdlab.live.keeper import children, mapped_by, unlink
from pdlab.live.same_model import identity, same_model
from pdlab.live.spec import Role, Spec, inherited

PORTS = range(20_000, 32_000)  # below the range from which the kernel takes outgoing ports
READY_TIMEOUT_S = 600.0
TELLING = re.compile(r"error|exception|traceback|killed|cannot|refused|no such|usage:", re.I)


class ServerFailed(Failed):
    """A server ended, or didn't become ready; the message carries the telling lines of its log."""


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

    def __init__(self, spec: Spec, run_dir: str | Path | None = None) -> None:
        self.spec = spec
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
        return self.budget.describe(self.spec.names())

    def start(self) -> Deployment:
        """Start all servers side by side and wait until each answers ``/health``."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        try:
            for index in range(len(self.roles)):
                self.servers.append(self._spawn(index))
            deadline = time.monotonic() + READY_TIMEOUT_S
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
        """``kill -9`` one server and wait until its process tree is gone.

        What it has mapped of shared memory is looked up before: its keeper finds nobody left to ask.
        """
        mapped = mapped_by([server.pid, *children(server.pid)])
        self.signal(server, signal.SIGKILL)
        self._keepers[server.name].wait()
        unlink(mapped)

    def restart(self, server: Server) -> Server:
        """Start a server again in the place of one that has ended; same name, new ports."""
        if keeper := self._keepers.pop(server.name, None):
            _close(keeper)
            keeper.wait()
        index = self.servers.index(server)
        self.servers[index] = self._spawn(index)
        self._wait_ready(self.servers[index], time.monotonic() + READY_TIMEOUT_S)
        return self.servers[index]

    def reset_prefix_caches(self) -> None:
        """Empty every server's prefix cache, so that the next run starts cold."""
        for server in self.servers:
            request = urllib.request.Request(f"{server.base_url}/reset_prefix_cache", method="POST")
            with direct.opened(request, 30):
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
        name, role = self.spec.names()[index], self.roles[index]
        share = self.budget.shares[index]
        port, side_channel = free_ports(2)
        log_path = self.run_dir / f"{name}.log"
        cores = ",".join(map(str, share)) if self.device == "cpu" else ""
        command = [str(self.python), *self.spec.arguments(role, self.model, self.device, port)]
        with log_path.open("a") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")), cores]
                + ["--", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=inherited() | self.spec.settings(self.model, self.budget, share, side_channel),
                start_new_session=True,
            )
        self._keepers[name] = keeper
        pid = int(keeper.stdout.readline() or 0)  # type: ignore[union-attr]
        if not pid:
            raise ServerFailed(f"{name} could not be started: {' '.join(command)}\n{_tail(log_path)}")
        return Server(name, role, f"http://{LOOPBACK}:{port}", pid, log_path, share, side_channel)

    def _wait_ready(self, server: Server, deadline: float) -> None:
        def healthy() -> bool:
            try:
                with direct.opened(f"{server.base_url}/health", 5):
                    return True
            except (urllib.error.URLError, OSError):
                return False

        log = server.log_path
        wait_ready(
            healthy, {server.name: self._keepers[server.name]}, deadline,
            lambda: f"{server.name} was not ready after {READY_TIMEOUT_S:.0f} s; its log {log} ends:\n{_tail(log)}",
            lambda name: f"its log {log} says:\n{_tail(log)}",
        )  # fmt: skip


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


def _tail(log_path: Path) -> str:
    """The lines of a log that tell why a server ended: errors first, else its last lines."""
    text = log_path.read_text(errors="replace").splitlines() if log_path.exists() else []
    telling = [line for line in text if TELLING.search(line)]
    return "\n".join(f"  {line}" for line in (telling or text)[-12:]) or "  (the log is empty)"
