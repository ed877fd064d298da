"""Start a notebook kernel that can harm little: limits first, then the kernel in the same process.

Runs as ``python -m pdlab.course.grade_sandbox -f CONNECTION_FILE`` with its limits as JSON in the
environment.  Resource limits hold everywhere.  On Linux, Landlock (no root needed) also closes the
file system except for the listed folders, outgoing TCP, and signals to other processes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Iterable
from pathlib import Path

LIMITS = "PDLAB_SANDBOX"  # JSON: read, write (folders), memory_bytes, file_bytes, cpu_s

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1
_NO_NEW_PRIVS = 38
# Rights in the order of their bits; each Landlock version knows a longer list.
_RIGHTS = (
    "execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir", "make_reg",
    "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev",
)  # fmt: skip
_KNOWN_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_ALL_RIGHTS_FROM = 5
_FOR_FILES = {"execute", "write_file", "read_file", "truncate", "ioctl_dev"}
_TO_READ = {"execute", "read_file", "read_dir"}
_CONNECT_TCP, _SCOPE_SOCKETS_AND_SIGNALS = 0b10, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _layout_ = "ms"  # what _pack_ has always meant; from Python 3.14 on it has to be said
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("fd", ctypes.c_int32)]


def landlock_version() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def contained() -> list[str]:
    """What a graded notebook is kept from on this machine, in words."""
    version = landlock_version()
    kept = ["time", "memory", "size of files"]
    if version:
        kept.append("files outside its temporary copy")
    if version >= 4:
        kept.append("outgoing TCP connections")
    if version >= 6:
        kept.append("signals to other processes")
    return kept


def limit(memory_bytes: int, file_bytes: int, cpu_s: int) -> None:
    """Bound this process and its children; what they try beyond fails in them alone."""
    for what, most in (
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def confine(read: Iterable[str], write: Iterable[str]) -> bool:
    """Close the file system but for these folders; False where the kernel has no Landlock."""
    version = landlock_version()
    if not version:
        return False
    known = _RIGHTS[: _KNOWN_RIGHTS.get(min(version, _ALL_RIGHTS_FROM), len(_RIGHTS))]
    libc = ctypes.CDLL(None, use_errno=True)
    rules = _Ruleset(
        _bits(known), _CONNECT_TCP if version >= 4 else 0, _SCOPE_SOCKETS_AND_SIGNALS if version >= 6 else 0
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    for folders, rights in ((read, _TO_READ), (write, set(known))):
        for folder in folders:
            _allow(libc, ruleset, folder, [r for r in known if r in rights])
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)
    return True


def _allow(libc: ctypes.CDLL, ruleset: int, folder: str, rights: list[str]) -> None:
    try:
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a system folder that this machine does not have
        return
    if not os.path.isdir(folder):
        rights = [r for r in rights if r in _FOR_FILES]
    rule = _PathBeneath(_bits(rights), place)
    if libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
        raise OSError(ctypes.get_errno(), f"landlock_add_rule for {folder}")
    os.close(place)


def _bits(rights: Iterable[str]) -> int:
    return sum(1 << _RIGHTS.index(right) for right in rights)


def readable() -> list[str]:
    """Folders that Python and its libraries have to read, on this machine."""
    system = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/sys/devices/system", "/dev/zero", "/dev/random", "/dev/urandom"]
    # Of /proc the machine and the kernel itself: the surroundings of the grader may hold secrets.
    system += [f"/proc/{name}" for name in ("self", "cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "sys")]
    python = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent), str(Path(os.__file__).parent)}
    return [*system, *sorted(python)]


def main() -> None:
    """Limit and confine this process, then be an IPython kernel."""
    limits = json.loads(os.environ.pop(LIMITS))
    limit(limits["memory_bytes"], limits["file_bytes"], limits["cpu_s"])
    confine([*readable(), *limits["read"]], [*limits["write"], "/dev/null"])
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(argv=[*sys.argv[1:], "--HistoryManager.enabled=False", "--quiet"])


if __name__ == "__main__":
    main()
