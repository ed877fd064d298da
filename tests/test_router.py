"""The router against scripted servers: protocol, passing on, deadlines, failures, its log."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import pytest
from aiohttp.test_utils import TestClient, TestServer
from fake_http import DONE, END, HEAD, Peer, chunk, frame, plain, tokens

from pdlab.live import policy, router
from pdlab.live import router_steps as steps
from pdlab.live.placement import Placement
from pdlab.live.router_log import RowLog
from pdlab.live.router_steps import Route, StepFailed

TRANSFER = {"do_remote_prefill": True, "do_remote_decode": False, "remote_engine_id": "e1",
            "remote_block_ids": [4, 5], "remote_host": "127.0.0.1", "remote_port": 5600,
            "remote_num_tokens": 3}  # fmt: skip
BODY = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 4, "min_tokens": 4, "stream": True,
        "stream_options": {"include_usage": True}}  # fmt: skip


def prefilled(seen):
    return plain("200 OK", json.dumps({"choices": [{"text": "x"}], "kv_transfer_params": TRANSFER}).encode())


@contextmanager
def running(log: Path, *options: str) -> Iterator[str]:
    """A router process; its host:port."""
    command = [sys.executable, "-m", "pdlab.live.router", *options, "--log", str(log), "--until-stdin-closes"]
    process = forked.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"].removeprefix("http://")
    finally:
        process.stdin.close()
        assert process.wait(20) == 0


def post(where: str, body=BODY, path="/v1/completions", headers=None) -> tuple[int, dict, bytes]:
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection(where, timeout=20)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, raw, {"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    try:
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def lines(log: Path, count: int = 1) -> list[dict]:
    """The log's lines, once there are ``count``."""
    until = time.monotonic() + 20
    while not log.exists() or log.read_text().count("\n") < count:
        assert time.monotonic() < until, "no line in the router's log"
        time.sleep(0.01)
    return [json.loads(line) for line in log.read_text().splitlines()]


def raw_chunks(where: str, body=BODY) -> Iterator[bytes]:
    """The HTTP chunks of an answer as they are on the wire, each as soon as it is there."""
    host, port = where.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        raw = json.dumps(body).encode()
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
        file = sock.makefile("rb")
        while file.readline() != b"\r\n":
            pass
        while size := int(file.readline(), 16):
            yield file.read(size)
            file.read(2)


# ── aggregated ──────────────────────────────────────────────────────────────────────────────


def test_aggregated_goes_round_and_changes_nothing(tmp_path):
    """Four requests take two replicas in turn; body, id and answer pass through as they are."""
    with Peer(lambda seen: tokens(2)) as a, Peer(lambda seen: tokens(2)) as b:
        with running(tmp_path / "log", "--worker", a.url, "--worker", b.url) as where:
            raw = b'{"model":"m" , "prompt":"x", "stream":true}'
            answers = [post(where, raw, headers={"X-Request-Id": f"id-{i}"}) for i in range(4)]
    assert [len(peer.posts()) for peer in (a, b)] == [2, 2]
    assert {seen.body for seen in a.posts() + b.posts()} == {raw}
    assert [seen.headers["x-request-id"] for seen in a.posts()] == ["id-0", "id-2"]
    assert all(status == 200 and body.endswith(DONE) for status, _, body in answers)
    assert [headers["X-Request-Id"] for _, headers, _ in answers] == [f"id-{i}" for i in range(4)]
    assert [line["request_id"] for line in lines(tmp_path / "log", 4)] == [f"id-{i}" for i in range(4)]


def test_frames_are_passed_on_one_by_one_as_they_come(tmp_path):
    """Each upstream chunk leaves as one chunk, before the next one has come: the server waits for its reader."""
    frames, got = [frame(f"t{i} ", i + 1) for i in range(4)], []

    def script(seen):
        yield HEAD
        for i, one in enumerate(frames):
            yield chunk(one)
            while len(got) <= i:
                yield 0.01
        yield chunk(DONE) + END

    with Peer(script) as peer, running(tmp_path / "log", "--worker", peer.url) as where:
        for data in raw_chunks(where):
            got.append(data)
    assert got == [*frames, DONE]


