"""The fault library without servers: the comparison, the catalogue, the man in the middle, the soak's account."""

import http.client
import itertools
import json
import socket
import threading
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest

from fake_http import Peer, plain, tokens

from pdlab.course.evidence import RUNS
from pdlab.errors import BadInput
from pdlab.live import metrics
from pdlab.live.faults import soak, table
from pdlab.live.faults.catalogue import CATALOGUE
from pdlab.live.faults.middle import CORRUPT_BYTES, HEAD_BYTES, Middle
from pdlab.live.faults.scene import Answer, BlocksLeft, NotInjected, Scene
from pdlab.live.faults.table import MISMATCHED, Row, compare, pair, summary
from pdlab.live.front import routed
from pdlab.measure import records

HEALTHY = [11, 12, 13, 14, 15, 16, 17, 18]


@pytest.mark.parametrize(("tokens", "says"), [
    ([], ("none", 0)),
    (HEALTHY, ("all", 0)),
    (HEALTHY[:3], ("prefix", 0)),
    ([11, 12, 99, 98, 97, 96], ("wrong", 0)),
    ([99, 98, 97], ("wrong", 0)),
    (HEALTHY[:4] + HEALTHY[:4], ("wrong", 4)),
    (HEALTHY[:4] + [14] + HEALTHY[4:], ("wrong", 1)),
    (HEALTHY[:6] + HEALTHY[3:], ("wrong", 3)),
])  # fmt: skip
def test_tokens_are_told_apart(tokens, says):
    """All, none, the beginning, wrong ones; and a restarted stream's repeats are counted."""
    assert compare(tokens, HEALTHY) == says


@pytest.mark.parametrize(("start", "length"), list(itertools.product(range(4), (3, 4))))
def test_every_restart_of_a_stream_is_seen(start, length):
    """Whatever part of the answer a second attempt sends again, the repeats are counted."""
    again = HEALTHY[start : start + length]
    assert compare(HEALTHY[: start + length] + again, HEALTHY)[1] == len(again)


def test_tokens_that_never_end_are_too_many():
    """An answer longer than the healthy one is not called all."""
    assert compare(HEALTHY + HEALTHY, HEALTHY) == ("wrong", 8)


def test_every_fault_says_what_is_done_and_expected_and_has_servers():
    """Twenty faults or more, each with its texts and a pair that can be started."""
    assert len(CATALOGUE) >= 20
    for name, one in CATALOGUE.items():
        assert one.name == name and one.says and one.expects
        spec = pair(one.pair)
        assert spec.design == "disaggregated" and spec.mismatched == (one.pair in MISMATCHED)
    assert any(one.kills for one in CATALOGUE.values())


def test_a_table_has_one_line_a_fault():
    """Runs of one fault are put together, and the worst of them shows."""
    base = dict(injected="i", client_saw="x", http_status=200, finished=True, attempts=1,
                tokens=3, right="all", recovered_after_s=1.0, processes=0, missed=0, counters={}, facts={})  # fmt: skip
    rows = [Row(fault="a", twice=0, blocks_free_after_s=0.1, **base), Row(fault="a", twice=2, blocks_free_after_s=7.0, **base),
            Row(fault="b", twice=0, blocks_free_after_s=0.0, **base)]  # fmt: skip
    lines = list(summary(rows))
    assert [line[:2] for line in lines] == [["a", 2], ["b", 1]]
    assert lines[0][5] == 2 and lines[0][6] == 7.0


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    """Rows on disk are read back as they were and not made again; nothing is started when all is there."""
    row = Row(fault="slow link", injected="i", client_saw="x", http_status=200, finished=True, attempts=1, tokens=3, twice=0,
              right="all", blocks_free_after_s=0.1, recovered_after_s=1.0, processes=0, missed=0, counters={"decode-0": {"bytes": 3.0}},
              facts={"first_token_s": 2})  # fmt: skip
    table._write(tmp_path, table.Result([row, row], {}), records.provenance(label="measured", source="a test"))
    assert table.read(tmp_path) == [row, row]
    assert row.looked_at == ["decode-0"] and row.all_free_after_s is None
    monkeypatch.setattr(table, "Deployment", None)  # starting one would fail
    result = table.run(["slow link"], repeat=2, out=tmp_path)
    assert result.rows == [row, row] and not result.short
    with pytest.raises(BadInput, match="one of"):
        table.run(["a fault that is not there"])


