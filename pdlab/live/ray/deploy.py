"""One design of a plan, up on a Ray cluster of this machine alone, and stopped again.

    with deploy.Application(plan, "disaggregated", model) as up:
        up.url, up.metrics()

Everything Ray starts hangs on one keeper (``pdlab.live.keeper``): when the block is left, or this
program is gone, the keeper ends all of it by process id.  Another Ray cluster is never touched.
Requests are taken on loopback.  Ray's own processes listen on the machine's address, whatever
address it is given; they ask for the cluster's token, which is made here and kept nowhere.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from pdlab.documents import read_lines
from pdlab.live import LOOPBACK, keeper, metrics, models, nixl_ledger
from pdlab.live.ray import calls, env, render
from pdlab.live.serve import ServerFailed, free_ports
from pdlab.measure.plan import Plan

READY_TIMEOUT_S = 420.0  # minutes on two busy cores
SPARE_CPUS = 2  # for Serve's own actors, beside the engines


class Application:
    """A context manager; ServerFailed with the end of the log when it does not come up.

    With ``file`` it is deployed by ``serve run`` from the rendered file, and ``update`` may run
    another; else from the builder's arguments.  ``spare_cpus`` are for Ray to place more replicas on.
    """

    def __init__(self, plan: Plan, design: render.Design, model: models.Model, chunk_tokens: int | None = None,
                 file: bool = False, spare_cpus: int = 0) -> None:  # fmt: skip
        self.plan, self.design, self.model, self.file = plan, design, model, file
        self.options = {"name": model.name, "chunk_tokens": chunk_tokens}
        self.arguments = render.arguments(plan, design, model.path, **self.options)
        self.cpus = plan.used(design) + SPARE_CPUS + spare_cpus
        port, self.metrics_port = free_ports(2)
        self.port, self.url = port, f"http://{LOOPBACK}:{port}"
        self.pids: set[int] = set()  # all that were ever seen below the keeper

    def __enter__(self) -> Application:
        self.temp = Path(tempfile.mkdtemp(prefix="pdlab-ray-"))
        self.ledger = self.temp / "ledger"
        self.ledger.mkdir()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        began = time.monotonic()
        wanted, ready, self.log = self.temp / "wanted.json", self.temp / "ready", self.temp / "log"
        if self.file:
            self._document.write_text(self.document())
        wanted.write_text(json.dumps({
            "builder": render.BUILDER[self.design], "arguments": self.arguments, "port": self.port,
            "metrics_port": self.metrics_port, "cpus": self.cpus, "name": self.design, "temp": str(self.temp / "ray"),
            "document": str(self._document) if self.file else None,
        }))  # fmt: skip
        command = [str(env.python()), "-m", "pdlab.live.ray.hold", str(wanted), str(ready)]
        # a token of this cluster's own: without one Ray would leave a file in the home folder
        quiet = {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0",
                 "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
                 nixl_ledger.ENV: str(self.ledger)}  # fmt: skip
        if render.device(self.arguments) == "cpu":
            quiet["VLLM_TARGET_DEVICE"] = "cpu"
        outside = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        with self.log.open("w") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, "", "--", *command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=outside | quiet, start_new_session=True, cwd=self.temp,
            )  # fmt: skip
        self._holder = int(self._keeper.stdout.readline() or 0)
        while not ready.exists():
            if self._keeper.poll() is not None or time.monotonic() - began > READY_TIMEOUT_S:
                raise ServerFailed(f"Ray did not bring {self.design} up; its log ends:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.2)
        self.up_s = time.monotonic() - began
        self.processes()

    @property
    def model_name(self) -> str:
        """The name to put in a request's ``model``."""
        return self.model.name

    @property
    def servers(self) -> list[str]:
        """The engines, one a replica, by short name."""
        sides = self.plan.deployments
        pair = sides.disaggregated
        counts = ({"aggregated": sides.aggregated.replicas} if self.design == "aggregated"
                  else {"prefill": pair.prefill_replicas, "decode": pair.decode_replicas})  # fmt: skip
        return [f"{pool}-{index}" for pool, count in counts.items() for index in range(count)]

    def shown(self) -> dict[str, Any]:
        """The builder's arguments for a provenance: the model by its name, not by its place here."""
        return render.arguments(self.plan, self.design, self.model.name, **self.options)

    @property
    def _document(self) -> Path:
        return self.temp / "serve.yaml"

    def document(self, replicas: dict[str, int] | None = None, plan: Plan | None = None) -> str:
        """The serve file of this application, with a pool's number changed, or of another plan."""
        return render.document(plan or self.plan, self.design, self.model.path, self.port, replicas, **self.options)

    def update(self, document: str) -> None:
        """``serve run`` with another file, beside all that runs; returns at once."""
        self._document.write_text(document)
        os.kill(self._holder, signal.SIGUSR1)

    def states(self) -> list[dict[str, Any]]:
        """What Serve said of the application and its replicas, each time that it changed."""
        return read_lines(self._document.with_name("status.jsonl"))

    def processes(self) -> list[psutil.Process]:
        """Everything that runs below the keeper now."""
        found = psutil.Process(self._keeper.pid).children(recursive=True)
        self.pids |= {process.pid for process in found}
        return found

    def replicas(self) -> dict[int, str]:
        """Serve's replica processes: process id → the name that Ray gives the process."""
        found = {}
        for process in self.processes():
            try:
                title = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if title.startswith("ray::ServeReplica"):
                found[process.pid] = title.split()[0]
        return found

    def names(self) -> dict[int, str]:
        """Every process of the cluster by what it is: a hop, a hop's engine, controller, or ray (the rest)."""
        replicas = {pid: calls.hop(title.split(":")[4]) for pid, title in self.replicas().items()}
        found = {}
        for process in self.processes():
            try:
                title, above = process.name() + " ".join(process.cmdline()), [one.pid for one in process.parents()]
            except psutil.Error:
                continue
            owner = next((replicas[pid] for pid in above if pid in replicas), None)
            kind = {"ray::ProxyActor": "proxy", "ray::ServeController": "controller"}
            found[process.pid] = (
                replicas.get(process.pid) or (f"{owner}'s engine" if owner else None)
                or next((name for text, name in kind.items() if text in title), "ray")
            )  # fmt: skip
        return found

    def metrics(self) -> metrics.Metrics:
        """The node's metrics page.  Ray writes vLLM's names as ``ray_vllm_…``."""
        return metrics.scrape(f"http://{LOOPBACK}:{self.metrics_port}")

    def transfers(self) -> list[dict[str, Any]]:
        """What NIXL said of each transfer that a replica's engine has seen finish, in order of time."""
        return nixl_ledger.read(self.ledger)

    def stop(self) -> None:
        """End all of it and wait until every process is gone.  Safe to repeat."""
        if held := self.__dict__.pop("_keeper", None):
            try:
                found = psutil.Process(held.pid).children(recursive=True)
                self.pids |= {process.pid for process in found}
            except psutil.NoSuchProcess:
                pass
            held.stdin.close()
            held.wait()
            held.stdout.close()
        shutil.rmtree(self.temp, ignore_errors=True)
