"""A virtual environment for one engine: made under a lock file, stamped once it is whole.

vLLM, Ray, the simulator and Dynamo have pins that do not fit together, so each has an environment
beside the course's own (``env`` lists them).  One rule for all: without its stamp an environment is
half-built, whatever lies in it, and is made afresh; where the lock has changed since, the new one is
installed over it.  A layer holds only what it adds; all else it finds in its ``base``, by path.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pdlab.documents import write_whole
from pdlab.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]


class InstallFailed(RuntimeError):
    """An environment could not be set up; the message says why and what to do."""


@dataclass(frozen=True)
class Problem:
    """What stands in the way on this machine, and one sentence on what to do."""

    found: str
    do: str

    def __str__(self) -> str:
        return f"{self.found}. {self.do}"


@dataclass(frozen=True)
class Environment:
    """One environment: folder ``.venv-NAME`` in the repository, or where $PDLAB_NAME_ENV says.

    It is whole when everything of ``lock`` is installed and ``probe``, a line of Python, has run in
    it (with ``settings`` in its surroundings).  ``pythons`` are the minor versions of Python 3 that
    its packages accept, ``reported`` the packages whose versions tell what it is.
    """

    name: str
    holds: str
    command: str
    size: str
    lock: Path
    probe: str
    reported: tuple[str, ...]
    disk_bytes: int
    pythons: range = range(11, 15)
    base: Environment | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def location(self) -> Path:
        """Its folder, there or not."""
        return Path(os.environ.get(f"PDLAB_{self.name.upper()}_ENV", ROOT / f".venv-{self.name}"))

    def python(self) -> Path:
        """Its Python; BadInput while there is none that is whole (a layer has to fit its base, too)."""
        if not (self.complete() if self.base else self.whole()):
            raise BadInput(
                f"no {self.name} environment", f"one with {self.holds}", str(self.location()),
                f"Run `{self.command}` ({self.size}).",
            )  # fmt: skip
        return self.location() / "bin" / "python"

    def versions(self) -> dict[str, str]:
        """Versions of Python and of what it holds, its base's included, read from their metadata."""
        found = self.base.versions() if self.base else self._python_version()
        for package in importlib.metadata.distributions(path=[str(site)]) if (site := self._site()) else ():
            if (name := package.metadata["Name"].lower()) in self.reported:
                found[name] = package.version
        return found

    def whole(self) -> bool:
        """Whether it was finished once and its Python is still there."""
        return self._stamp().exists() and (self.location() / "bin" / "python").exists()

    def complete(self) -> bool:
        """Whether it is whole and made from what is wanted now."""
        try:
            return self.whole() and json.loads(self._stamp().read_bytes())["wanted"] == self.wanted()
        except (ValueError, LookupError, TypeError):  # a stamp that was cut off says nothing
            return False

    def wanted(self) -> str:
        """A digest of all that decides what is installed."""
        return hashlib.sha256(b"\0".join(self.parts())).hexdigest()

    def parts(self) -> list[bytes]:
        """What the digest is taken of."""
        below = [self.base.wanted(), str(self.base.location())] if self.base else []
        return [self.lock.read_bytes(), *(part.encode() for part in below)]

    def problems(self, interpreter: str = sys.executable) -> list[Problem]:
        """What stands in the way on this machine, before any download."""
        found = []
        major, minor = _version(interpreter)
        if major != 3 or minor not in self.pythons:
            found.append(Problem(
                f"This is Python {major}.{minor}",
                f"{self.holds} needs 3.{self.pythons[0]} to 3.{self.pythons[-1]}; name one: "
                f"{self.command} PYTHON=python3.12.",
            ))  # fmt: skip
        parent = next(folder for folder in self.location().absolute().parents if folder.exists())
        free = shutil.disk_usage(parent).free
        if not self.whole() and free < self.disk_bytes:
            found.append(Problem(
                f"{free / 1e9:.1f} GB of disk are free",
                f"The {self.name} environment needs {self.disk_bytes / 1e9:.1f} GB; free some, or set "
                f"PDLAB_{self.name.upper()}_ENV to a folder on another disk.",
            ))  # fmt: skip
        return found

    def install(self, interpreter: str = sys.executable) -> Path:
        """Make it, finish it or mend it, its base first; InstallFailed with the reason."""
        if self.base:
            interpreter = str(self.base.install(interpreter))
        if self.complete():
            return self.python()
        if found := self.problems(interpreter):
            raise InstallFailed("\n".join(map(str, found)))
        self.location().parent.mkdir(parents=True, exist_ok=True)
        with self.location().with_name(f"{self.location().name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # make live and make test-live may be started together
            if not self.complete():
                self._make(interpreter)
        return self.python()

    def fill(self) -> None:
        """Install what the lock names, and nothing that it does not."""
        self.pip("--quiet", "--no-deps", "--require-hashes", "-r", str(self.lock))

    def pip(self, *arguments: str) -> None:
        """``pip install`` in here; InstallFailed carries its last lines."""
        run([str(self.location() / "bin" / "python"), "-m", "pip", "install",
             "--disable-pip-version-check", *arguments])  # fmt: skip

    def _make(self, interpreter: str) -> None:
        """Fill it, see that it imports, and only then say so with the stamp."""
        where, broken = self.location(), ""
        if self.whole():  # the lock has changed since: what is there already need not be fetched again
            broken = self._filled()
        elif where.exists():
            broken = "it is half-built"
        if broken or not self.whole():
            if where.exists() and any(where.iterdir()) and not (where / "pyvenv.cfg").exists():
                raise InstallFailed(f"{where} is there and is no virtual environment: move it away first.")
            if broken:
                print(f"The {self.name} environment is made afresh: {broken}.", flush=True)
            run([interpreter, "-m", "venv", "--clear", str(where)])
            if broken := self._filled():
                raise InstallFailed(f"the installed packages do not import: {broken}")
        write_whole(self._stamp(), json.dumps({"wanted": self.wanted(), "versions": self.versions()}))

    def _filled(self) -> str:
        """Fill it and join it to its base; gives why it does not import, in one line, or nothing."""
        self.fill()
        if self.base:
            site, below = self._site(), self.base._site()
            assert site and below
            # addsitedir and not the bare path: what is installed there as editable has .pth files too
            line = f"import site; site.addsitedir({str(below.absolute())!r})\n"
            (site / "pdlab-base.pth").write_text(line)
        return self.fails(self.probe)

    def fails(self, line: str) -> str:
        """Why a line of Python does not run in here, in one line; empty where it does."""
        result = subprocess.run(
            [str(self.location() / "bin" / "python"), "-c", line],
            capture_output=True, text=True, cwd=self.location(), env=os.environ | dict(self.settings),
        )  # fmt: skip
        return "" if result.returncode == 0 else (result.stderr.strip().splitlines() or ["?"])[-1]

    def _stamp(self) -> Path:
        return self.location() / f"pdlab-{self.name}.json"

    def _site(self) -> Path | None:
        return next(self.location().glob("lib/python3.*/site-packages"), None)

    def _python_version(self) -> dict[str, str]:
        config = self.location() / "pyvenv.cfg"
        lines = config.read_text().splitlines() if config.exists() else []
        return {"python": line.partition("=")[2].strip() for line in lines if line.startswith("version")}


def _version(interpreter: str) -> tuple[int, int]:
    if interpreter == sys.executable:
        return sys.version_info[:2]
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        said = subprocess.run([interpreter, "-c", ask], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallFailed(f"{interpreter} does not run: {error}") from None
    major, minor = map(int, said.split())
    return major, minor


def run(command: list[str]) -> None:
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
