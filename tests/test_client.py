"""The open-loop client against scripted peers: every request has one true row, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from fake_http import DONE, END, HEAD, Peer, chunk, frame, plain, tokens

from pdlab.errors import BadInput
from pdlab.live import client, client_loop, client_wire
from pdlab.measure import records

ABOUT = {"label": "measured", "source": "pdlab"}


def offers(count: int, gap_ms: float = 20.0) -> list[client.Offer]:
    body = client.completion("m", [1, 2, 3], 4)
    return [client.Offer(i, i * gap_ms, body, prompt_tokens=3, output_tokens=4) for i in range(count)]


def load(script, out: Path, count: int = 1, tls: ssl.SSLContext | None = None, **options):
    """The rows of a load against a peer, and the peer."""
    options = {"deadline_s": 5.0, "connections": 2, "verify_tls": False} | options
    with Peer(script, tls) as peer:
        run = client.run_load(f"{peer.url}/v1/completions", offers(count), out, ABOUT, client.Options(**options))
    return records.rows(run.table), peer


def test_every_frame_has_its_time_and_tokens(tmp_path):
    """A good answer gives a row with one time and one token count a frame, in order."""
    rows, peer = load(lambda seen: tokens(4, 0.02), tmp_path / "run")
    row = rows[0]
    assert row["status"] == "ok" and row["http_status"] == 200 and row["error"] is None
    assert row["frame_tokens"] == [1, 1, 1, 1] and row["output_tokens"] == 4 and row["prompt_tokens"] == 3
    assert 0 <= row["scheduled_ns"] <= row["sent_ns"] < row["frame_ns"][0]
    assert row["frame_ns"] == sorted(row["frame_ns"]) and row["frame_ns"][-1] <= row["end_ns"]
    assert row["frame_ns"][-1] - row["sent_ns"] > 4 * 19e6  # four pauses of 20 ms, however busy the machine is
    asked = peer.posts()[0]
    assert asked.json["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert asked.headers["x-request-id"] == row["request_id"]


def test_the_kernel_stamps_where_it_can(tmp_path):
    """On Linux with generic socket numbers the row's stamps come from the kernel."""
    rows, _ = load(lambda seen: tokens(2, 0.01), tmp_path / "run")
    expected = "kernel" if client_loop.kernel_stamps_work() else "user"
    assert [row["stamp_source"] for row in rows] == [expected]


def test_requests_leave_on_schedule_while_the_server_is_slow(tmp_path):
    """Ten requests to a server that answers after a second leave at their own times."""
    rows, _ = load(lambda seen: [1.0, *tokens(1)], tmp_path / "run", count=10)
    assert len(rows) == 10 and {row["status"] for row in rows} == {"ok"}
    assert [row["scheduled_ns"] for row in rows] == [i * 20_000_000 for i in range(10)]
    assert max(row["sent_ns"] for row in rows) < 900_000_000


def test_a_late_answer_is_a_timeout_row_with_the_tokens_it_had(tmp_path):
    """At the deadline the row says timeout, keeps its frames, and the server sees the client leave."""
    rows, peer = load(lambda seen: [HEAD + chunk(frame("a", 1)), "wait"], tmp_path / "run", deadline_s=0.4)
    assert rows[0]["status"] == "timeout" and rows[0]["frame_tokens"] == [1]
    assert rows[0]["end_ns"] >= 400_000_000
    assert peer.posts()[0].left.wait(5)


def test_no_answer_at_all_is_a_timeout(tmp_path):
    """A server that says nothing gives a timeout row without an HTTP status."""
    rows, _ = load(lambda seen: ["wait"], tmp_path / "run", deadline_s=0.3)
    assert (rows[0]["status"], rows[0]["http_status"], rows[0]["frame_ns"]) == ("timeout", None, [])


@pytest.mark.parametrize("way", ["reset", "close"])
def test_a_connection_that_ends_in_mid_answer_is_a_failure(tmp_path, way):
    """What came before is kept, and the error says what happened."""
    rows, _ = load(lambda seen: [HEAD + chunk(frame("a", 1)), 0.05, way], tmp_path / "run")
    assert rows[0]["status"] == "failed" and rows[0]["frame_tokens"] == [1]
    assert "closed in mid-answer" in rows[0]["error"] or "receive" in rows[0]["error"]


