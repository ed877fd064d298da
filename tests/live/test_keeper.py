"""The keeper: a held process never outlives the program that asked for it."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pdlab.live import keeper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="servers run on Linux only")

# a server that ignores SIGTERM, with a child that has left its process group
STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "subprocess.Popen(['sleep', '300'], start_new_session=True); "
    "print('up', file=sys.stderr, flush=True); time.sleep(300)"
)
# A test run in the background ignores Ctrl-C, and so would what it starts.
ASKER = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
keeper = subprocess.Popen([sys.executable, '-I', '-S', {keeper!r}, '', '--', sys.executable, '-c', {server!r}],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(keeper.pid, keeper.stdout.readline().strip(), flush=True)
input()
raise RuntimeError('something went wrong in the program')
"""


def hold(*command: str, cores: str = "") -> tuple[subprocess.Popen, psutil.Process]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", keeper.__file__, cores, "--", *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, psutil.Process(int(process.stdout.readline()))


def gone(pids: list[int], within_s: float = 10) -> bool:
    until = time.monotonic() + within_s
    while (left := any(map(runs, pids))) and time.monotonic() < until:
        time.sleep(0.02)
    return not left


def runs(pid: int) -> bool:
    """Whether it is there and not only waiting for a slow parent to take note of its end."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tree_of(pid: int) -> list[int]:
    process = psutil.Process(pid)
    until = time.monotonic() + 10
    while len(process.children(recursive=True)) < 2:  # the server and its child
        assert time.monotonic() < until, "the server's child did not start"
        time.sleep(0.02)
    return [pid, *(child.pid for child in process.children(recursive=True))]


def test_closing_the_pipe_ends_server_and_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed pipe ends a server and a grandchild that left its group."""
    process, _ = hold(sys.executable, "-c", STUBBORN.replace("signal.SIG_IGN", "signal.SIG_DFL"))
    pids = tree_of(process.pid)
    process.stdin.close()
    process.wait(10)
    assert gone(pids)


def test_what_a_server_leaves_in_its_folder_of_sockets_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM never unlinks its sockets: the folder that it puts them in is gone after the server."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    leave = "import os, socket, time; socket.socket(socket.AF_UNIX).bind(os.environ['VLLM_RPC_BASE_PATH'] + '/a'); time.sleep(300)"
    process, _ = hold(sys.executable, "-c", leave)
    until = time.monotonic() + 10
    while not (left := list(tmp_path.glob("*/a"))) and time.monotonic() < until:
        time.sleep(0.02)
    assert [path.is_socket() for path in left] == [True]
    process.stdin.close()
    process.wait(10)
    assert not list(tmp_path.iterdir())


def test_what_openmp_registered_for_a_killed_server_goes_with_it() -> None:
    """A killed process leaves its file in shared memory: the keeper removes it, for a child of the server as well."""
    register = "import os, time; open(f'{OPENMP}{os.getpid()}_{os.getuid()}', 'w').close(); os.fork(); open(f'{OPENMP}{os.getpid()}_{os.getuid()}', 'w').close(); time.sleep(300)"
    process, server = hold(sys.executable, "-c", register.replace("{OPENMP}", keeper.OPENMP))
    pids = tree_of(process.pid)[1:]
    files = [Path(f"{keeper.OPENMP}{pid}_{os.getuid()}") for pid in pids]
    until = time.monotonic() + 10
    while not all(file.exists() for file in files) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(files) == 2 and all(file.exists() for file in files)
    server.kill()
    process.wait(10)
    assert not any(file.exists() for file in files)


SHARING = """
import mmap, multiprocessing, os, signal, sys, time
from multiprocessing import resource_tracker
lock = multiprocessing.get_context("spawn").Lock()
os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)  # else it might tidy up itself
files = [os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:]]
maps = [os.truncate(file, 8) or mmap.mmap(file, 8) for file in files]
print("/dev/shm/sem." + lock._semlock.name[1:], file=sys.stderr, flush=True)
time.sleep(300)
"""


