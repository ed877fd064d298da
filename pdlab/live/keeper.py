"""Hold one server, and let none outlive the program that asked for it.

Run as a script: ``python keeper.py CORES -- COMMAND …`` with a pipe on standard input.
The asking program keeps the pipe's other end open.  When that end closes, for whatever reason
(a normal stop, an exception, Ctrl-C, SIGTERM, even ``kill -9``), the keeper ends the server and
everything the server started.  Standard library only, so that it starts in a few milliseconds.

vLLM leaves its sockets lying in the folder for temporary files; here they get one of their own,
which goes when the server has gone.  What OpenMP, and Python for several processes, keep in shared
memory goes, too, when what made it was killed.  One small file a start stays in the folder for
temporary files, ``vllm_dist_…``: it names no process, and a folder of the server's own would part it
from what servers share there, torch's compiled kernels and the locks under which models are fetched.

It prints the server's process id on its first line and ends with the server's exit status
(128 + signal, as shells do).  One byte ``k`` on the pipe asks for an end without grace.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SHM = "/dev/shm/"
OPENMP = SHM + "__KMP_REGISTERED_LIB_"  # then the process id, _ and the user's
PYTHONS = ("sem.mp-", "psm_")  # semaphores and memory of several processes; then chance letters
TRACKER, TRACKER_S = b"multiprocessing.resource_tracker", 5.0  # Python's own: removes what dead processes shared, and ends
GRACE_S = 6.0  # a server that drains on SIGTERM gets this long
SOCKETS = "VLLM_RPC_BASE_PATH"  # where vLLM puts its sockets; their paths may have some 100 characters, so a short name


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the pipe alone does the work."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def _in_server() -> None:
    """Between fork and exec: ordinary signals again, and a second string to the bow."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should the keeper itself be killed


def _group_nice(pid: int) -> None:
    """Let the keeper's niceness hold between sessions too.

    Linux's autogroups share the processor equally between sessions, whatever the processes in
    them are niced to; the server leads a session of its own.
    """
    try:
        with open(f"/proc/{pid}/autogroup", "w") as group:
            group.write(str(os.nice(0)))
    except OSError:  # no autogroups here, or no right to raise a priority
        pass


def children(pid: int) -> list[int]:
    """All descendants of ``pid`` that are still there, nearest first."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as listing:
                found += [int(child) for child in listing.read().split()]
        except FileNotFoundError:
            continue
    for child in list(found):
        try:
            found += children(child)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def _unregister(pids: set[int]) -> None:
    """Remove what OpenMP has registered for processes that could not do so themselves."""
    for pid in pids:
        try:
            os.unlink(f"{OPENMP}{pid}_{os.getuid()}")
        except OSError:
            pass


def mapped_by(pids: Iterable[int]) -> set[int]:
    """What these processes have mapped of shared memory, as inodes: who makes a semaphore maps it under another name first."""
    found: set[int] = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/maps", errors="replace") as maps:
                found.update(int(line.split(None, 5)[4]) for line in maps if SHM in line)
        except OSError:  # it has gone, or is somebody else's
            pass
    return found


def unlink(mapped: set[int]) -> None:
    """Remove what Python has named of that, if it is ours and nobody has it mapped any more."""
    try:
        with os.scandir(SHM) as entries:
            left = [one for one in entries if one.name.startswith(PYTHONS) and one.inode() in mapped]
    except OSError:  # no such folder here
        return
    held = mapped_by(int(pid) for pid in os.listdir("/proc") if pid.isdigit()) if left else set()
    for one in left:
        try:
            if one.inode() not in held and one.stat().st_uid == os.getuid():
                os.unlink(one.path)
        except OSError:  # it went meanwhile
            pass


def _tracks(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            told = words.read()
        return TRACKER in told or not told  # no words: it is just becoming another program, or has ended
    except OSError:  # it has gone
        return False


def _end(server: subprocess.Popen, grace_s: float) -> None:
    """SIGTERM to the server, then SIGKILL to whatever is left below the keeper."""
    seen = {server.pid, *children(os.getpid())}
    mapped = mapped_by(seen)
    if server.poll() is None and grace_s > 0:
        _signal_all([server.pid], signal.SIGCONT)  # a stopped server can't act on SIGTERM
        _signal_all([server.pid], signal.SIGTERM)
        try:
            server.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
    until = time.monotonic() + TRACKER_S
    while left := children(os.getpid()):  # orphans come to the keeper: it is their subreaper
        mapped |= mapped_by(left)
        _signal_all([pid for pid in left if time.monotonic() > until or not _tracks(pid)], signal.SIGKILL)
        seen.update(left)
        server.poll()
        for pid in left:
            try:
                if pid != server.pid:
                    os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # a grandchild: its parent is still to go
                pass
        time.sleep(0.01)
    _unregister(seen)
    unlink(mapped)


def main(arguments: list[str]) -> int:
    """Start the command, wait for its end or the asking program's, leave nothing behind."""
    cores, separator, *command = arguments
    assert separator == "--" and command, __doc__
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the asking program's business
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    sockets = tempfile.mkdtemp(prefix="pdlab-")
    try:
        return _hold(command, os.environ | {SOCKETS: sockets})
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def _hold(command: list[str], environment: dict[str, str]) -> int:
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        env=environment,
        start_new_session=True,
        preexec_fn=_in_server,
    )
    _group_nice(server.pid)
    print(server.pid, flush=True)
    sys.stdout.close()
    grace_s = 0.0
    exited = os.pidfd_open(server.pid)
    ready, _, _ = select.select([0, exited], [], [])
    if 0 in ready:
        grace_s = 0.0 if os.read(0, 1) == b"k" else GRACE_S
    _end(server, grace_s)
    status = server.wait() if server.returncode is None else server.returncode
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