def test_nobody_listening_is_a_failure_row_for_each_request(tmp_path):
    """With no server, every request still has its row."""
    with Peer(lambda seen: tokens(1)) as peer:
        url = peer.url
    run = client.run_load(f"{url}/v1/completions", offers(3), tmp_path / "run", ABOUT)
    rows = records.rows(run.table)
    assert [row["status"] for row in rows] == ["failed"] * 3
    assert all("connect" in row["error"] for row in rows)


@pytest.mark.parametrize(
    ("status", "expected"),
    [("429 Too Many Requests", "rejected"), ("503 Service Unavailable", "rejected"),
     ("500 Internal Server Error", "failed"), ("400 Bad Request", "failed")],
)  # fmt: skip
def test_http_errors_are_rows_with_the_servers_words(tmp_path, status, expected):
    """429 and 503 are rejections, other errors failures; the message is kept."""
    rows, _ = load(lambda seen: plain(status, b'{"error": {"message": "no room"}}'), tmp_path / "run")
    assert rows[0]["status"] == expected and rows[0]["http_status"] == int(status[:3])
    assert "no room" in rows[0]["error"]


def test_an_error_frame_inside_http_200_is_a_failure(tmp_path):
    """HTTP 200, tokens, then an error frame: failed."""
    bad = b'data: {"error": {"message": "engine died", "code": 500}}\n\n'
    script = [HEAD + chunk(frame("a", 1)), chunk(bad), chunk(DONE) + END]
    rows, _ = load(lambda seen: script, tmp_path / "run")
    assert rows[0]["status"] == "failed" and rows[0]["http_status"] == 200
    assert "engine died" in rows[0]["error"]


def test_frames_and_characters_split_anywhere_are_read_whole(tmp_path):
    """An answer cut into single bytes, in the middle of UTF-8 sequences, reads the same."""
    whole = HEAD + chunk(frame("é", 1)) + chunk(frame("字", 2, "length")) + chunk(DONE) + END
    script = [step for byte in whole for step in (bytes([byte]), 0.0005)]
    rows, _ = load(lambda seen: script, tmp_path / "run")
    assert rows[0]["status"] == "ok" and rows[0]["frame_tokens"] == [1, 1]


def test_frames_that_share_a_read_are_marked_with_their_doubt(tmp_path):
    """Three frames in one write after a pause: the doubt is at least about as long as the pause."""
    burst = chunk(frame("a", 1)) + chunk(frame("b", 2)) + chunk(frame("c", 3, "length"))
    rows, _ = load(lambda seen: [HEAD, 0.1, burst, 0.05, chunk(DONE) + END], tmp_path / "run")
    assert rows[0]["frame_tokens"] == [1, 1, 1] and len(set(rows[0]["frame_ns"])) == 1
    assert rows[0]["stage_ns"]["stamp_doubt"] > 80e6


@pytest.mark.parametrize(("frame_ns", "doubt_ns"), [
    ([30, 30, 50], 20), ([10, 10], 8), ([30, 50, 50], 20), ([10, 30, 50], 0), ([10, 10, 50, 50], 20), ([], 0), ([50], 0),
])  # fmt: skip
def test_doubt_reaches_back_to_the_read_before_or_to_the_sending(frame_ns, doubt_ns):
    """Reads at 10, 30 and 50 ns of a request sent at 2 ns."""
    assert client_wire.stamp_doubt_ns(frame_ns, [10, 30, 50], 2) == doubt_ns


def test_frames_with_reads_of_their_own_are_not_marked(tmp_path):
    """No doubt is noted where each token frame had a read to itself."""
    rows, _ = load(lambda seen: tokens(3, 0.03), tmp_path / "run")
    assert rows[0]["status"] == "ok" and not rows[0]["stage_ns"]


def test_a_chunk_whose_text_looks_like_the_end_does_not_end_the_answer(tmp_path):
    """A payload that ends in the bytes of a last chunk is payload."""
    lookalike = b": 0\r\n\r\n"
    script = [HEAD + b"%x\r\n" % len(lookalike) + lookalike, 0.05, b"\r\n", *tokens(2)[1:]]
    rows, _ = load(lambda seen: script, tmp_path / "run")
    assert rows[0]["status"] == "ok" and rows[0]["output_tokens"] == 2


