"""Make the course's environment: ``python3 pdlab/course/bootstrap.py``.  Standard library only.

The Makefile runs this with the system's Python before anything is installed.  A stamp file says
what the environment was made from; without it, an environment is half-built and is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DISK_NEEDED_BYTES = 1_500_000_000  # the environment (see README) and what pip unpacks on the way
NEWS_EVERY_S = 15.0  # pip says nothing while it unpacks, and on a busy machine that takes minutes
NO_NEWS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}


def main() -> None:
    """Make or mend ``.venv``; one sentence and exit status 1 where that cannot be done, 130 where it was interrupted."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is not signal.SIG_IGN:
            signal.signal(ending, signal.default_int_handler)
    try:
        with open(ROOT / "requirements.lock") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # make lab and make test may be started together
            problem = ensure(ROOT)
    except KeyboardInterrupt:
        print("\nStopped: the environment is not finished; the same command makes it afresh.", file=sys.stderr)
        sys.exit(130)
    if problem:
        sys.exit(problem)


def ensure(root: Path) -> str | None:
    """Bring ``root/.venv`` in line with the lock file; the reason in one sentence if that fails."""
    venv, stamp = root / ".venv", root / ".venv" / "pdlab-ready"
    wanted = {"lock": _sha256(root / "requirements.lock"), "project": _sha256(root / "pyproject.toml")}
    python = str(venv / "bin" / "python")
    # An environment with a stamp was whole: changed requirements can be installed over it.
    made_from = _read(stamp) if _runs(python) else None
    if made_from == wanted:
        return None
    if problem := obstacle(venv):
        return problem
    stamp.unlink(missing_ok=True)
    try:
        if not made_from:
            print("Making .venv (about 0.9 GB, a minute or two); a busy machine takes longer …", flush=True)
            _run(sys.executable, "-m", "venv", "--clear", str(venv))
        if not made_from or made_from["lock"] != wanted["lock"]:
            print("Fetching and unpacking up to %d packages …" % _pins(root / "requirements.lock"), flush=True)
            _run(python, "-m", "pip", "install", "-qq", "--no-deps", "--no-compile", "--require-hashes",
                 "--disable-pip-version-check", "--requirement", str(root / "requirements.lock"), fills=venv)
        print("Adding the course itself …", flush=True)
        _run(python, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation",
             "--disable-pip-version-check", "--editable", str(root))
    except subprocess.CalledProcessError as error:
        return (
            "The environment could not be made: %s ended with status %d; its own message stands above. "
            "Run the same command again to start afresh." % (" ".join(error.cmd[1:5]), error.returncode)
        )
    settings = venv / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "overrides.json").write_text(json.dumps(NO_NEWS))  # no pop-up over the first notebook
    stamp.write_text(json.dumps(wanted))
    print("The environment is ready.", flush=True)
    return None


def obstacle(venv: Path) -> str | None:
    """What keeps this Python from making an environment at ``venv``, or None."""
    if venv.exists() and not (venv / "pyvenv.cfg").exists() and any(venv.iterdir()):
        return "%s is there and is no virtual environment: move it away and run the command again." % venv
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        return (
            "This Python (%s) has no venv module: install it (Debian, Ubuntu: apt install python3-venv), "
            "or name another Python: make lab PYTHON=python3.12" % sys.executable
        )
    free = shutil.disk_usage(venv.parent).free
    if not venv.exists() and free < DISK_NEEDED_BYTES:
        return (
            "Too little disk: %s has %.1f GB free and the environment needs %.1f GB while it is made."
            % (venv.parent, free / 1e9, DISK_NEEDED_BYTES / 1e9)
        )
    return None


def _run(*command: str, fills: Path | None = None) -> None:
    """Run one step to its end, with a line of news every now and then.

    It has a process group of its own: Ctrl-C reaches this program alone, which ends the step and
    says one sentence, where the step would print a traceback.
    """
    began = time.monotonic()
    step = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        while True:
            try:
                status = step.wait(NEWS_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                there = ", %d packages are there" % _installed(fills) if fills else ""
                print("  … %.0f s so far%s" % (time.monotonic() - began, there), flush=True)
    except KeyboardInterrupt:
        os.killpg(step.pid, signal.SIGKILL)  # what it made has no stamp, so nothing half-made is used
        step.wait()
        raise
    if status:
        raise subprocess.CalledProcessError(status, command)


def _pins(lock: Path) -> int:
    return sum("==" in line and not line[0].isspace() for line in lock.read_text().splitlines() if line)


def _installed(venv: Path) -> int:
    return len(list(venv.glob("lib/python*/site-packages/*.dist-info")))


def _runs(python: str) -> bool:
    """Whether the environment's interpreter starts: the Python it was made from may be gone."""
    try:
        return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(stamp: Path) -> dict[str, str] | None:
    try:
        return json.loads(stamp.read_text())
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    main()
