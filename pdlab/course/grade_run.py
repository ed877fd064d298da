"""A pytest plugin: nbval runs one merged notebook in a confined kernel, and each cell is reported.

The kernel holds neither the expected values nor the stored outputs.  A check cell there only hands
the answer in; it is judged here, in this process, and what nbval compares with the course's stored
output is the feedback made here.  Results go to the parent as JSON lines over an inherited pipe.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

from pdlab.course import _quick  # isort: skip  # noqa: F401, before nbformat
import nbformat
import psutil
import pytest
import zmq
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError

from pdlab.course import answers, channels, checks, diagnose, exercises
from pdlab.course.feedback import Feedback

PIPE = 3  # the descriptor that results go to
GRACE_S = 3.0  # for a cell to end after it was interrupted
MOST_MESSAGES, MOST_OUTPUT_BYTES = 5_000, 5_000_000
MOST_PROCESSES = 64
LOOK_EVERY_S = 0.25
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
LONGEST_SOCKET = 90  # characters; a Unix socket's path has 107, and the kernel puts a number behind it


class Stopped(Exception):
    """The kernel is gone, or had to be ended; ``state`` says why."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


class _Specs(KernelSpecManager):
    """The one kernel that a graded notebook gets, whatever it asks for."""

    argv: list[str] = []

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(argv=self.argv, display_name=kernel_name, language="python")


class Kernel(RunningKernel):
    """nbval's kernel, confined, watched while it runs, and never waited for without end."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        specs = _Specs()
        specs.argv = job["argv"]
        self.km = KernelManager(kernel_name="python3", kernel_spec_manager=specs, connection_file=job["connection_file"])
        sockets = str(Path(job["connection_file"]).with_suffix(""))
        if sys.platform == "linux" and len(sockets) <= LONGEST_SOCKET:  # in its own folder: no port that another kernel might take first
            self.km.transport, self.km.ip = "ipc", sockets
        with open(os.devnull, "w") as nowhere:
            self.km.start_kernel(cwd=job["cwd"], env=job["env"], stdout=nowhere, stderr=nowhere)
        self.process = psutil.Process(self.km.provisioner.pid)
        self.km.context.sockopts[zmq.MAXMSGSIZE] = MOST_OUTPUT_BYTES  # a larger message never gets here
        self.kc = self.km.client()
        self.kc.start_channels()
        self._begin(60.0)
        self.kc.wait_for_ready(timeout=60)
        self._begin(60.0)
        self._ensure_iopub_up()

    def _begin(self, limit_s: float) -> None:
        self.deadline = time.monotonic() + limit_s
        self.waiting: deque[dict[str, Any]] = deque()
        self.messages = self.bytes = 0
        self.looked = 0.0
        self.over = ""  # "timeout" or "flood", once the cell has gone too far

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        self._begin(self.job["cell_timeout_s"])
        return super().execute_cell_input(cell_input, allow_stdin=False)

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        """The next message.  Empty when the cell's time is over; Stopped when the kernel is gone or too greedy."""
        if stream == "iopub" and self.waiting:
            return self.waiting.popleft()
        until = self.deadline + (GRACE_S if stream == "iopub" else 0.0)
        while True:
            self._look()
            if time.monotonic() >= until:
                self.over = self.over or "timeout"
                raise Empty
            if stream == "shell":
                self._drain()
            try:
                message = channels.message(self.kc, stream, 0.05)
            except Empty:
                continue
            if stream == "shell" and _leaves(message):
                self.end("died")  # a moment later it would have ended by itself, in the middle of the next cell
            if stream == "shell" or self._fits(message):
                return message

    def _drain(self) -> None:
        """Take what a cell shows while it runs, so that a flood is noticed while it rises."""
        while True:
            try:
                message = channels.message(self.kc, "iopub", 0)
            except Empty:
                return
            if self._fits(message):
                self.waiting.append(message)

    def _fits(self, message: dict[str, Any]) -> bool:
        """Whether an output is still kept; a flood of them is dropped, and its kernel ended."""
        if message["msg_type"] not in ("stream", "display_data", "execute_result"):
            return True
        self.messages += 1
        self.bytes += len(str(message["content"]))
        if self.messages > 2 * MOST_MESSAGES or self.bytes > 2 * MOST_OUTPUT_BYTES:
            self.end("flood")
        if self.messages <= MOST_MESSAGES and self.bytes <= MOST_OUTPUT_BYTES:
            return True
        self.over = "flood"
        return False

    def _look(self) -> None:
        """Every quarter of a second: is the kernel there, and do it and its children stay in bounds?"""
        if time.monotonic() - self.looked < LOOK_EVERY_S or not hasattr(self, "km"):
            return
        self.looked = time.monotonic()
        if not self.is_alive():
            raise Stopped("died")
        try:
            family = [self.process, *self.process.children(recursive=True)]
            used = sum(member.memory_info().rss for member in family)
        except psutil.Error:
            return
        if len(family) > MOST_PROCESSES:
            self.end("processes")
        if used > self.job["memory_bytes"]:
            self.end("memory")

    def end(self, state: str) -> None:
        """End the kernel for going too far."""
        self.km.shutdown_kernel(now=True)
        raise Stopped(state)

    def run_quietly(self, source: str) -> None:
        """Run code whose outcome is not reported."""
        message_id = self.execute_cell_input(source)
        self.await_reply(message_id, timeout=self.job["cell_timeout_s"])
        self.await_idle(message_id, GRACE_S)

    def stop(self) -> None:
        if hasattr(self, "km"):
            super().stop()


def _leaves(reply: dict[str, Any]) -> bool:
    """Whether a cell asked its kernel to end: quit(), exit()."""
    asked = reply["content"].get("payload") or []
    return any(isinstance(one, dict) and one.get("source") == "ask_exit" and not one.get("keepkernel") for one in asked)


