"""``subprocess.Popen`` for the project's own programs: real processes, without the imports of each.

``popen([sys.executable, "-m", MODULE, …])`` runs the module's ``main(arguments)`` in a process forked
from one that has imported it already (``pdlab.course.warm``).  ``mock.patch.object(module, "subprocess",
forked)`` lets a module of the project start its programs so.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE, TimeoutExpired

from pdlab.course.warm import Child, Warm

__all__ = ["DEVNULL", "PIPE", "TimeoutExpired", "popen", "Popen"]
HERE = Path(__file__).resolve().parent
PROGRAMS = ("pdlab.live.router", "fake_deployment", "pdlab.live.sweep")


_warm: list[Warm] = []


def popen(command: list[str], *, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None, text: bool = False) -> Child:
    """Start one of PROGRAMS; each of the three is None (this process's own), DEVNULL or PIPE (not for stderr)."""
    if not _warm:
        path = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        _warm.append(Warm(PROGRAMS, os.environ | {"PYTHONPATH": path}))
        atexit.register(_warm[0].__exit__)
    interpreter, flag, module, *arguments = command
    assert (interpreter, flag) == (sys.executable, "-m") and module in PROGRAMS, command
    theirs, ours = [], {}
    for number, (name, wanted) in enumerate({"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()):
        if wanted == PIPE:
            reading, writing = os.pipe()
            theirs.append(reading if name == "stdin" else writing)
            ours[name] = open(*((writing, "w") if name == "stdin" else (reading, "r")) if text else ((writing, "wb") if name == "stdin" else (reading, "rb")))
        else:
            theirs.append(os.open(os.devnull, os.O_RDWR) if wanted == DEVNULL else os.dup(number))
    try:
        child = _warm[0].start(f"{module}:main", arguments, fds=theirs)
    finally:
        for fd in theirs:
            os.close(fd)
    for name, file in ours.items():
        setattr(child, name, file)
    return child


Popen = popen
