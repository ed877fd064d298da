"""``pdlab load``: one load against any server, from the command line."""

from __future__ import annotations

import json

import pytest
from fake_http import Peer, plain, tokens

from pdlab.course import cli
from pdlab.measure import records, traces, workload


def script(seen):
    """A server with one model that answers what it is asked for."""
    if seen.path == "/v1/models":
        return plain("200 OK", b'{"data": [{"id": "served"}]}')
    return tokens(seen.json["max_tokens"])


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


def test_a_failed_request_is_exit_status_1(tmp_path):
    """A server that refuses everything: rows are kept, the status says that not all was answered."""
    with Peer(lambda seen: plain("500 Internal Server Error", b'{"error": "no"}')) as peer:
        status = cli.main(["load", peer.url, "--out", str(tmp_path / "run"), "--model", "m", "--requests", "3",
                           "--rate", "100"])  # fmt: skip
    assert status == 1
    assert records.read_run(tmp_path / "run").table["status"].to_pylist() == ["failed"] * 3


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense"])
def test_no_server_is_bad_input(tmp_path, capsys, url):
    """Without a server that lists models: exit status 2, one message."""
    assert cli.main(["load", url, "--out", str(tmp_path / "run")]) == 2
    assert "expected an OpenAI-compatible server" in capsys.readouterr().err
