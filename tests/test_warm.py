"""Programs forked from a warm process: what they are given, how they end, and what is left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pdlab.course.warm import Child, Warm


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm(["timeit"]) as made:
        yield made


def run(warm: Warm, code: str, output: Path, **options: object) -> Child:
    """Start some Python code, whose standard output goes to a file."""
    with open(os.devnull, "rb") as nothing, output.open("wb") as file:
        fds = [nothing.fileno(), file.fileno(), 2]
        return warm.start("timeit:main", ["-n1", "-r1", code], fds=fds, **options)


def test_a_child_has_its_own_surroundings_and_no_other_descriptor(warm: Warm, tmp_path: Path) -> None:
    """Arguments, folder, environment, session and output are the child's own; it holds 0, 1 and 2 alone."""
    child = run(warm, "import os; print(os.getcwd(), os.environ['MINE'], os.getsid(0), sorted(os.listdir('/dev/fd'))[:3], len(os.listdir('/dev/fd')))",
                tmp_path / "out", cwd=tmp_path, env={"MINE": "yes"}, new_session=True)  # fmt: skip
    assert child.wait(20) == 0
    assert (tmp_path / "out").read_text().splitlines()[0] == f"{tmp_path} yes {child.pid} ['0', '1', '2'] 4"  # the fourth is that listing's


def test_its_exit_status_is_what_its_function_returns(warm: Warm) -> None:
    """The status of a child is its function's result, once it is there."""
    assert warm.start("builtins:len", ["a", "b", "c"], fds=[0, 1, 2]).wait(20) == 3


def test_a_child_that_is_killed_says_so(warm: Warm, tmp_path: Path) -> None:
    """While it runs there is no status and a wait ends in time; a signal is a negative status; a second kill does no harm."""
    child = run(warm, "import time; time.sleep(60)", tmp_path / "out")
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)
    child.kill()
    assert child.wait(20) == -signal.SIGKILL == child.poll()
    child.kill()


def test_a_warm_process_that_somebody_ends_is_started_anew(tmp_path: Path) -> None:
    """Its children are ended when they are next asked for, and the next start works."""
    with Warm(["timeit"]) as warm:
        orphan = run(warm, "import time; time.sleep(60)", tmp_path / "out")
        os.kill(psutil.Process(orphan.pid).ppid(), signal.SIGKILL)
        assert orphan.wait(20) == -signal.SIGKILL
        assert warm.start("builtins:len", ["a"], fds=[0, 1, 2]).wait(20) == 1


def test_what_cannot_be_imported_is_told() -> None:
    """A module that is not there ends the warm process, and the caller is told instead of waiting."""
    with Warm(["no_such_module"]) as warm, pytest.raises(RuntimeError, match="no_such_module"):
        warm.start("builtins:len", fds=[0, 1, 2])