def test_content_length_and_close_delimited_answers_are_read(tmp_path):
    """Framing by length and by the end of the connection work as well as chunks."""
    stream = frame("a", 1) + frame("b", 2, "length") + DONE
    by_length = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(stream),
                 0.02, stream]  # fmt: skip
    by_close = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", stream, "close"]
    scripts = iter([by_length, by_close])
    rows, _ = load(lambda seen: next(scripts), tmp_path / "run", count=2)
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert [row["output_tokens"] for row in rows] == [2, 2]


def test_connections_are_reused_unless_the_server_says_close(tmp_path):
    """Four requests one after another take one connection, or four after ``Connection: close``."""
    offered = offers(4, gap_ms=100)
    counts = {}
    for name, header in (("kept", b""), ("closed", b"Connection: close\r\n")):
        head = HEAD.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n")
        with Peer(lambda seen, head=head: [head, *tokens(1)[1:]]) as peer:
            run = client.run_load(f"{peer.url}/v1/completions", offered, tmp_path / name, ABOUT,
                                  client.Options(connections=1))  # fmt: skip
        rows = records.rows(run.table)
        assert {row["status"] for row in rows} == {"ok"}
        counts[name] = peer.connections
        fresh = [row for row in rows if row["new_connection"]]
        assert all(row["connect_ns"] > 0 for row in fresh) and len(fresh) == peer.connections - 1
    assert counts == {"kept": 1, "closed": 4}


