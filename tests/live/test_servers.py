"""Real servers, aggregated and disaggregated over NIXL, on the model ``tiny``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from pdlab.live import budget, ledger, link, models, nixl_plugin
from pdlab.live.serve import Deployment, ServerFailed, Spec
from pdlab.theory import kv
from tests.live.live_pair import COMMON, PROMPT_LENGTHS, Up, complete, prompts

pytestmark = pytest.mark.live

BY_SOURCE = "vllm:prompt_tokens_by_source_total"
NIXL_BYTES = "vllm:nixl_bytes_transferred_sum"
KV_USE = "vllm:kv_cache_usage_perc"
CONFIG = "config.json"

ASKER = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)  # a background run ignores it
import sys
from pdlab.live.serve import Deployment, Spec
with Deployment(Spec("tiny", units=1, kv_cache_bytes=1 << 27), sys.argv[1]) as up:
    print(up.servers[0].pid, up.servers[0].base_url, flush=True)
    input()
"""


def tree(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def gone(pids: list[int], within_s: float = 20) -> bool:
    until = time.monotonic() + within_s
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    return not any(map(psutil.pid_exists, pids))


def listening(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def test_greedy_answers_are_equal(aggregated_answers: dict[int, list[int]], pair: Up) -> None:
    """In float32, prefill and decode apart give the same greedy tokens as one replica."""
    assert all(len(answer) == 24 for answer in aggregated_answers.values())
    apart = {
        length: complete(pair.url, prompt)["choices"][0]["token_ids"]
        for length, prompt in prompts("equal").items()
    }
    assert apart == aggregated_answers


def test_decode_gets_every_prompt_token_and_exactly_the_formulas_bytes(pair: Up) -> None:
    """Decode computes no prompt token itself; NIXL moves whole blocks, to the byte."""
    decode = pair.deployment.decode[0]
    before = decode.metrics()
    for prompt in prompts("bytes").values():
        complete(pair.url, prompt)
    after = decode.metrics()
    sources = {
        source: after.total(BY_SOURCE, source=source) - before.total(BY_SOURCE, source=source)
        for source in ("external_kv_transfer", "local_compute", "local_cache_hit")
    }
    assert sources == {"external_kv_transfer": sum(PROMPT_LENGTHS), "local_compute": 0, "local_cache_hit": 0}
    shape = kv.from_config(str(Path(pair.deployment.model.path) / CONFIG))
    expected = sum(
        kv.block_bytes_total(shape, length, COMMON["block_size"], "float32") for length in PROMPT_LENGTHS
    )
    assert after.total(NIXL_BYTES) - before.total(NIXL_BYTES) == expected > 0


def test_kv_use_goes_back_to_zero(pair: Up) -> None:
    """Blocks are held while a prompt waits for its pull, and by nobody afterwards."""
    complete(pair.url, prompts("held")[1000])
    for server in pair.deployment.servers:
        until = time.monotonic() + 10
        while server.metrics().total(KV_USE) and time.monotonic() < until:
            time.sleep(0.1)
        assert server.metrics().total(KV_USE) == 0, server.name


def test_the_budget_is_counted(pair: Up) -> None:
    """Every thread of each side stays on the cores it was dealt, and the printed line counts them."""
    cores = len(budget.cores())
    complete(pair.url, prompts("budget")[500])
    for server in pair.deployment.servers:
        threads = [thread.id for pid in tree(server.pid) for thread in psutil.Process(pid).threads()]
        assert len(threads) > 3
        assert {tuple(sorted(os.sched_getaffinity(thread))) for thread in threads} == {tuple(server.units)}
    if cores > 1:
        assert pair.deployment.describe_budget().startswith(f"{2 * (cores // 2)} cores: prefill-0 on core")


def test_servers_listen_on_loopback_only(pair: Up) -> None:
    """No listening socket of any server is reachable from another machine."""
    found = [
        connection.laddr.ip
        for server in pair.deployment.servers
        for pid in tree(server.pid)
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert found and set(found) <= {"127.0.0.1", "::1"}


def test_idle_servers_leave_the_cores_alone(pair: Up) -> None:
    """With the plugin, NIXL's progress thread costs an idle server less than a fifth of a core."""
    if nixl_plugin.delay_for(len(budget.cores())) is None:
        pytest.skip("on this many cores the thread may spin")
    processes = [psutil.Process(pid) for server in pair.deployment.servers for pid in tree(server.pid)]

    def used_s() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before, began = used_s(), time.monotonic()
    time.sleep(4)
    share = (used_s() - before) / (time.monotonic() - began) / len(pair.deployment.servers)
    assert share < 0.2


def test_stop_leaves_no_process_and_no_port(tmp_path: Path) -> None:
    """After the block, processes and ports are gone, also when it ended by an exception."""
    with pytest.raises(ZeroDivisionError):
        with Deployment(Spec("tiny", units=1, kv_cache_bytes=1 << 27), tmp_path) as up:
            server = up.servers[0]
            pids = tree(server.pid)
            assert len(pids) > 1 and listening(server.base_url)
            1 / 0
    assert gone(pids, within_s=1) and not listening(server.base_url)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_the_parent_is_killed(number: signal.Signals, tmp_path: Path) -> None:
    """kill -9, SIGTERM and Ctrl-C of the program that holds servers leave no process and no port."""
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    pid, url = asker.stdout.readline().split()
    pids = tree(int(pid))
    assert len(pids) > 1 and listening(url)
    asker.send_signal(number)
    asker.wait(30)
    assert gone(pids) and not listening(url)


def test_a_server_that_dies_while_starting_is_reported(tmp_path: Path) -> None:
    """The error names the server and carries the telling line of its log; nothing is left."""
    spec = Spec("tiny", units=1, max_model_len=10**7, kv_cache_bytes=1 << 27)
    deployment = Deployment(spec, tmp_path)
    with pytest.raises(ServerFailed, match=r"aggregated-0 ended with status \d+[\s\S]*max_model_len"):
        deployment.start()
    assert deployment.servers == []


def test_one_server_can_be_killed_and_started_again(pair: Up) -> None:
    """A killed prefill server is noticed, and its successor is handed work again."""
    prefill = pair.deployment.prefill[0]
    pair.deployment.kill(prefill)
    assert not pair.deployment.alive(prefill)
    successor = pair.deployment.restart(prefill)
    assert successor.pid != prefill.pid and pair.deployment.alive(successor)
    from pdlab.live.front import routed

    with routed(pair.deployment) as url:  # the ports are new, so the router is too
        assert complete(url, prompts("again")[500])["usage"]["prompt_tokens"] == 500
    pair.deployment.reset_prefix_caches()


def test_the_link_is_measured_and_verified() -> None:
    """Both transports move six sizes between two processes, each repeat timed and checked."""
    for transport in link.TRANSPORTS:
        messages, report = link.measure(transport, [1 << power for power in range(12, 23, 2)], repeats=3)
        assert len(messages) == 18 and len(report.sizes) == 6
        assert all(size.gb_s > 0 and size.count == 3 for size in report.sizes)


def test_two_commands_measure_the_link_between_them() -> None:
    """One end listens on loopback, the other measures over real NIXL: 0 above the minimum, 1 below; both end."""
    pdlab, sizes = [sys.executable, "-m", "pdlab.course.cli", "link"], ["--sizes", "64K,1M", "--repeats", "3"]
    for least, status in (("0.000001", 0), ("100000", 1)):
        with subprocess.Popen([*pdlab, "--listen", "127.0.0.1:0", "--wait", "60", "--json"], stdout=subprocess.PIPE, text=True) as owner:
            peer = json.loads("".join(owner.stdout.readline() for _ in range(3)))["listening"]
            done = subprocess.run([*pdlab, "--peer", peer, *sizes, "--at-least-gb-s", least, "--wait", "60", "--json"],
                                  capture_output=True, text=True)  # fmt: skip
            assert owner.wait(30) == 0, "the owner's end is done as well"
        assert done.returncode == status, done.stderr
        found = json.loads(done.stdout)
        assert [(size["size_bytes"], size["count"]) for size in found["sizes"]] == [(1 << 16, 3), (1 << 20, 3)]
        assert found["enough"] is (status == 0) and ("under the minimum" in done.stderr) is (status == 1)


def test_three_observers_agree_on_the_bytes(tmp_path: Path) -> None:
    """Formula and connector agree to the byte; over TCP the interface saw them and little else."""
    found = ledger.record(tmp_path / "ledger", "tiny", prompts=(200, 1000))
    assert [(entry["transport"], entry["prompt_tokens"]) for entry in found["entries"]] == [
        ("shm", 200), ("shm", 1000), ("tcp", 200), ("tcp", 1000)
    ]  # fmt: skip
    for entry in found["entries"]:
        assert entry["counter_bytes"] == entry["formula_bytes"] > 0
        assert entry["external_tokens"] == entry["prompt_tokens"] and entry["computed_tokens"] == 0
        assert entry["prefill_kv_usage_pinned"] > 0 == entry["prefill_kv_usage_after"]
        if not found["own_interface"]:
            continue  # other programs' traffic is in the counter
        if entry["transport"] == "tcp":
            assert entry["os_bytes"] > entry["counter_bytes"]
            resent_bytes = entry["os_retransmitted"] * 65_536  # at most: a segment is no larger on loopback
            assert abs(entry["reconciled"]["unexplained_bytes"]) < 0.02 * entry["os_bytes"] + resent_bytes
        else:
            assert entry["os_bytes"] < 0.5 * entry["counter_bytes"]


def test_tiny_is_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew in an empty cache, the model has the same bytes."""
    first = models.get("tiny")
    monkeypatch.setenv("PDLAB_CACHE", str(tmp_path))
    again = models.get("tiny")
    assert again.path != first.path and again.revision == first.revision