def test_a_chunk_split_over_reads_stays_one_chunk(tmp_path):
    """A frame that arrives in two pieces is not cut in two."""
    whole = chunk(frame("é", 1, "length"))
    script = [HEAD, whole[:20], 0.05, whole[20:], chunk(DONE) + END]
    with Peer(lambda seen: script) as peer, running(tmp_path / "log", "--worker", peer.url) as where:
        assert list(raw_chunks(where)) == [frame("é", 1, "length"), DONE]


def test_hop_by_hop_headers_stay_on_their_hop(tmp_path):
    """Connection, what it names, and Accept-Encoding are not passed on; other headers are."""
    with Peer(lambda seen: tokens(1)) as peer, running(tmp_path / "log", "--worker", peer.url) as where:
        post(where, headers={"Connection": "keep-alive, X-Hop", "X-Hop": "1", "X-End": "2", "TE": "trailers",
                             "Accept-Encoding": "gzip", "Authorization": "Bearer k"})  # fmt: skip
    headers = peer.posts()[0].headers
    assert "x-hop" not in headers and "te" not in headers and headers["accept-encoding"] == "identity"
    assert headers["x-end"] == "2" and headers["authorization"] == "Bearer k"


def test_models_and_health_answer_for_the_servers(tmp_path):
    """/v1/models is the server's; /health is 200 while all are well and 503 once one is gone."""
    def script(seen):
        return plain("200 OK", b'{"data": [{"id": "m"}]}' if seen.path == "/v1/models" else b"{}")

    def get(where, path):
        connection = http.client.HTTPConnection(where, timeout=20)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    with Peer(script) as a:
        with Peer(script) as b, running(tmp_path / "log", "--worker", a.url, "--worker", b.url) as where:
            assert get(where, "/v1/models") == (200, {"data": [{"id": "m"}]})
            assert get(where, "/health") == (200, {a.url: True, b.url: True})
            b.stop()
            assert get(where, "/health") == (503, {a.url: True, b.url: False})


# ── disaggregated ───────────────────────────────────────────────────────────────────────────


def test_prefill_then_decode_speak_the_nixl_protocol(tmp_path):
    """Prefill gets one token and the order to keep its blocks; decode the original plus their place."""
    with Peer(prefilled) as p, Peer(lambda seen: tokens(4)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            status, _, body = post(where, headers={"X-Request-Id": "one"})
    assert status == 200 and body.count(b"data:") == 5
    first, second = p.posts()[0].json, d.posts()[0].json
    assert first["max_tokens"] == 1 and first["stream"] is False
    assert "stream_options" not in first and "min_tokens" not in first
    assert first["kv_transfer_params"] == steps.ASK_REMOTE_DECODE
    assert second == BODY | {"kv_transfer_params": TRANSFER}
    assert {p.posts()[0].headers["x-request-id"], d.posts()[0].headers["x-request-id"]} == {"one"}
    line = lines(tmp_path / "log")[0]
    assert (line["prefill"], line["decode"], line["remote_tokens"]) == (p.url, d.url, 3)
    order = ["prefill_sent", "prefill_done", "decode_sent", "first_frame", "done"]
    assert list(line["steps_ns"]) == order
    assert list(line["steps_ns"].values()) == sorted(line["steps_ns"].values())


def test_the_chat_endpoint_is_routed_alike(tmp_path):
    """Chat requests take the same two steps, at the chat path, with both token limits set."""
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with Peer(prefilled) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            assert post(where, chat, "/v1/chat/completions")[0] == 200
    assert p.posts()[0].path == d.posts()[0].path == "/v1/chat/completions"
    assert p.posts()[0].json["max_completion_tokens"] == p.posts()[0].json["max_tokens"] == 1


def test_a_first_token_that_ends_the_answer_leaves_decode_to_itself(tmp_path):
    """Prefill without transfer parameters is no failure: decode gets the request without any."""
    ended = plain("200 OK", b'{"choices": [{"text": "", "finish_reason": "stop"}], "kv_transfer_params": null}')
    with Peer(lambda seen: ended) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            assert post(where)[0] == 200
    assert d.posts()[0].json == BODY


def test_transfer_parameters_from_a_client_are_dropped(tmp_path):
    """A client can't name blocks: what it sends is replaced."""
    with Peer(prefilled) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            post(where, BODY | {"kv_transfer_params": {"remote_block_ids": [99]}})
            post(where, BODY | {"kv_transfer_params": {"remote_block_ids": [99]}})
    assert [seen.json["kv_transfer_params"] for seen in d.posts()] == [TRANSFER, TRANSFER]


def test_a_rule_keeps_short_prompts_local(tmp_path):
    """With local-below:4 a prompt of three tokens stays on decode, one of four goes to prefill."""
    with Peer(prefilled) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url, "--policy", "local-below:4") as where:
            post(where)
            post(where, BODY | {"prompt": [1, 2, 3, 4]})
    assert len(p.posts()) == 1 and len(d.posts()) == 2
    assert [(line["prefill"], line["reason"]) for line in lines(tmp_path / "log", 2)] == [
        (None, "3 uncached < 4"), (p.url, "4 uncached >= 4"),
    ]  # fmt: skip


