"""``pdlab serve``: from ready, through a request, to Ctrl-C; and how the wait for a server ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from pdlab.live.env import ROOT
from pdlab.live.serve import Deployment, ServerFailed, wait_ready
from tests.live.live_pair import complete, prompts

PLAN = ROOT / "data/plans/miniature-2core.yaml"
# A test run in the background ignores Ctrl-C, and so would what it starts.
COMMAND = """
import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)
from pdlab.course.cli import main
sys.exit(main(sys.argv[1:]))
"""


def ended(name: str) -> str:
    return f"the log of {name}"


def never() -> bool:
    return False


def test_a_process_that_ends_while_it_is_waited_for_is_named() -> None:
    """The wait does not outlast the process, and tells its status and its log."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(7)"])
    with process, pytest.raises(ServerFailed, match="decode-0 ended with status 7 before it was ready; the log of decode-0"):
        wait_ready(never, {"decode-0": process}, time.monotonic() + 30, lambda: "too late", ended, every_s=0.01)


def test_the_wait_ends_at_its_deadline_or_as_soon_as_it_can() -> None:
    """At the deadline the reason is told; a ready server is waited for no longer."""
    with pytest.raises(ServerFailed, match="too late"):
        wait_ready(never, {}, time.monotonic() + 0.05, lambda: "too late", ended, every_s=0.01)
    answers = iter([False, True])
    wait_ready(lambda: next(answers), {}, time.monotonic() + 30, lambda: "too late", ended, every_s=0.01)
    assert next(answers, None) is None


def test_a_router_that_ends_ends_the_wait() -> None:
    """Servers without their router are not held up in silence."""
    router = subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(3)"], text=True)
    with router, pytest.raises(ServerFailed, match="the router has ended with status 3"):
        Deployment.wait(SimpleNamespace(servers=[]), router)  # type: ignore[arg-type]


@pytest.mark.live
@pytest.mark.parametrize("design", ["aggregated", "disaggregated"])
def test_serve_holds_servers_up_until_ctrl_c(design: str, tmp_path: Path) -> None:
    """It says ready with its URL, answers through the router, and Ctrl-C leaves no process and status 0."""
    held = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "serve", str(PLAN), "--design", design, "--model", "tiny", "--json",
         "--logs", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        lines = []
        for line in held.stdout:  # type: ignore[union-attr]
            lines.append(line)
            if line == "}\n":
                break
        told = json.loads("".join(lines))
        roles = [server["name"] for server in told["servers"]]
        assert roles == (["aggregated-0", "aggregated-1"] if design == "aggregated" else ["prefill-0", "decode-0"])
        prompt = prompts(f"pdlab serve {design}")[500]
        assert complete(told["url"], prompt)["usage"]["prompt_tokens"] == 500
        (entry,) = [json.loads(line) for line in (tmp_path / "router.jsonl").read_text().splitlines()]
        assert entry["decode"] and bool(entry["prefill"]) is (design == "disaggregated")
        tree = psutil.Process(held.pid).children(recursive=True)
        assert {int(server["pid"]) for server in told["servers"]} < {process.pid for process in tree}
        os.killpg(held.pid, signal.SIGINT)  # as a terminal does: the router gets it, too
        assert held.wait(60) == 0
        _, left = psutil.wait_procs(tree, timeout=1)
        assert left == []
        assert "Traceback" not in held.stderr.read()  # type: ignore[union-attr]
    finally:
        if held.poll() is None:
            held.kill()  # its keepers end the servers
        held.communicate()
