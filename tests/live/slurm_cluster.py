"""A Slurm of two nodes on one machine: each node is a network, a host name and a /dev/shm of its own.

Made of Debian's own programs with a configuration of its own, in namespaces, so it takes root and
changes nothing outside its folder.  Every process is ended by its own id, and the namespaces go with
the processes that hold them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "mungekey", "unshare", "nsenter", "ip", "ss")
NODES = {"ctl": "10.99.0.10", "n1": "10.99.0.1", "n2": "10.99.0.2"}  # in a network of their own, which has no way out
APART = ("unshare", "--net", "--uts", "--mount", "--ipc")
CONFIG = """\
ClusterName=test
SlurmctldHost=ctl(10.99.0.10)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
NodeName=n1 NodeAddr=10.99.0.1 CPUs=2 RealMemory=4000 Gres=gpu:1
NodeName=n2 NodeAddr=10.99.0.2 CPUs=2 RealMemory=4000 Gres=gpu:1
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be no such cluster here; empty where there can."""
    if os.geteuid() != 0:
        return "namespaces of several nodes take root"
    if gone := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(gone)} not installed (Debian: apt install slurmctld slurmd slurm-client munge)"
    tried = subprocess.run([*APART, "true"], capture_output=True)
    return "no right to make namespaces" if tried.returncode else ""


@dataclass
class Cluster:
    """Where its files lie, and the process that holds each node's namespaces."""

    folder: Path
    holders: dict[str, subprocess.Popen] = field(default_factory=dict)
    daemons: list[subprocess.Popen] = field(default_factory=list)

    def on(self, node: str, *command: str, wait_s: float = 60, **settings: str) -> str:
        """What a command prints there; an error where it fails."""
        done = subprocess.run(
            [*self._enter(node), *command], env=self.environment() | settings, capture_output=True, text=True, timeout=wait_s
        )
        assert done.returncode == 0, (command, done.stdout + done.stderr)
        return done.stdout

    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf"), "TMPDIR": str(self.folder / "tmp")}

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job, for example its JobState."""
        words = self.on("ctl", "scontrol", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def listening(self, node: str) -> set[int]:
        """The TCP ports that somebody holds there."""
        return {int(line.split()[3].rpartition(":")[2]) for line in self.on(node, "ss", "-ltnH").splitlines()}

    def _enter(self, node: str) -> list[str]:
        return ["nsenter", f"--target={self.holders[node].pid}", "--net", "--uts", "--mount", "--ipc", f"--wd={os.getcwd()}"]

    def hold(self, node: str) -> None:
        """A network, a host name and shared memory of its own."""
        text = f"hostname {node} && ip link set lo up && mount -t tmpfs none /dev/shm && echo up && exec sleep infinity"
        self.holders[node] = subprocess.Popen(
            [*APART, "sh", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert self.holders[node].stdout.readline() == "up\n", f"no namespaces for {node}"

    def start(self, node: str | None, *command: str) -> None:
        """One daemon, on a node or, with None, beside them all."""
        with (self.folder / f"{command[0]}-{node}.log").open("w") as log:
            self.daemons.append(subprocess.Popen(
                [*(self._enter(node) if node else ()), *command], env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            ))  # fmt: skip

    def end(self) -> None:
        for process in [*reversed(self.daemons), *self.holders.values()]:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def two_nodes() -> Iterator[Cluster]:
    """The cluster, up; its folder is short, since sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name:
        cluster = Cluster(Path(name))
        try:
            _up(cluster)
            yield cluster
        finally:
            cluster.end()


def _up(cluster: Cluster) -> None:
    folder = cluster.folder
    folder.chmod(0o755)
    for one in ("munge", "state", "tmp"):
        (folder / one).mkdir()
    (folder / "munge").chmod(0o711)
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder))
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
    for node in NODES:
        cluster.hold(node)
    cluster.on("ctl", "sh", "-c", f"ip link add bridge type bridge && ip addr add {NODES['ctl']}/24 dev bridge && ip link set bridge up")
    for node in ("n1", "n2"):
        pid = cluster.holders[node].pid
        cluster.on("ctl", "sh", "-c", f"ip link add {node} type veth peer name to-{node} && ip link set to-{node} netns {pid} && ip link set {node} master bridge up")
        cluster.on(node, "sh", "-c", f"ip link set to-{node} name eth0 && ip addr add {NODES[node]}/24 dev eth0 && ip link set eth0 up")
        # as Debian writes it: a node's own name means its loopback, the others' their addresses
        own = {other: "127.0.1.1" if other == node else address for other, address in NODES.items()}
        hosts = folder / f"hosts-{node}"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {other}\n" for other, address in own.items()))
        cluster.on(node, "mount", "--bind", str(hosts), "/etc/hosts")
    subprocess.run(["mungekey", "--create", f"--keyfile={folder}/munge/key"], check=True)
    own = [f"--{name}={folder}/munge/{name.removesuffix('-file')}" for name in ("key-file", "pid-file", "log-file", "seed-file", "socket")]
    cluster.start(None, "munged", "--foreground", "--force", *own)
    limit = time.monotonic() + 30
    while not (folder / "munge/socket").exists():
        assert time.monotonic() < limit, "munged does not come up"
        time.sleep(0.1)
    cluster.start("ctl", "slurmctld", "-D")
    for node in ("n1", "n2"):
        cluster.start(node, "slurmd", "-D")
    while True:
        with contextlib.suppress(AssertionError):
            if cluster.on("ctl", "sinfo", "--noheader", "--format=%D %t").split() == ["2", "idle"]:
                return
        assert time.monotonic() < limit, "".join(log.read_text() for log in folder.glob("*.log"))
        time.sleep(0.5)
