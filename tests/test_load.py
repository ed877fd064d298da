"""``pdlab load``: one load against any server, from the command line."""

from __future__ import annotations

import json
import socket

import pytest
from fake_http import Peer, plain, tokens

from pdlab.course import cli
from pdlab.errors import BadInput
from pdlab.live import client, load
from pdlab.live.client_loop import ENTRY, MAGIC
from pdlab.measure import records, traces, workload


def script(seen):
    """A server with one model that answers what it is asked for."""
    if seen.path == "/v1/models":
        return plain("200 OK", b'{"data": [{"id": "served"}]}')
    return tokens(seen.json["max_tokens"])


def entry(meta):
    """One entry of a spool, without any bytes read."""
    body = json.dumps(meta).encode()
    return ENTRY.pack(MAGIC, len(body), 0, 0) + body


def test_a_load_records_every_request_and_prints_one_document(tmp_path, capsys):
    """Ten requests to the listed model: ten rows, prompts of the asked length, exit status 0."""
    with Peer(script) as peer:
        status = cli.main(["load", peer.url, "--out", str(tmp_path / "run"), "--rate", "100", "--requests", "10",
                           "--warmup", "2", "--prompt-tokens", "7", "--output-tokens", "3", "--json"])  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert status == 0 and report["offered"] == 10 and report["by_status"] == {"ok": 10}
    rows = records.rows(records.read_run(tmp_path / "run").table)
    assert [row["warmup"] for row in rows] == [True] * 2 + [False] * 10
    bodies = [seen.json for seen in peer.posts()]
    assert {body["model"] for body in bodies} == {"served"} and {len(body["prompt"]) for body in bodies} == {7}
    assert len({tuple(body["prompt"]) for body in bodies}) == 12, "prompts must not repeat"


def test_a_trace_gives_arrivals_and_lengths(tmp_path):
    """With --trace the requests are the trace's."""
    traces.write_trace(workload.uniform(5, 2, [0, 30, 60]), tmp_path / "t.jsonl")
    with Peer(script) as peer:
        assert cli.main(["load", peer.url, "--out", str(tmp_path / "run"), "--trace", str(tmp_path / "t.jsonl")]) == 0
    table = records.read_run(tmp_path / "run").table
    assert table["scheduled_ns"].to_pylist() == [0, 30_000_000, 60_000_000]
    assert table["output_tokens"].to_pylist() == [2, 2, 2]


def test_a_trace_that_has_changed_is_not_resumed(tmp_path, capsys):
    """The same name with other requests in it is another load."""
    traces.write_trace(workload.uniform(5, 2, [0, 30, 60]), tmp_path / "t.jsonl")
    with Peer(script) as peer:
        args = ["load", peer.url, "--out", str(tmp_path / "run"), "--trace", str(tmp_path / "t.jsonl"), "--resume"]
        assert cli.main(args) == 0 and cli.main(args) == 0
        traces.write_trace(workload.uniform(5, 3, [0, 30, 60]), tmp_path / "t.jsonl")
        assert cli.main(args) == 2
    assert "found --trace" in capsys.readouterr().err


def test_a_failed_request_is_exit_status_1(tmp_path):
    """A server that refuses everything: rows are kept, the status says that not all was answered."""
    with Peer(lambda seen: plain("500 Internal Server Error", b'{"error": "no"}')) as peer:
        status = cli.main(["load", peer.url, "--out", str(tmp_path / "run"), "--model", "m", "--requests", "3",
                           "--rate", "100"])  # fmt: skip
    assert status == 1
    assert records.read_run(tmp_path / "run").table["status"].to_pylist() == ["failed"] * 3


def test_no_server_is_bad_input(tmp_path, capsys):
    """Without a server that lists models: exit status 2, one message."""
    assert cli.main(["load", "http://127.0.0.1:9", "--out", str(tmp_path / "run")]) == 2
    assert "expected an OpenAI-compatible server" in capsys.readouterr().err