def test_what_decode_holds_turns_the_rule_and_is_logged(tmp_path):
    """The same prompt again stays local; emptying the caches through the router sends it away anew."""
    body = BODY | {"prompt": list(range(40))}
    with Peer(lambda seen: plain("200 OK", b"{}") if seen.path == "/reset_prefix_cache" else prefilled(seen)) as p:
        with Peer(lambda seen: plain("200 OK", b"{}") if seen.path == "/reset_prefix_cache" else tokens(1)) as d:
            options = ("--prefill", p.url, "--decode", d.url, "--policy", "llm-d:20", "--block-size", "16")
            with running(tmp_path / "log", *options) as where:
                post(where, body)
                post(where, body)
                assert post(where, {}, "/reset_prefix_cache")[0] == 200
                post(where, body)
    kept = [(one["prefill"], one["prompt_tokens"], one["cached_tokens"], one["reason"]) for one in lines(tmp_path / "log", 3)]
    away = (p.url, 40, 0, "40 uncached >= 20")
    assert kept == [away, (None, 40, 32, "8 uncached < 20"), away]
    assert [peer.posts()[-2].path for peer in (p, d)] == ["/reset_prefix_cache"] * 2


def test_two_at_once_go_to_two_decode_servers(tmp_path):
    """Decode is chosen by the requests that run there, as the router counts them."""
    with Peer(prefilled) as p, Peer(lambda seen: ["wait"]) as busy, Peer(lambda seen: tokens(1)) as idle:
        options = ("--prefill", p.url, "--decode", busy.url, "--decode", idle.url)
        with running(tmp_path / "log", *options) as where:
            host, port = where.split(":")
            with socket.create_connection((host, int(port))) as sock:
                raw = json.dumps(BODY).encode()
                sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
                until = time.monotonic() + 20
                while not busy.posts():
                    assert time.monotonic() < until
                    time.sleep(0.01)
                assert [post(where)[0] for _ in range(2)] == [200, 200]
    assert len(busy.posts()) == 1 and len(idle.posts()) == 2


def test_a_decode_that_was_lost_is_not_believed_to_hold_anything(tmp_path):
    """After a broken connection the prompt is sent away again, as if it had never been there."""
    asked = iter(["ok", "lost", "ok"])

    def decode(seen):
        return tokens(1) if next(asked) == "ok" else ["reset"]

    body = BODY | {"prompt": list(range(40))}
    with Peer(prefilled) as p, Peer(decode) as d:
        options = ("--prefill", p.url, "--decode", d.url, "--policy", "llm-d:20", "--block-size", "16")
        with running(tmp_path / "log", *options) as where:
            assert [post(where, body)[0] for _ in range(3)] == [200, 502, 200]
    assert [one["cached_tokens"] for one in lines(tmp_path / "log", 3)] == [0, 32, 0]


# ── failures ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "options", "expected", "status"),
    [
        (lambda seen: plain("503 Service Unavailable", b'{"error": {"message": "full"}}'), (), 503, "failed"),
        (lambda seen: ["wait"], ("--prefill-deadline", "0.3"), 504, "timeout"),
        (lambda seen: ["reset"], (), 502, "failed"),
        (lambda seen: plain("200 OK", b"no json"), (), 502, "failed"),
    ],
    ids=["refused", "frozen", "reset", "not-json"],
)
def test_a_prefill_that_fails_is_told_by_the_http_status(tmp_path, script, options, expected, status):
    """Decode is not asked, the client gets a status and an OpenAI error, the log says which step."""
    with Peer(script) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url, *options) as where:
            got, _, body = post(where)
    assert got == expected and json.loads(body)["error"]["message"].startswith("prefill:")
    assert p.posts() and not d.posts()
    line = lines(tmp_path / "log")[0]
    assert line["status"] == status and line["attempts"] == 1 and line["error"].startswith("prefill:")