def test_python_semaphores_of_a_killed_server_go_and_what_others_have_mapped_stays(tmp_path: Path) -> None:
    """Semaphores and shared memory that only the ended processes had mapped are removed; a name that somebody else holds, or that none of them mapped, is not."""
    ours, others, strange = (Path(f"/dev/shm/psm_{os.getpid()}{name}") for name in "abc")
    others.write_bytes(bytes(8))
    strange.touch()
    try:
        with others.open("r+b") as file, mmap.mmap(file.fileno(), 8):
            process, _ = hold(sys.executable, "-c", SHARING, str(ours), str(others))
            semaphore = Path(process.stderr.readline().strip())
            assert semaphore.name.startswith("sem.mp-") and semaphore.exists() and ours.exists()
            process.stdin.write("k")
            process.stdin.close()
            process.wait(10)
            assert [path.exists() for path in (semaphore, ours, others, strange)] == [False, False, True, True]
    finally:
        for path in (ours, others, strange):
            path.unlink(missing_ok=True)


TRACKED = """
import os, subprocess, sys
tracker = "import os, sys, time; sys.stdin.read(); time.sleep(0.3); os.unlink(sys.argv[1])  # multiprocessing.resource_tracker"
subprocess.Popen([sys.executable, "-c", tracker, sys.argv[1]], stdin=subprocess.PIPE)
os._exit(3)
"""


def test_pythons_tracker_may_finish(tmp_path: Path) -> None:
    """A server that died by itself leaves Python's resource tracker, which removes what it shared: it is not killed at that."""
    shared = tmp_path / "shared"
    shared.touch()
    process, _ = hold(sys.executable, "-c", TRACKED, str(shared))
    assert process.wait(20) == 3
    assert not shared.exists()


def test_one_byte_ends_it_without_grace() -> None:
    """The byte k ends a server that ignores SIGTERM at once."""
    process, server = hold(sys.executable, "-c", STUBBORN)
    pids = tree_of(process.pid)
    began = time.monotonic()
    process.stdin.write("k")
    process.stdin.close()
    process.wait(10)
    assert time.monotonic() - began < keeper.GRACE_S / 2
    assert gone(pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_death_of_the_asking_program_ends_the_server(number: signal.Signals) -> None:
    """kill -9, SIGTERM and Ctrl-C of the asking program leave no process."""
    server = STUBBORN.replace("signal.SIG_IGN", "signal.SIG_DFL")
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER.format(keeper=keeper.__file__, server=server)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    held_by, _ = map(int, asker.stdout.readline().split())
    pids = tree_of(held_by)
    asker.send_signal(number)
    asker.wait(10)
    assert gone(pids)


def test_an_exception_in_the_asking_program_ends_the_server() -> None:
    """A program that dies of an exception leaves no process."""
    server = STUBBORN.replace("signal.SIG_IGN", "signal.SIG_DFL")
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER.format(keeper=keeper.__file__, server=server)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    pids = tree_of(int(asker.stdout.readline().split()[0]))
    asker.communicate("\n", timeout=10)
    assert asker.returncode == 1
    assert gone(pids)


def test_the_death_of_the_keeper_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the keeper itself be killed, the kernel kills its server."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what it leaves then, nobody takes away
    process, server = hold("sleep", "300")
    process.kill()
    process.wait()
    assert gone([server.pid])


def test_a_server_that_ends_gives_its_status(tmp_path: Path) -> None:
    """The keeper ends with the server's status; 128 + signal where one ended it."""
    os.mkfifo(leave := tmp_path / "leave")
    process, _ = hold("sh", "-c", f"read word <'{leave}'; exit 7")
    leave.write_text("now\n")
    assert process.wait(10) == 7
    process, server = hold("sleep", "300")
    server.send_signal(signal.SIGKILL)
    assert process.wait(10) == 128 + signal.SIGKILL


def test_the_server_runs_on_its_cores_and_leads_its_group() -> None:
    """The server gets the cores it was dealt, ordinary signals, and a group of its own."""
    core = min(os.sched_getaffinity(0))
    process, server = hold("sleep", "300", cores=str(core))
    assert server.cpu_affinity() == [core]
    assert os.getpgid(server.pid) == server.pid
    ignored = int(next(
        line.split()[1] for line in Path(f"/proc/{server.pid}/status").read_text().splitlines()
        if line.startswith("SigIgn")
    ), 16)  # fmt: skip
    assert not ignored & (1 << signal.SIGTERM - 1 | 1 << signal.SIGINT - 1)
    process.stdin.close()
    process.wait(10)
