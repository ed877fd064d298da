"""Ray's environment: a thin layer, ``.venv-ray``, over the live environment.

    python -m pdlab.live.ray.env        set it up, or say that it is there   (part of make ray)

It holds Ray and what Ray needs beside it, from ``requirements-ray.lock``.  vLLM, NIXL and all else
come from the live environment by path, which stays as it is: 2 GB are not installed twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from pdlab.errors import BadInput
from pdlab.live import env

LOCK = env.ROOT / "requirements-ray.lock"
STAMP = "pdlab-ray.json"
PROBE = "import ray; from ray.serve.llm import build_pd_openai_app; import vllm, nixl; print(ray.__version__)"


def location() -> Path:
    """Where Ray's environment is: $PDLAB_RAY_ENV, else ``.venv-ray`` in the repository."""
    return Path(os.environ.get("PDLAB_RAY_ENV", env.ROOT / ".venv-ray"))


def python() -> Path:
    """Its Python; BadInput while there is none that is complete."""
    if not _complete():
        raise BadInput("no environment with Ray", "one", str(location()), "Run `make ray` (about 0.6 GB more than .venv-live).")
    return location() / "bin" / "python"


def versions() -> dict[str, str]:
    """The live environment's versions, and Ray's."""
    return env.versions() | {"ray": json.loads((location() / STAMP).read_text())["ray"]}


def install() -> Path:
    """Set it up where it is not complete; ``env.InstallFailed`` with the reason."""
    live = env.install()
    location().parent.mkdir(parents=True, exist_ok=True)
    with location().with_name(f"{location().name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _complete():
            _make(live)
    return python()


def _make(live: Path) -> None:
    inside = location() / "bin" / "python"
    env._run([str(live), "-m", "venv", "--clear", str(location())])
    env._run([str(inside), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(LOCK)])
    (site,) = location().glob("lib/python3.*/site-packages")
    (below,) = env.location().glob("lib/python3.*/site-packages")
    # addsitedir and not the bare path: pdlab itself is there by a .pth file of its own
    (site / "pdlab-live.pth").write_text(f"import site; site.addsitedir({str(below.absolute())!r})\n")
    probe = subprocess.run([str(inside), "-c", PROBE], capture_output=True, text=True, cwd=location(),
                           env=os.environ | {"VLLM_TARGET_DEVICE": "cpu"})  # fmt: skip
    if probe.returncode:
        raise env.InstallFailed(f"Ray's packages do not import:\n{probe.stderr[-1000:]}")
    (location() / STAMP).write_text(json.dumps({"wanted": _wanted(), "ray": probe.stdout.split()[-1]}))


def _wanted() -> str:
    """A digest of all that decides what is installed."""
    return hashlib.sha256(f"{LOCK.read_text()}\0{env._wanted()}\0{env.location()}".encode()).hexdigest()


def _complete() -> bool:
    stamp = location() / STAMP
    return stamp.exists() and json.loads(stamp.read_text())["wanted"] == _wanted()


def main() -> int:
    """Install; 1 with the reason on standard error where that failed."""
    try:
        install()
    except env.InstallFailed as error:
        print(f"Ray's environment could not be set up.\n{error}", file=sys.stderr)
        return 1
    print(f"Ray {versions()['ray']} is in {location()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