def test_an_error_frame_before_any_token_becomes_an_http_error(tmp_path):
    """Decode's HTTP 200 with an error frame first is not passed on as a success."""
    bad = b'data: {"error": {"message": "KV load failed", "code": 500}}\n\n'
    with Peer(prefilled) as p, Peer(lambda seen: [HEAD + chunk(bad) + chunk(DONE) + END]) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            status, _, body = post(where)
    assert status == 502 and "KV load failed" in json.loads(body)["error"]["message"]
    assert lines(tmp_path / "log")[0]["status"] == "failed"


@pytest.mark.parametrize("way", ["reset", "close"])
def test_a_server_that_dies_in_mid_stream_leaves_an_error_frame(tmp_path, way):
    """The tokens that came are passed on, then an error frame; the log says failed."""
    with Peer(lambda seen: [HEAD + chunk(frame("a", 1)), 0.1, way]) as peer:
        with running(tmp_path / "log", "--worker", peer.url) as where:
            status, _, body = post(where)
    assert status == 200 and body.startswith(frame("a", 1)) and b'"error"' in body and DONE not in body
    assert lines(tmp_path / "log")[0]["status"] == "failed"


def test_a_frozen_decode_meets_the_first_token_deadline(tmp_path):
    """No first token in time is HTTP 504, and the server sees the connection close."""
    with Peer(lambda seen: ["wait"]) as peer:
        with running(tmp_path / "log", "--worker", peer.url, "--first-token-deadline", "0.3") as where:
            status, _, _ = post(where)
            assert peer.posts()[0].left.wait(5)
    assert status == 504 and lines(tmp_path / "log")[0]["status"] == "timeout"


def test_a_stall_in_mid_stream_meets_the_request_deadline(tmp_path):
    """A stream that stops is ended with an error frame at the whole request's deadline."""
    with Peer(lambda seen: [HEAD + chunk(frame("a", 1)), "wait"]) as peer:
        with running(tmp_path / "log", "--worker", peer.url, "--request-deadline", "0.5") as where:
            status, _, body = post(where)
    assert status == 200 and body.startswith(frame("a", 1)) and b"deadline" in body
    assert lines(tmp_path / "log")[0]["status"] == "timeout"


@pytest.mark.parametrize("during", ["prefill", "decode"])
def test_a_client_that_goes_away_takes_its_request_with_it(tmp_path, during):
    """Closing the client's connection closes the server's, in either step; the log says cancelled."""
    with Peer(lambda seen: ["wait"] if during == "prefill" else prefilled(seen)) as p:
        with Peer(lambda seen: [HEAD + chunk(frame("a", 1)), "wait"]) as d:
            with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
                host, port = where.split(":")
                sock = socket.create_connection((host, int(port)))
                raw = json.dumps(BODY).encode()
                sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
                asked = p if during == "prefill" else d
                until = time.monotonic() + 10
                while not asked.posts():
                    assert time.monotonic() < until
                    time.sleep(0.01)
                sock.close()
                assert asked.posts()[0].left.wait(5)
                assert lines(tmp_path / "log")[0]["status"] == "cancelled"
    assert len(d.posts()) == (0 if during == "prefill" else 1)


def test_a_client_that_leaves_after_the_last_frame_had_all_of_it(tmp_path):
    """Whoever closes the connection on reading [DONE] has a whole answer; the log says ok."""
    with Peer(lambda seen: [HEAD + chunk(frame("a", 1, "length")), chunk(DONE), "wait"]) as peer:
        with running(tmp_path / "log", "--worker", peer.url) as where:
            host, port = where.split(":")
            raw = json.dumps(BODY).encode()
            with socket.create_connection((host, int(port)), timeout=10) as sock:
                sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
                got = b""
                while DONE not in got:
                    got += sock.recv(65536)
            assert peer.posts()[0].left.wait(5)
            row = lines(tmp_path / "log")[0]
    assert row["status"] == "ok" and row["frames"] == 2