class Idle:
    """Stands in for a deployment whose faults are played by the test."""

    servers = ()

    def __init__(self, spec, run_dir):
        self.model_name = "m"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def played(monkeypatch, plays):
    """Let ``observe`` take its answers from ``plays``, by fault: a row, or what it raises."""
    def observe(scene, one):
        if isinstance(play := plays[one.name].pop(0), Exception):
            raise play
        return play

    monkeypatch.setattr(table, "Deployment", Idle)
    monkeypatch.setattr(table, "observe", observe)
    monkeypatch.setattr(table, "_mend", lambda scene: None)
    monkeypatch.setattr(table.provenance, "measured", lambda *_, **known: records.provenance(label="measured", source="a test"))


def row_of(name, missed=0, **known):
    return Row(fault=name, injected="i", client_saw="x", http_status=200, finished=True, attempts=1, tokens=3, twice=0,
               right="all", blocks_free_after_s=0.1, recovered_after_s=1.0, processes=0, missed=missed,
               counters={"prefill-0": {"dead": 1}, "decode-0": {}}, facts={}, **known)  # fmt: skip


def test_a_run_that_came_to_nothing_is_counted_and_the_next_one_made(tmp_path, monkeypatch):
    """One miss costs one run and no more; three of one fault end its tries and nobody else's; all are told."""
    never = NotInjected("never seen")
    played(monkeypatch, {
        "slow link": [row_of("slow link"), never, row_of("slow link", missed=2), row_of("slow link")],
        "corrupted payload, checksum": [never, row_of("corrupted payload, checksum"), never, BlocksLeft("2 on decode-0")],
    })  # fmt: skip
    result = table.run(["slow link", "corrupted payload, checksum"], repeat=4, out=tmp_path)
    about = json.loads((tmp_path / records.PROVENANCE).read_text())["summary"]
    assert about["runs_of_each_fault"] == {"slow link": 3, "corrupted payload, checksum": 1}
    assert about["tries_that_injected_nothing"] == {"slow link": 2}
    assert {name: len(why) for name, why in about["runs_that_came_to_nothing"].items()} == {
        "slow link": 1, "corrupted payload, checksum": 3}  # fmt: skip
    assert result.short["slow link"] == "3 of 4 runs; 1 came to nothing: NotInjected: never seen"
    assert "1 of 4 runs" in result.short["corrupted payload, checksum"] and "BlocksLeft" in result.short["corrupted payload, checksum"]


def test_a_fault_that_never_happens_is_given_up(monkeypatch):
    """After three runs without an injection the fault is left alone, however many were asked for."""
    plays = {"slow link": [NotInjected("no")] * 9}
    played(monkeypatch, plays)
    result = table.run(["slow link"], repeat=9)
    assert not result.rows and len(plays["slow link"]) == 9 - table.GIVE_UP
    assert result.short == {"slow link": "0 of 9 runs; 3 came to nothing: NotInjected: no"}


def test_a_row_names_the_servers_whose_blocks_were_looked_at():
    """A dead server is not among them; the time until all were free speaks of it."""
    row = row_of("slow link", all_free_after_s=31.5)
    assert row.looked_at == ["decode-0"] and row.all_free_after_s == 31.5


