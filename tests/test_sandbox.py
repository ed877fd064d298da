"""What a confined process can read of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pdlab.course import cli, grade, grade_sandbox

LOOK = """
import os, pathlib, sys
from pdlab.course import grade_sandbox
grade_sandbox.confine(grade_sandbox.readable(), ["/dev/null"])
assert pathlib.Path("/proc/self/status").read_text() and pathlib.Path("/proc/meminfo").read_text() and os.cpu_count()
for name in ("environ", "cmdline", "maps"):
    try:
        print(pathlib.Path(f"/proc/{os.getppid()}/{name}").read_bytes())
    except PermissionError:
        pass
"""


@pytest.mark.skipif(not grade_sandbox.landlock_version(), reason="no Landlock here")
def test_the_graders_surroundings_are_not_read():
    """A graded notebook sees its own process and the machine, not the environment of the process above it."""
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_judging_process_gets_no_secret(monkeypatch):
    """It runs with what it needs of the environment and no more."""
    monkeypatch.setenv("A_TOKEN_OF_MINE", "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    own = grade._own_environment()
    assert "A_TOKEN_OF_MINE" not in own and own["LC_ALL"] == "C.UTF-8" and own["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_a_grader_that_is_ended_tidies_up(ending, monkeypatch, capsys):
    """It ends as on Ctrl-C: what it holds is released on the way."""
    tidied = []

    def graded(*_):
        try:
            os.kill(os.getpid(), ending)
            time.sleep(5)
        finally:
            tidied.append(1)

    monkeypatch.setattr(grade, "grade", graded)
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    for one in before:
        signal.signal(one, signal.SIG_DFL)
    try:
        assert cli.main(["grade", "x.ipynb"]) == cli.INTERRUPTED
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert tidied and capsys.readouterr().err == "pdlab grade: interrupted\n"


@pytest.mark.parametrize(
    ("payload", "leaves"),
    [([{"source": "ask_exit", "keepkernel": False}], True), ([{"source": "ask_exit", "keepkernel": True}], False),
     ([{"source": "page"}, "x"], False), ([], False), (None, False)],
)  # fmt: skip
def test_a_cell_that_quits_is_told_by_its_reply(payload, leaves):
    """quit() ends the kernel a moment after the cell; the reply says so, so that no later cell is blamed."""
    from pdlab.course import grade_run

    assert grade_run._leaves({"content": {"payload": payload}}) is leaves