def test_a_body_that_is_no_json_is_refused_without_asking_a_server(tmp_path):
    """In front of two pools the body must be read: rubbish is HTTP 400."""
    with Peer(prefilled) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            assert post(where, b"{nonsense")[0] == 400
            assert post(where, b"[1]")[0] == 400
    assert not p.posts() and not d.posts()


def test_many_at_once_keep_their_answers_apart(tmp_path):
    """Thirty requests side by side each get their own id and their own whole answer."""
    def script(seen):
        own = frame(seen.headers["x-request-id"], 1)
        return [HEAD, 0.05, chunk(own), 0.05, chunk(frame("z", 2, "length")), chunk(DONE) + END]

    with Peer(prefilled) as p, Peer(script) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            found: dict[str, tuple] = {}
            threads = [
                threading.Thread(target=lambda i=i: found.update({f"q{i}": post(where, headers={"X-Request-Id": f"q{i}"})}))
                for i in range(30)
            ]
            [thread.start() for thread in threads]
            [thread.join(30) for thread in threads]
            kept = lines(tmp_path / "log", 30)
    assert len(found) == 30
    for name, (status, headers, body) in found.items():
        assert status == 200 and headers["X-Request-Id"] == name and body.startswith(frame(name, 1)) and body.endswith(DONE)
    assert len({line["request_id"] for line in kept}) == 30


# ── the pure parts ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'data: {"error": {"message": "m"}}\n\n', "m"),
        (b'data:{"error":"plain words"}\n\n', "plain words"),
        (b'data: {"object":"error","message":"old style"}\n\n', "old style"),
        (b'data: {"choices":[{"text":"\\"error\\" is a word"}]}\n\n', None),
        (b"data: [DONE]\n\n", None),
        (b": comment\n\n", None),
        (b"", None),
    ],
)
def test_error_frames_are_told_from_frames_that_speak_of_errors(data, message):
    """Only a frame that is an error counts as one."""
    assert steps.frame_error(data) == message


@pytest.mark.parametrize(
    ("body", "expected"),
    [({"prompt": [5] * 300}, 300), ({"prompt": "x" * 400}, 100), ({"prompt": ""}, 1),
     ({"messages": [{"role": "user", "content": "y" * 400}]}, 108)],
)  # fmt: skip
def test_prompt_tokens_are_counted_or_estimated(body, expected):
    """Token ids are counted; of text a quarter of its bytes is taken."""
    assert steps.prompt_tokens(body) == pytest.approx(expected, abs=5)


def test_the_default_recovery_gives_up():
    """Without a failure policy there is one attempt."""
    assert steps.fail_at_once(StepFailed("decode", "broken", "x"), Route("d"), 1) is None


