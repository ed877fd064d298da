"""The link between two machines: how the two ends agree, and what a minimum does.  NIXL is scripted here."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdlab.course import cli, exercises
from pdlab.errors import BadInput
from pdlab.live import link, link_hosts, link_record
from pdlab.live.env import ROOT

OWNER = "import sys; print('{\"metadata\": \"00\", \"address\": 7}', flush=True); sys.stdin.read()"
READER = """
import json, sys
plan = json.loads(sys.stdin.readline())
assert (plan["metadata"], plan["address"]) == ("00", 7), plan
for size in [plan["sizes"][0]] + [s for s in plan["sizes"] for _ in range(plan["repeats"])]:
    print(json.dumps({"size": size, "prepare_ns": 1, "transfer_ns": size // 2}), flush=True)  # 2 GB/s
"""


def script(code: str) -> Callable[..., subprocess.Popen[str]]:
    return lambda *_, **__: subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch):
    """An end that listens on loopback, in a thread: its port, and what came of it."""
    monkeypatch.setattr(link, "owner", script(OWNER))
    monkeypatch.setattr(link, "reader", script(READER))
    ports: queue.Queue[int] = queue.Queue()
    outcome: list[Any] = []

    def serve() -> None:
        try:
            outcome.append(link_hosts.listen("127.0.0.1", 0, wait_s=10, say=lambda _, port: ports.put(port)))
        except link.LinkFailed as error:
            outcome.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    yield ports.get(timeout=10), outcome, thread
    thread.join(10)


def test_the_reader_times_what_the_other_end_holds(listener) -> None:
    """The owner holds the largest size; the report is made of the reader's own times; the listener then ends."""
    port, outcome, thread = listener
    messages, report = link_hosts.measure("127.0.0.1", port, [4096, 8192], repeats=3, wait_s=10)
    thread.join(10)
    assert outcome == [8192]
    assert [message.size_bytes for message in messages] == [4096] * 3 + [8192] * 3
    assert report.largest.gb_s == 2 and report.transport == "auto"


def test_ends_that_disagree_say_so_on_both_sides(listener) -> None:
    """Another kind of memory is refused by the owner, and the reader is told why."""
    port, outcome, thread = listener
    with pytest.raises(link.LinkFailed, match="give both ends the same --memory"):
        link_hosts.measure("127.0.0.1", port, [1, 2], repeats=3, memory="vram", wait_s=10)
    thread.join(10)
    assert "same --memory" in str(outcome[0])


def test_a_stranger_gets_nothing(listener) -> None:
    """What is no request of ours ends the measurement with a sentence, and no memory is held."""
    import socket

    port, outcome, thread = listener
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        thread.join(10)
        assert stranger.recv(100) == b""
    assert "could not be understood" in str(outcome[0])


def test_an_end_that_stays_alone_gives_up() -> None:
    """Neither end waits longer than it was told."""
    with pytest.raises(link.LinkFailed, match="nobody came to 127.0.0.1"):
        link_hosts.listen("127.0.0.1", 0, wait_s=0.05)
    with pytest.raises(link.LinkFailed, match="nobody listens at 127.0.0.1:9"):
        link_hosts.measure("127.0.0.1", 9, [1, 2], wait_s=0.05)


def test_work_that_failed_is_one_message_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The command says why nothing was measured, without a traceback."""
    assert cli.main(["link", "--peer", "127.0.0.1:9", "--wait", "0.05"]) == 1
    out, err = capsys.readouterr()
    assert not out and err.startswith("pdlab link: nobody listens at 127.0.0.1:9")


@pytest.mark.parametrize("text", ["7600", ":7600", "host", "host:", "host:70000", "host:x"])
def test_an_address_says_its_host(text: str) -> None:
    """Where to listen is never guessed: HOST:PORT or bad input."""
    with pytest.raises(BadInput, match="HOST:PORT"):
        link_hosts.address(text, "--listen")
    assert link_hosts.address("[::1]:7600", "--listen") == ("::1", 7600)


@pytest.mark.parametrize("argv", [["--peer", ""], ["--listen", ""], ["--peer", "127.0.0.1:0"], ["--sizes", ""]])
def test_an_empty_option_is_not_one_left_out(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A script whose variable is empty does not measure another link than it means."""
    assert cli.main(["link", *argv]) == 2
    assert f"{argv[0]}: found" in capsys.readouterr().err


@pytest.mark.parametrize(("least", "status"), [("2.9", 0), ("3.1", 1)])
def test_a_minimum_is_asked_of_the_largest_size(
    least: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 GB/s at the largest size pass 2.9 and fail 3.1, with one sentence; the peak elsewhere does not count."""
    messages = [link.Message(size, 1, ns) for size, ns in ((1000, 100), (3000, 1000)) for _ in range(3)]
    monkeypatch.setattr(link, "measure", lambda *_: (messages, link.report("shm", messages, 1.0)))
    assert cli.main(["link", "--at-least-gb-s", least, "--json"]) == status
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["enough"], document["at_least_gb_s"], document["peak_gb_s"]) == (status == 0, float(least), 10)
    said = "pdlab link: 3.00 GB/s at 3,000 bytes is under the minimum of 3.1 GB/s.\n"
    assert err == (said if status else "")


@pytest.mark.parametrize(("ns", "said"), [
    ((2000, 500, 2000, 8000), "at the largest size 2.00 GB/s, half of that from about 1,104 bytes on\nat most 4.00 GB/s, which may be the rate of a cache"),
    ((500, 500, 2000, 8000), "at the largest size 2.00 GB/s, half of that and more at every size\n"),
    ((4000, 3000, 3000, 8000), "half of that from about 2,828 bytes on\n"),  # 0.67 GB/s at 2,000 and 1.33 at 4,000, halfway on the log scale 1
])  # fmt: skip
def test_half_of_the_rate_is_half_of_the_largest_sizes(ns: tuple[int, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As lab L1 asks for it: a size in between that beats the largest one, from a cache, moves nothing."""
    messages = [link.Message(size, 1, one) for size, one in zip((1000, 2000, 4000, 16000), ns, strict=True) for _ in range(3)]
    monkeypatch.setattr(link, "measure", lambda *_: (messages, link.report("shm", messages, 1.0)))
    assert cli.main(["link"]) == 0
    assert said in capsys.readouterr().out


def test_the_recorded_link_keeps_raw_times_and_agrees_with_lab_l1(tmp_path: Path) -> None:
    """Its half-bandwidth size over TCP lies between the two that L1.3 expects, and the file holds nothing that follows from its times."""
    measured = link_record.read(ROOT / "data/runs/link")
    low, high = exercises.find("L1.3").expected
    assert low < measured["tcp"][1].half_bandwidth_bytes <= high
    stored = json.loads((ROOT / "data/runs/link" / link_record.LINK).read_text())
    assert link_record.document(stored["provenance"], measured) == stored and "peak_gb_s" not in str(stored)


@pytest.mark.parametrize("arguments", [
    ["--at-least-gb-s", "nan"], ["--at-least-gb-s", "0"], ["--wait", "0"], ["--listen", "7600"],
    ["--listen", "127.0.0.1:0", "--at-least-gb-s", "1"], ["--listen", "192.0.2.1:0"],
])  # fmt: skip
def test_bad_options_are_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2 with one line, before anything is measured."""
    assert cli.main(["link", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("pdlab link: --") and "expected" in err and err.count("\n") == 1