class Notebook(IPyNbFile):
    """The merged notebook; its kernel is the confined one."""

    def setup(self) -> None:
        self.setup_sanitize_files()
        self.kernel = Kernel(job())

    def get_kernel_message(self, timeout: float | None = None, stream: str = "iopub") -> dict[str, Any]:
        return self.kernel.get_message(stream, timeout)

    def teardown(self) -> None:
        if self.kernel is not None:
            self.kernel.stop()


_job: dict[str, Any] = {}


def job() -> dict[str, Any]:
    """What to run, as the parent wrote it."""
    if not _job:
        _job.update(json.loads(Path(os.environ[checks.JOB]).read_text(encoding="utf-8")))
    return _job


def pytest_configure(config: pytest.Config) -> None:
    """Bound each cell, and become the parent of whatever a notebook leaves running."""
    config.option.nbval_cell_timeout = job()["cell_timeout_s"]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Whoever asked for this run may be killed: then it ends as on Ctrl-C, and takes the notebook's processes along.
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGINT, 0, 0, 0)


def pytest_unconfigure() -> None:
    """End what a notebook left running."""
    for left in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            left.kill()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Put the confined notebook in the place of nbval's."""
    found = yield
    return [Notebook.from_parent(parent, path=file_path) if type(node) is IPyNbFile else node for node in found]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tie each cell to its part in the merge, and let check cells be compared with feedback made here."""
    cells = {cell["key"]: cell for cell in job()["cells"]}
    for item in items:
        item.part = cells[item.cell.id]
        item.feedback = None
        item.stopped = ""
        if item.part["role"] == "check":
            item.compare_outputs = partial(_compare, item, item.compare_outputs)


def _compare(item: IPyNbCell, compare: Any, shown: list[Any], stored: list[Any]) -> bool:
    """nbval's comparison, of the feedback on the answer handed in against the course's stored feedback."""
    exercise = item.part["exercise"]
    item.feedback = _judge(exercise, shown)
    made = nbformat.v4.new_output(
        "display_data", {"text/plain": item.feedback.text, "text/html": item.feedback.html}
    )
    theirs = [o for o in stored if str(o.get("data", {}).get("text/plain", "")).startswith(f"{exercise} ")]
    return compare([made], theirs)


def _judge(exercise_id: str, shown: list[Any]) -> Feedback:
    """The feedback on the answer that a check cell handed in."""
    sent = [o["metadata"][checks.CHANNEL] for o in shown if checks.CHANNEL in o.get("metadata", {})]
    try:
        plain = answers.decode(next(s["answer"] for s in reversed(sent) if s["id"] == exercise_id))
        return diagnose.diagnose(exercises.find(exercise_id), plain)
    except StopIteration:
        says = "its check handed nothing in; `check` or what it rests on was replaced in this notebook"
    except Exception as error:  # it comes from a process that the learner's code ran in
        says = f"what its check handed in cannot be read ({error}); `check` or what it rests on was replaced"
    return Feedback(exercise_id, "not yet", "check-replaced", says)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """After each cell: report it, go on where the kernel can, stop where it cannot."""
    report = yield
    if call.when == "setup" and call.excinfo:
        item.session.shouldstop = "no kernel"
    if call.when == "call":
        item.parent.timed_out = False  # nbval would expect every later cell to fail
        state, error = _state(call.excinfo, item)
        kernel = item.parent.kernel
        alive = kernel.is_alive()
        wrong = item.feedback is None or item.feedback.outcome != "correct"
        if item.part["role"] == "check" and wrong and alive:
            alive = _carry_on(item, kernel)
        _report(item, state, error, alive, report.outcome == "passed", call.duration)
        if not alive:
            item.session.shouldstop = "the kernel is gone"
    return report


def _state(excinfo: Any, item: pytest.Item) -> tuple[str, list[str]]:
    """How a cell ended, and the error that it raised."""
    raised = next(([o["ename"], o["evalue"]] for o in item.test_outputs or [] if o.output_type == "error"), [])
    if excinfo is None:
        return item.parent.kernel.over or "ok", raised
    value = excinfo.value
    if isinstance(value, Stopped):
        return value.state, raised
    if item.parent.kernel.over:
        return item.parent.kernel.over, []
    if isinstance(value, NbCellError):
        return ("error", raised) if raised else ("differs", [])
    if isinstance(value, pytest.skip.Exception):
        return "skipped", []
    return "died", [type(value).__name__, str(value)]


def _carry_on(item: pytest.Item, kernel: Kernel) -> bool:
    """After an answer that is not right, run the course's own, so that later exercises do not suffer from it."""
    reference = next(c["reference"] for c in job()["cells"] if c["role"] == "answer" and c["exercise"] == item.part["exercise"])
    try:
        kernel.run_quietly(reference)
    except (Stopped, Empty, RuntimeError):
        kernel.stop()
        return False
    return True


def _report(item: pytest.Item, state: str, error: list[str], alive: bool, green: bool, seconds: float) -> None:
    line = {
        "key": item.part["key"],
        "role": item.part["role"],
        "exercise": item.part["exercise"],
        "state": state,
        "error": [part[:300] for part in error],
        "alive": alive,
        "green": green,
        "seconds": round(seconds, 3),
        "feedback": item.feedback and vars(item.feedback),
    }
    os.write(PIPE, json.dumps(line).encode() + b"\n")


def main(_: list[str]) -> int:
    """Run the merged notebook in the current folder; the grader calls this in a process of its own."""
    own = ["-p", "nbval.plugin", "-p", "pdlab.course.grade_run", "-p", "no:cacheprovider"]
    return pytest.main([*own, "--nbval", "-q", "--tb=no", "merged.ipynb"])