def test_options_that_name_no_server_are_refused():
    """Neither design without its servers: exit status 2 and one line."""
    done = subprocess.run([sys.executable, "-m", "pdlab.live.router", "--prefill", "http://x"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2 and "Traceback" not in done.stderr and "--decode" in done.stderr


# ── what no request and no server may do to it ──────────────────────────────────────────────

DEEP = b'{"prompt":' + b"[" * 100_000


def message(answer: tuple[int, dict, bytes]) -> tuple[int, str]:
    """Status and message of an answer that is an error in JSON."""
    status, headers, body = answer
    assert headers["Content-Type"].startswith("application/json"), body
    error = json.loads(body)["error"]
    assert error["code"] == status
    return status, error["message"]


def test_an_encoded_body_is_passed_on_decoded_or_refused(tmp_path):
    """A gzip body reaches the server plain and unlabelled; one that is none, or another encoding, is HTTP 400."""
    raw = json.dumps(BODY).encode()
    with Peer(lambda seen: tokens(1)) as peer, running(tmp_path / "log", "--worker", peer.url) as where:
        for encoding in ("gzip", "identity"):
            sent = gzip.compress(raw) if encoding == "gzip" else raw
            assert post(where, sent, headers={"Content-Encoding": encoding})[0] == 200
        for encoding in ("gzip", "deflate", "compress", "gzip, gzip"):
            assert message(post(where, b"not encoded", headers={"Content-Encoding": encoding}))[0] == 400
        assert post(where, raw)[0] == 200
    assert [(seen.body, seen.headers.get("content-encoding")) for seen in peer.posts()] == [(raw, None)] * 3
    assert [line["status"] for line in lines(tmp_path / "log", 7)] == ["ok"] * 2 + ["rejected"] * 4 + ["ok"]


def test_the_request_deadline_holds_for_slow_clients_and_for_lists(tmp_path):
    """A body that never comes whole is HTTP 408 and has its row; a list or a reset that hangs is 504."""
    with Peer(lambda seen: ["wait"]) as peer:
        with running(tmp_path / "log", "--worker", peer.url, "--request-deadline", "0.3") as where:
            host, port = where.split(":")
            with socket.create_connection((host, int(port)), timeout=5) as sock:
                sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
                said = http.client.HTTPResponse(sock)
                said.begin()
                got = said.status, dict(said.headers), said.read()
            assert message(got)[0] == 408
            connection = http.client.HTTPConnection(where, timeout=5)
            connection.request("GET", "/v1/models")
            answer = connection.getresponse()
            assert message((answer.status, dict(answer.headers), answer.read()))[0] == 504
            assert message(post(where, {}, "/reset_prefix_cache"))[0] == 504
    (line,) = lines(tmp_path / "log")
    assert (line["status"], line["http_status"], line["attempts"]) == ("timeout", 408, 0)


def test_a_body_that_python_cannot_take_is_the_clients_fault(tmp_path):
    """JSON nested without end, half a character, a path or method that is none: a JSON error each, and rows for the first."""
    with Peer(prefilled) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url, "--policy", "llm-d:1") as where:
            for body in (DEEP, b'{"prompt":"\\ud800"}', b'{"prompt":[9999999999999999999999]}'):
                assert message(post(where, body))[0] == 400
            assert message(post(where, path="/v1/nothing"))[0] == 404
            assert message(post(where, path="/v1/models"))[0] == 405
            assert post(where)[0] == 200
    kept = lines(tmp_path / "log", 4)
    assert [line["status"] for line in kept] == ["rejected"] * 3 + ["ok"] and len(p.posts()) == 1


def test_a_body_that_can_be_read_and_not_written_is_the_clients_fault(tmp_path):
    """However deep a prompt is nested, it is passed on or refused with a JSON error: Pythons differ in how deep they go."""
    with Peer(prefilled) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url, "--policy", "llm-d:1") as where:
            for depth in range(950, 1000, 5):
                answer = post(where, b'{"prompt":' + b"[" * depth + b"]" * depth + b"}")
                assert answer[0] == 200 or message(answer)[0] == 400
            assert post(where)[0] == 200


def test_an_answer_that_python_cannot_take_is_the_servers_fault(tmp_path):
    """Prefill's answer, an error and an error frame that are nested without end give HTTP 502 or the server's own status."""
    deep = b"[" * 100_000
    script = {"answer": plain("200 OK", deep), "error": plain("503 Service Unavailable", deep)}
    with Peer(lambda seen: script[seen.headers["x-request-id"]]) as p, Peer(lambda seen: tokens(1)) as d:
        with running(tmp_path / "log", "--prefill", p.url, "--decode", d.url) as where:
            for name, status in (("answer", 502), ("error", 503)):
                assert message(post(where, headers={"X-Request-Id": name}))[0] == status
    frames = [HEAD + chunk(b'data: {"error": ' + deep + b"\n\n") + END]
    with Peer(lambda seen: frames) as d, running(tmp_path / "other", "--worker", d.url) as where:
        assert message(post(where))[0] == 502
    assert [line["status"] for line in (*lines(tmp_path / "log", 2), *lines(tmp_path / "other"))] == ["failed"] * 3


def test_a_redirect_is_not_followed(tmp_path):
    """A server that sends elsewhere gets no second request anywhere: HTTP 502, for lists and resets too."""
    with Peer(lambda seen: tokens(1)) as other:
        def away(seen):
            return plain("307 Temporary Redirect", b"", b"Location: " + other.url.encode() + b"/v1/completions")

        with Peer(away) as peer, running(tmp_path / "log", "--worker", peer.url) as where:
            status, said = message(post(where))
            assert status == 502 and "307" in said
            connection = http.client.HTTPConnection(where, timeout=5)
            connection.request("GET", "/v1/models")
            answer = connection.getresponse()
            assert message((answer.status, dict(answer.headers), answer.read()))[0] == 502
            assert message(post(where, {}, "/reset_prefix_cache"))[0] == 502
    assert not other.seen and lines(tmp_path / "log")[0]["status"] == "failed"


