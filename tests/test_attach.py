"""A sweep's runs on servers started elsewhere: scripted peers stand in for them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_deployment import script, write_plan
from fake_http import Peer, plain

from pdlab.errors import BadInput
from pdlab.live import attach
from pdlab.live.front import routed
from pdlab.measure import plan as plans
from pdlab.measure import records

ANSWERS = {
    "/v1/models": {"data": [{"id": "m", "root": "/nowhere"}]},
    "/version": {"version": "9.9"},
    "/server_info?config_format=json": {"vllm_config": {"scheduler_config": {"max_num_batched_tokens": 512}}},
}


def server(role: str) -> Peer:
    """A scripted server that also says what it is."""
    usual = script(role)
    return Peer(lambda seen: plain("200 OK", json.dumps(ANSWERS[seen.path]).encode()) if seen.path in ANSWERS else usual(seen))


@pytest.fixture
def plan_path(tmp_path: Path) -> Path:
    return write_plan(tmp_path, offered_rates_rps=[40], duration_seconds=0.2)


def test_both_designs_come_into_one_sweep(plan_path: Path, tmp_path: Path) -> None:
    """One call a design, with our router or without; the sweep is then whole, with the engine as the servers tell it."""
    out = tmp_path / "out"
    with ExitStack() as stack:
        pair = {role: stack.enter_context(server(role)) for role in ("prefill", "decode")}
        up = SimpleNamespace(run_dir=tmp_path, servers=[SimpleNamespace(role=r, base_url=p.url) for r, p in pair.items()])
        url = stack.enter_context(routed(up))
        named = {f"{role}-0": peer.url for role, peer in pair.items()}
        attach.run(plan_path, out, "disaggregated", url, named, tmp_path / "router.jsonl", say=lambda _: None)
        assert all(any(one.path == "/reset_prefix_cache" for one in peer.posts()) for peer in pair.values())
    with server("aggregated") as alone:
        attach.run(plan_path, out, "aggregated", alone.url, {}, None, 512, say=lambda _: None)
        bodies = [one.json for one in alone.posts()]
    runs = {entry.design: entry.read() for entry in records.read_sweep(out).entries}
    assert set(runs) == {"aggregated", "disaggregated"}
    for run in runs.values():
        assert run.table.num_rows == 2 + 8 and set(run.table["status"].to_pylist()) == {"ok"}
        assert run.provenance["plan_sha256"] == plans.sha256(plan_path) and run.provenance["label"] == "measured"
        assert "not counted here" in run.provenance["summary"]["budget_split"]
    assert set(runs["disaggregated"].table["route"].to_pylist()) == {"prefill-0 > decode-0"}
    about = runs["disaggregated"].provenance
    assert about["versions"]["vllm"] == "9.9"
    assert about["summary"]["servers"]["servers"]["decode-0"]["max_num_batched_tokens"] == 512
    # without our router nobody empties caches: each cold run salts its prompts instead
    assert len({body.get("cache_salt") for body in bodies} - {None}) == 1


def test_what_the_servers_contradict_is_refused(plan_path: Path, tmp_path: Path) -> None:
    """Another chunk size than --chunk says, or no server to ask, ends before anything is sent."""
    with server("aggregated") as peer:
        with pytest.raises(BadInput, match="chunks of 512 tokens, expected 128"):
            attach.run(plan_path, tmp_path / "out", "aggregated", peer.url, {"a": peer.url}, Path("r"), 128)
        with pytest.raises(BadInput, match="no --server"):
            attach.run(plan_path, tmp_path / "out", "aggregated", peer.url, {}, Path("r"))
        assert not peer.posts() and not (tmp_path / "out").exists()
    for url in ("http://127.0.0.1:abc", "http://[::1", "http://127.0.0.1:9/a b", "nonsense"):
        with pytest.raises(BadInput, match=r"expected http://HOST\[:PORT\]"):
            attach.run(plan_path, tmp_path / "out", "aggregated", url, {"a": url}, Path("r"))
    with pytest.raises(BadInput, match="a running server"):
        attach.run(plan_path, tmp_path / "out", "aggregated", peer.url, {"a": peer.url}, Path("r"))