def test_blocks_that_stay_are_no_missed_injection():
    """A server that keeps its blocks is named, by an error of its own kind."""
    def busy(seen):
        return plain("200 OK", b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n')

    with Peer(busy) as peer:
        server = SimpleNamespace(name="decode-0", metrics=lambda: metrics.scrape(peer.url))
        scene = Scene(SimpleNamespace(model_name="m", alive=lambda server: True), 6.0)
        with pytest.raises(BlocksLeft, match="decode-0"):
            scene.until_free(server, timeout_s=0.05)


# ── the router's second chance, in front of two servers on each side ────────────────────────


TRANSFER = b'{"kv_transfer_params": {"do_remote_prefill": true, "remote_engine_id": "e", "remote_block_ids": [1]}}'


@contextmanager
def pools(prefills, decodes, tmp_path):
    """Scripted pools with a router in retry mode; its URL, the pools' peers, and the log."""
    with ExitStack() as stack:
        peers = {role: [stack.enter_context(Peer(script)) for script in scripts]
                 for role, scripts in (("prefill", prefills), ("decode", decodes))}  # fmt: skip
        servers = [SimpleNamespace(role=role, base_url=peer.url) for role, pool in peers.items() for peer in pool]
        deployment = SimpleNamespace(servers=servers, run_dir=tmp_path)
        yield stack.enter_context(routed(deployment, "--on-failure", "retry")), peers["prefill"], peers["decode"]


def asked(url):
    """One streamed request; its HTTP status and everything that came of the answer."""
    body = json.dumps({"model": "m", "prompt": [1, 2, 3], "max_tokens": 6, "stream": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body, {"X-Request-Id": "q"}), timeout=10) as answer:
        try:
            return answer.status, answer.read()
        except http.client.IncompleteRead as cut:
            return answer.status, cut.partial


def test_a_dead_prefill_is_replaced_by_the_other_one(tmp_path):
    """The second prefill gets the prompt under the same id, decode is asked once, every token comes once."""
    with pools([lambda seen: ["reset"], lambda seen: plain("200 OK", TRANSFER)], [lambda seen: tokens(6)] * 2, tmp_path) as (url, p, d):
        status, answer = asked(url)
    assert [len(one.posts()) for one in p] == [1, 1], "the first was tried, then the second"
    assert {one.posts()[0].headers["x-request-id"] for one in p} == {"q"}
    assert sum(len(one.posts()) for one in d) == 1
    assert status == 200 and [answer.count(b't%d ' % i) for i in range(6)] == [1] * 6
    assert "another prefill" in json.loads((tmp_path / "router.jsonl").read_text())["reason"]


def test_a_decode_that_dies_in_mid_stream_is_not_replaced(tmp_path):
    """Two tokens had gone out: the second decode server, idle and healthy, is never asked."""
    def dies(seen):
        return [*tokens(6)[:5], 0.05, "reset"]

    with pools([lambda seen: plain("200 OK", TRANSFER)] * 2, [dies, lambda seen: tokens(6)], tmp_path) as (url, p, d):
        status, answer = asked(url)
    line = json.loads((tmp_path / "router.jsonl").read_text())
    assert len(d[0].posts()) == 1 and answer.count(b"t0 ") == answer.count(b"t1 ") == 1, "tokens had gone out"
    assert not d[1].posts() and sum(len(one.posts()) for one in p) == 1 and line["attempts"] == 1
    assert status == 200 and b'"error"' in answer and b"[DONE]" not in answer and line["status"] == "failed"


def test_a_decode_that_dies_before_a_token_is_replaced(tmp_path):
    """The contrast: nothing had gone out, so the second decode server answers, with a prefill of its own."""
    with pools([lambda seen: plain("200 OK", TRANSFER)] * 2, [lambda seen: ["reset"], lambda seen: tokens(6)], tmp_path) as (url, p, d):
        status, answer = asked(url)
    assert [len(one.posts()) for one in d] == [1, 1] and sum(len(one.posts()) for one in p) == 2
    assert status == 200 and [answer.count(b't%d ' % i) for i in range(6)] == [1] * 6


# ── the man in the middle ───────────────────────────────────────────────────────────────────


def through(payload, **options):
    """Send ``payload`` from a far end through the middle; what arrives, the middle, and the seconds."""
    far = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = far.accept()
        with connection:
            assert connection.recv(5) == b"give!"
            connection.sendall(payload)

    threading.Thread(target=serve, daemon=True).start()
    with Middle(far.getsockname()[1], **options) as middle, socket.create_connection(("127.0.0.1", middle.port)) as near:
        start = time.monotonic()
        near.sendall(b"give!")
        got = b""
        while data := near.recv(65536):
            got += data
    far.close()
    return got, middle, time.monotonic() - start


PAYLOAD = bytes(range(256)) * 400


def test_the_middle_passes_bytes_as_they_are():
    """Without a limit or corruption nothing changes, and all is counted."""
    got, middle, _ = through(PAYLOAD)
    assert got == PAYLOAD and middle.passed == len(PAYLOAD) and middle.corrupted == 0


def test_the_middle_changes_what_it_counts_and_nothing_else():
    """So many bytes are changed as it says, none of them in the head, and the length stays."""
    got, middle, _ = through(PAYLOAD, corrupt=True)
    differ = [index for index, (a, b) in enumerate(zip(got, PAYLOAD)) if a != b]
    assert len(got) == len(PAYLOAD) and len(differ) == middle.corrupted == CORRUPT_BYTES
    assert differ[0] == HEAD_BYTES and differ[-1] == HEAD_BYTES + CORRUPT_BYTES - 1


def test_the_middle_slows():
    """100 kB at 1 MB/s take a tenth of a second at least."""
    got, middle, took_s = through(PAYLOAD, bytes_per_s=1_000_000)
    assert got == PAYLOAD and took_s >= 0.1


def test_the_middle_hangs_up_when_the_far_end_is_not_there():
    """A dead prefill behind the middle is a closed connection, not a wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Middle(port) as middle, socket.create_connection(("127.0.0.1", middle.port), timeout=2) as near:
        assert near.recv(1) == b""


# ── the soak's account ──────────────────────────────────────────────────────────────────────


def ended(tokens=(), **known):
    answer = Answer(http_status=known.pop("http_status", 200), tokens=list(tokens), **known)
    answer.ended.set()
    return answer


def ask(number, fault="", output=3):
    return soak.Ask(number, 50, output, fault, 1.0)


def line(number, status="ok", attempts=1):
    return {"request_id": f"soak-{number}", "status": status, "attempts": attempts}


def test_the_draw_is_the_same_for_the_same_seed_and_about_the_share():
    """A soak can be repeated; about one in twenty is hurt, in every way there is."""
    asks = soak.schedule(1000, seed=5)
    assert asks == soak.schedule(1000, seed=5) != soak.schedule(1000, seed=6)
    hurt = [one.fault for one in asks if one.fault]
    assert 30 <= len(hurt) <= 80 and set(hurt) == set(soak.KINDS)


def test_an_account_that_balances():
    """Complete, left, refused: each once, and a client that left before it was read needs no line."""
    asks = [ask(0), ask(1, "hang up early"), ask(2, "bad parameters"), ask(3)]
    answers = {0: ended([1, 2, 3], finished=True), 1: ended(), 2: ended(http_status=400), 3: ended([1, 2, 3], finished=True)}
    account = soak.balance(asks, answers, [line(0), line(2, "failed"), line(3, attempts=2)])
    assert account.client == {"complete": 2, "left": 1, "refused": 1}
    assert account.second_attempts == 1 and account.faultless


@pytest.mark.parametrize(("answer", "log"), [
    (ended([1, 2, 3], finished=True), []),
    (ended([1, 2, 3], finished=True), [line(0), line(0)]),
    (ended([1, 2, 3, 3], finished=True), [line(0)]),
    (ended([1, 2], finished=True), [line(0)]),
])  # fmt: skip
def test_an_account_that_does_not(answer, log):
    """A request that nobody logged, or logged twice, or an answer of the wrong length, is found."""
    assert not soak.balance([ask(0)], {0: answer}, log).faultless


def test_the_recorded_repeats_hold_what_lab_l3_says():
    """Twenty injected runs of every fault: no token twice, no process left, no block beyond the lease and a little."""
    rows = table.read(RUNS / "faults-repeats")
    assert Counter(row.fault for row in rows) == dict.fromkeys(CATALOGUE, 20)
    assert all(row.injected and row.twice == 0 and row.processes == 0 for row in rows)
    assert max(row.blocks_free_after_s for row in rows) <= table.LEASE_S + 3
    outcomes = {name: {(row.http_status, row.tokens, row.right) for row in rows if row.fault == name} for name in CATALOGUE}
    assert [name for name, seen in outcomes.items() if len(seen) > 1] == ["client gone in decode"]


def test_the_recorded_soak_accounts_for_every_request():
    """A thousand requests, faults among them, each in the client's account once and none told wrong."""
    account = soak.Account(**json.loads((RUNS / "faults-soak" / soak.SOAK).read_text()))
    assert account.faultless and account.asked == 1000 and account.kills == 3
    assert sum(account.faults.values()) > 40 and account.checked > 30 and account.blocks_free_after_s < table.LEASE_S