def test_what_nobody_thought_of_is_told_in_json(tmp_path, capsys):
    """An error inside the router is an HTTP 500 in JSON, one line on stderr, and a row like any other."""
    class Broken(Placement):
        def place(self, prompt):
            raise KeyError("nobody\nthought of it")

    async def scene():
        log = RowLog(tmp_path / "log")
        broken = router.Router(Broken(["http://127.0.0.1:1"], [], policy.rule_from_name("all-remote")), log=log)
        broken.placement.decode = None  # for the lists
        async with TestClient(TestServer(broken.app())) as client:
            got = []
            for ask in (client.post("/v1/completions", json=BODY), client.get("/v1/models")):
                async with ask as answer:
                    got.append(message((answer.status, dict(answer.headers), await answer.read())))
        log.close()
        return got

    got = asyncio.run(scene())
    assert [status for status, _ in got] == [500, 500] and "KeyError" in got[0][1] and "TypeError" in got[1][1]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and all(line.startswith("router: ") for line in told)
    (line,) = lines(tmp_path / "log")
    assert (line["status"], line["http_status"]) == ("failed", 500) and "KeyError" in line["error"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_costs_rows_and_no_answers():
    """The log that cannot be written is told once, every request is answered, and the end is exit status 1."""
    with Peer(lambda seen: tokens(1)) as peer:
        command = [sys.executable, "-m", "pdlab.live.router", "--worker", peer.url, "--log", "/dev/full"]
        process = subprocess.Popen([*command, "--until-stdin-closes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        try:
            where = json.loads(process.stdout.readline())["url"].removeprefix("http://")
            answers = [post(where) for _ in range(3)]
        finally:
            _, told = process.communicate(timeout=20)
    assert [status for status, _, _ in answers] == [200] * 3 and all(body.endswith(DONE) for _, _, body in answers)
    first, last = told.splitlines()
    assert "/dev/full: No space left" in first and "3 rows" in last and process.returncode == 1


def test_a_row_that_was_torn_does_not_spoil_the_next(tmp_path, capsys):
    """Where half a row was written before the disk was full, the next row begins a line of its own."""
    class Small:
        room = 4

        def write(self, data):
            if not self.room:
                raise OSError(28, "No space left on device")
            taken = min(self.room, len(data))
            self.room -= taken
            (tmp_path / "log").open("ab").write(data[:taken])
            return taken

        def close(self):
            pass

    log = RowLog(tmp_path / "log")
    log._file.close()
    log._file = small = Small()
    log.write('{"a":1}\n')
    small.room = 100
    log.write('{"a":2}\n')
    log.close()
    assert (tmp_path / "log").read_text() == '{"a"\n{"a":2}\n' and log.lost == 1
    assert "lacks 1 row" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--port", "70000"], ["--port", "-1"], ["--log", "/nope/x"], ["--log", "/tmp"], ["--worker", "foo"], ["--worker", "http://"],
     ["--worker", "127.0.0.1:8000"], ["--worker", "http://[::1"], ["--worker", "http://a:b"], ["--worker", "http://a/?q="],
     ["--worker", "http://a\nb"], ["--worker", "http://me:secret@a"], ["--worker", "http://127.0.0.1:1/"], ["--block-size", "0"], ["--cache-blocks", "-1"],
     *([f"--{name}-deadline={value}"] for name in ("request", "prefill", "first-token") for value in ("nan", "inf", "0", "-1"))],
    ids=" ".join,
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options, capsys):
    """Exit status 2 and one message that names the option, before anything listens."""
    try:
        status = router.main(["--worker", "http://127.0.0.1:1", *options])
    except SystemExit as refused:  # by the parser itself
        status = refused.code
    said = capsys.readouterr()
    assert status == 2
    assert said.out == "" and options[0].partition("=")[0] in said.err and "expected" in said.err


def test_a_port_that_is_taken_is_refused(capsys):
    """Exit status 2 and a message, where another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert router.main(["--worker", "http://127.0.0.1:1", "--port", str(port)]) == 2
    assert f"--port: found port {port} (" in capsys.readouterr().err