@pytest.mark.parametrize("model", [[], ["--model", "m"]])
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:99999", "http://[::1", "http://127.0.0.1:abc", "http://127.0.0.1:80/a b", "nonsense", "127.0.0.1:80", "", "http://",
     "ftp://x", "file:///etc/passwd", "http://127.0.0.1:80\r\nX: y", "http://a..b", "http://" + "a" * 70 + ".x", "http://127.0.0.1:0",
     "http://me:secret@127.0.0.1:80", "http://127.0.0.1:80/?key=1", "http://127.0.0.1:80/#x"],
)  # fmt: skip
def test_a_url_that_is_none_is_refused(tmp_path, capsys, url, model):
    """Whatever is wrong with it: exit status 2, one line that says what a URL looks like, nothing written."""
    assert cli.main(["load", url, "--out", str(tmp_path / "run"), *model]) == 2
    said = capsys.readouterr().err
    assert "expected http://HOST[:PORT][/PATH]" in said and said.count("\n") == 1 and "secret" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [("http://127.0.0.1:80/v1", "Leave out /v1: it is added"), ("http://h/a/v1/chat/completions/", "Leave out /v1/chat/completions"),
     ("http://no-such-host.invalid:80", "found host 'no-such-host.invalid'"), ("http://xn--zz:80", "found host 'xn--zz'")],
)  # fmt: skip
def test_an_address_that_no_server_has_is_refused(tmp_path, capsys, monkeypatch, url, words):
    """One that holds the API's path already, or a host that cannot be looked up: exit status 2, nothing written."""

    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert cli.main(["load", url, "--out", str(tmp_path / "run"), "--model", "m"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("body", [b"[]", b'{"data": 5}', b'{"data": [{"id": 5}]}', b'{"data": [5]}', b"[" * 100_000, b"\xff"])
def test_a_strange_list_of_models_is_bad_input(tmp_path, capsys, body):
    """A server whose list of models is another thing: exit status 2, one message."""
    with Peer(lambda seen: plain("200 OK", body)) as peer:
        assert cli.main(["load", peer.url, "--out", str(tmp_path / "run")]) == 2
    assert "expected an OpenAI-compatible server" in capsys.readouterr().err


def test_warm_up_leaves_some_to_measure(tmp_path, capsys):
    """A trace shorter than the warm-up would measure nothing."""
    traces.write_trace(workload.uniform(5, 2, [0, 30]), tmp_path / "t.jsonl")
    args = ["load", "http://127.0.0.1:9", "--model", "m", "--out", str(tmp_path / "run"), "--trace", str(tmp_path / "t.jsonl")]
    assert cli.main([*args, "--warmup", "2"]) == 2
    assert "found 2 of 2 requests for warm-up" in capsys.readouterr().err


def test_a_run_is_resumed_as_it_was_asked_for(tmp_path, capsys):
    """Another rate, number, model or URL is refused by name; the same again gives the run that is there."""
    with Peer(script) as peer:
        def ask(*more, url=peer.url):
            return cli.main(["load", url, "--out", str(tmp_path / "run"), "--prompt-tokens", "5", "--output-tokens", "2",
                             "--rate", "200", "--requests", "4", *more])  # fmt: skip

        assert ask() == 0
        before = len(peer.posts())
        assert before == 4 and ask("--resume") == 0 and len(peer.posts()) == before
        capsys.readouterr()
        for more, words in (
            (["--rate", "7"], "found --rate 7.0, expected 200.0"), (["--requests", "40"], "found --requests 40, expected 4"),
            (["--model", "other"], "found --model other, expected served"), (["--deadline", "5"], "--deadline 5.0"),
            (["--requests", "3", "--warmup", "1"], "found --requests 3; --warmup 1, expected 4; 0"),
        ):  # fmt: skip
            assert ask("--resume", *more) == 2
            assert words in capsys.readouterr().err
        assert ask("--resume", url=peer.url + "/other") == 2
        assert f"found URL {peer.url}/other, expected {peer.url}," in capsys.readouterr().err
        (tmp_path / "run" / load.ASKED).unlink()
        assert ask("--resume") == 2
        assert "a run without asked.json" in capsys.readouterr().err
        assert len(peer.posts()) == before


def test_fewer_requests_than_an_interrupted_run_has_are_refused(tmp_path):
    """What is in the spool is kept: a client that asks for less is told so before anything is sent."""
    (tmp_path / client.SPOOL).write_bytes(entry({"session": True}) + entry(
        {"seq": 7, "outcome": "complete", "end_ns": 1, "t0_ns": 0}) + entry({"closed": True}))  # fmt: skip
    kept = (tmp_path / client.SPOOL).read_bytes()
    offers = load.offers(load.trace(None, 5.0, 3, 5, 2, 0), "m", 32_000)
    with pytest.raises(BadInput, match=r"found 1 answered requests that are not asked for \(seq 7 first\)"):
        client.run_load("http://127.0.0.1:9", offers, tmp_path, {"label": "measured", "source": "x"}, resume=True)
    assert (tmp_path / client.SPOOL).read_bytes() == kept


@pytest.mark.parametrize("deadline_s", [float("nan"), float("inf"), 0, -1, 1e300])
def test_a_deadline_without_end_is_refused(deadline_s):
    """The client takes a deadline of a day at most."""
    with pytest.raises(BadInput, match="deadline_s: found"):
        client.Options(deadline_s=deadline_s)
