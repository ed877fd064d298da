"""Who gets which cores or GPUs, counted, so that two designs can be seen to cost the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pdlab.errors import BadInput

Device = Literal["cpu", "cuda"]
UNIT = {"cpu": "core", "cuda": "GPU"}


def gpus() -> list[int]:
    """Indices of the NVIDIA GPUs that the driver lists; empty where there is no driver."""
    if not shutil.which("nvidia-smi"):
        return []
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    return list(range(sum(line.startswith("GPU ") for line in listing.stdout.splitlines())))


def cores() -> list[int]:
    """The CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def device(asked: str = "auto") -> Device:
    """``cuda`` where an NVIDIA GPU is found, else ``cpu``; or what was asked for."""
    if asked == "auto":
        return "cuda" if gpus() else "cpu"
    if asked not in UNIT:
        raise BadInput(f"device {asked!r}", "auto, cpu or cuda")
    return asked  # type: ignore[return-value]


@dataclass(frozen=True)
class Budget:
    """The cores (or GPUs) of one deployment: ``shares[i]`` belongs to server i."""

    device: Device
    shares: tuple[tuple[int, ...], ...]

    @property
    def units(self) -> int:
        """Distinct cores (or GPUs) in use."""
        return len({unit for share in self.shares for unit in share})

    @property
    def shared(self) -> bool:
        """Whether some unit serves more than one server."""
        return self.units < sum(map(len, self.shares))

    def describe(self, names: Sequence[str]) -> str:
        """One line: ``2 cores: prefill-0 on core 0, decode-0 on core 1``."""
        unit = UNIT[self.device]
        total = f"{self.units} {unit}{'s' if self.units != 1 else ''}"
        if self.shared:
            return f"{total}, shared by {len(names)} servers: {', '.join(names)}"
        parts = [
            f"{name} on {unit}{'s' if len(share) > 1 else ''} {','.join(map(str, share))}"
            for name, share in zip(names, self.shares, strict=True)
        ]
        return f"{total}: {'; '.join(parts)}"


def split(kind: Device, servers: int, units: int | None = None, per_server: int = 1) -> Budget:
    """Deal ``units`` cores or GPUs (default: all that are here) to ``servers`` equally.

    GPUs are never shared: each server gets ``per_server`` of them.  Cores are dealt evenly; with
    fewer cores than servers all servers share all cores, and the budget says so.
    """
    here = gpus() if kind == "cuda" else cores()
    unit = UNIT[kind]
    wanted = len(here) if units is None else units
    if not 1 <= wanted <= len(here):
        raise BadInput(
            f"a budget of {wanted} {unit}s",
            f"between 1 and {len(here)}, the {unit}s of this machine",
            do="Ask for fewer, or run on a larger machine.",
        )
    here = here[:wanted]
    if kind == "cuda":
        if servers * per_server > wanted:
            raise BadInput(
                f"{servers} servers × {per_server} GPUs",
                f"at most {wanted} GPUs",
                do="Use fewer servers or a smaller tensor parallelism.",
            )
        share = per_server
    elif servers > wanted:
        return Budget(kind, tuple(tuple(here) for _ in range(servers)))
    else:
        share = wanted // servers
    return Budget(kind, tuple(tuple(here[i * share : (i + 1) * share]) for i in range(servers)))