def test_https_works_and_says_that_its_stamps_are_user_space(tmp_path):
    """Over TLS the answer is the same; its times are taken by the client itself."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl command to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    rows, _ = load(lambda seen: tokens(3, 0.01), tmp_path / "run", count=4, tls=context, connections=1)
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert {row["stamp_source"] for row in rows} == {"user"}
    assert any(row["new_connection"] for row in rows)


def test_something_that_is_not_http_is_a_failure(tmp_path):
    """A peer that speaks another protocol gives a failed row."""
    rows, _ = load(lambda seen: [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", 0.1, "close"], tmp_path / "run")
    assert rows[0]["status"] == "failed"


def test_a_prompt_larger_than_the_socket_buffers_arrives_whole(tmp_path):
    """A body of two megabytes to a slow reader is sent in parts and complete."""
    body = client.completion("m", list(range(300_000)), 1)
    with Peer(lambda seen: tokens(1)) as peer:
        run = client.run_load(f"{peer.url}/v1/completions", [client.Offer(0, 0.0, body)], tmp_path / "run", ABOUT)
    assert run.table["status"].to_pylist() == ["ok"]
    assert peer.posts()[0].json["prompt"][-1] == 299_999


RUN = """
import sys; sys.path.insert(0, {tests!r})
from test_client import offers, ABOUT
from pdlab.live import client
run = client.run_load({url!r}, offers({count}, 60.0), {out!r}, ABOUT, client.Options(deadline_s=10), resume=True)
"""


def start(url: str, out: Path, count: int) -> subprocess.Popen:
    code = RUN.format(tests=str(Path(__file__).parent), url=url, count=count, out=str(out))
    return subprocess.Popen([sys.executable, "-c", code])


def wait_for(condition, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.01)


def test_killed_and_resumed_gives_every_request_exactly_once(tmp_path):
    """kill -9 in mid-run, then resume: one row a request, and what was answered is not sent again."""
    out, count, killed = tmp_path / "run", 60, threading.Event()

    def script(seen):  # later ones wait for their answer, so that the run is not over before it is killed
        return tokens(2, 0.01) if len(peer.posts()) <= 30 or killed.is_set() else ["wait"]

    def answered() -> set[str]:
        spool = out / client.SPOOL
        return {e.meta["request_id"] for e in client_wire.read_spool(spool) if "seq" in e.meta} if spool.exists() else set()

    with Peer(script) as peer:
        url = f"{peer.url}/v1/completions"
        first = start(url, out, count)
        wait_for(lambda: len(answered()) >= 5)
        timed = psutil.Process(first.pid).children(recursive=True)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert timed and not psutil.wait_procs(timed, 20)[1]  # the timed process sees that its parent is gone
        kept = answered()
        assert 5 <= len(kept) < count
        killed.set()
        with pytest.raises(BadInput, match="interrupted"):
            client.run_load(url, offers(count, 60.0), out, ABOUT)
        run = client.run_load(url, offers(count, 60.0), out, ABOUT, resume=True)
        times_sent = [seen.headers["x-request-id"] for seen in peer.posts()]
    rows = records.rows(run.table)
    assert [row["seq"] for row in rows] == list(range(count))
    assert {row["status"] for row in rows} == {"ok"}
    assert all(times_sent.count(one) == 1 for one in kept)
    assert run.provenance["summary"]["resumed"] is True
    assert not (out / client.SPOOL).exists()


def test_resuming_a_finished_run_sends_nothing(tmp_path):
    """A second resume returns the same rows and leaves the server alone."""
    with Peer(lambda seen: tokens(1)) as peer:
        url = f"{peer.url}/v1/completions"
        first = client.run_load(url, offers(2), tmp_path / "run", ABOUT)
        again = client.run_load(url, offers(2), tmp_path / "run", ABOUT, resume=True)
        assert len(peer.posts()) == 2 and again.table.equals(first.table)
        with pytest.raises(BadInput, match="finished run"):
            client.run_load(url, offers(2), tmp_path / "run", ABOUT)


def test_a_torn_spool_keeps_its_whole_entries(tmp_path):
    """Cut anywhere, a spool gives exactly the entries that are whole, and says where they end."""
    def entry(seq: int) -> bytes:
        text = json.dumps({"seq": seq}).encode()
        return client_loop.ENTRY.pack(client_loop.MAGIC, len(text), 0, 3) + text + b"raw"

    one = len(entry(0))
    data = b"".join(map(entry, range(3)))
    path = tmp_path / "spool"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        assert len(list(client_wire.read_spool(path))) == cut // one
        assert client_wire.whole_bytes(path) == cut // one * one


def test_failures_in_the_last_second_of_a_cut_off_session_are_sent_again(tmp_path):
    """Killed together with its servers, a client must not keep the failures that the kill made."""
    def entry(document: dict) -> bytes:
        text = json.dumps(document).encode()
        return client_loop.ENTRY.pack(client_loop.MAGIC, len(text), 0, 0) + text

    good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(frame("a", 1, "stop")) + frame("a", 1, "stop")

    def end(seq: int, outcome: str, end_ms: int) -> bytes:
        raw = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n" if outcome == "gateway" else good
        meta = {"seq": seq, "outcome": "complete" if outcome == "gateway" else outcome, "end_ns": end_ms * 10**6}
        text = json.dumps(meta).encode()
        head = client_loop.ENTRY.pack(client_loop.MAGIC, len(text), 1, len(raw))
        return head + text + struct.pack("qq", 0, len(raw)) + client_loop.NO_STAMP + raw

    session, path = entry({"session": True}), tmp_path / "spool"
    first = session + end(0, "failed", 500) + end(1, "complete", 2000) + end(2, "failed", 2100)
    first += end(3, "timeout", 2200) + end(4, "gateway", 2200)
    path.write_bytes(first)
    assert sorted(client_wire.settled(path)[1]) == [0, 1, 3], "0 failed long before, 2 and 4 in the last second"
    path.write_bytes(first + entry({"closed": True}))
    assert sorted(client_wire.settled(path)[1]) == [0, 1, 2, 3, 4], "a session that was closed keeps all"
    path.write_bytes(first + session + end(2, "complete", 9000) + end(1, "failed", 9100))
    sessions, kept = client_wire.settled(path)
    assert len(sessions) == 2 and kept[2].meta["outcome"] == "complete" and kept[1].meta["outcome"] == "complete"


def test_a_spool_that_cannot_be_written_is_told(tmp_path, monkeypatch, capfd):
    """A disk that is full in the middle of a run: one message that says where and what to do, no traceback."""
    fake = tmp_path / "bin" / "cat"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nhead -c 10 > /dev/null\necho 'cat: write error: No space left on device' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(client.ClientFailed, match=r"spool\.bin could not be written \(No space left on device\).*resume"):
        client.run_load("http://127.0.0.1:9/v1/completions", offers(3), tmp_path / "run", ABOUT)
    assert capfd.readouterr().err == ""


def test_a_url_that_is_none_is_refused(tmp_path):
    """Without a scheme the URL is bad input, and nothing is left behind that looks like a run."""
    with pytest.raises(BadInput, match="http://"):
        client.run_load("localhost:8000/v1", offers(1), tmp_path / "run", ABOUT)
