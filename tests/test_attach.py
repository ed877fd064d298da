"""A sweep's runs on servers started elsewhere: scripted peers stand in for them."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_deployment import script, write_plan
from fake_http import Peer, plain, tokens

from pdlab.course import cli
from pdlab.errors import BadInput
from pdlab.live import attach, direct, load, metrics, post, sweep, tuned
from pdlab.live.env import ROOT
from pdlab.live.front import routed
from pdlab.live.serve import free_ports
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


def closed_server(gap_s: float) -> Peer:
    """An aggregated server that keeps its settings to itself, with that gap between the tokens of the trace's requests."""
    usual = script("aggregated")

    def answer(seen):
        if seen.path in ANSWERS:
            told = json.dumps(ANSWERS[seen.path]).encode()
            return plain("404 Not Found", b"{}") if "server_info" in seen.path else plain("200 OK", told)
        if seen.path == "/metrics":
            return plain("200 OK", b'vllm:cache_config_info{block_size="16",num_gpu_blocks="9"} 1\n')
        if "completions" not in seen.path:
            return usual(seen)
        asked = seen.json["max_tokens"]
        return tokens(asked, gap_s if asked == 2 else 0.0)

    return Peer(answer)


@pytest.fixture
def plan_path(tmp_path: Path) -> Path:
    path = write_plan(tmp_path, offered_rates_rps=[40], duration_seconds=0.2, request_deadline_seconds=60)
    # Minutes, and no target of the miniature's: that all requests meet theirs must not depend on what else this machine does.
    path.write_text(re.sub(r"(ttft_max_ms|tpot_max_ms|max_itl_per_request_ms): .*", r"\1: 60000", path.read_text()))
    return path


def test_both_designs_come_into_one_sweep(plan_path: Path, tmp_path: Path) -> None:
    """One call a design, with our router or without; the sweep is then whole, with the engine as the servers tell it."""
    out = tmp_path / "out"
    with ExitStack() as stack:
        pair = {role: stack.enter_context(server(role)) for role in ("prefill", "decode")}
        up = SimpleNamespace(run_dir=tmp_path, servers=[SimpleNamespace(role=r, base_url=p.url) for r, p in pair.items()])
        url = stack.enter_context(routed(up))
        named = {f"{role}-0": peer.url for role, peer in pair.items()}
        attach.run(plan_path, out, "disaggregated", url, named, tmp_path / "router.jsonl", say=lambda _: None)
        salts = [{one.json.get("cache_salt") for one in peer.posts() if "completions" in one.path} for peer in pair.values()]
        assert not any(one.path == "/reset_prefix_cache" for peer in pair.values() for one in peer.posts())
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
    # nobody is asked to empty caches: each cold run salts its prompts instead
    assert salts[0] == salts[1] and len(salts[0] - {None}) == 1
    assert len({body.get("cache_salt") for body in bodies} - {None}) == 1


def test_no_proxy_of_the_site_answers_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proxy in the environment servers are asked themselves, and nothing in pdlab.live asks in another way."""
    with Peer(lambda seen: plain("403 Forbidden", b"{}")) as proxy, server("aggregated") as peer:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert attach._get(f"{peer.url}/version") == {"version": "9.9"}
        assert attach.told(peer.url) == {"max_num_batched_tokens": 512}
        assert load.first_model(peer.url) == "m" and metrics.scrape(peer.url).total("vllm:num_requests_running") == 1
        assert b"data: " in post.post_json(f"{peer.url}/v1/completions", {"max_tokens": 1})
        with pytest.raises(OSError, match="refused"):
            direct.opened(f"http://127.0.0.1:{free_ports(1)[0]}/health", 5)
        assert not proxy.seen and len(peer.seen) == 5
    asking = {path.name for path in (ROOT / "pdlab/live").rglob("*.py") if "request.urlopen(" in path.read_text()}
    assert asking == set()


def attach_command(plan_path: Path, peer: Peer, out: Path, size: int, *more: str) -> int:
    words = ["attach", str(plan_path), "--design", "aggregated", "--url", peer.url, "--server", f"a={peer.url}"]
    return cli.main([*words, "--chunk", str(size), "--out", str(out), *more])


def test_tuning_ends_with_the_choice_that_a_sweep_makes(plan_path: Path, tmp_path: Path, capsys) -> None:
    """One call a chunk size, on servers of that size; the last one chooses, in the record that pdlab sweep looks for."""
    out, told = tmp_path / "out", []
    for size, gap_s in ((512, 0.0), (128, 0.4)):
        with closed_server(gap_s) as peer:
            assert attach_command(plan_path, peer, out, size, "--tune") == 0
            sent = [one.json for one in peer.posts() if one.json["prompt"][0] != 100]
        assert len(sent) >= 2 + 8 and not (out / "sweep.json").exists()
        told.append(capsys.readouterr())
    assert "still to be tried: chunks of 128 tokens" in told[0].err and re.search(r"^ +512 +8 +100.0%", told[1].err, re.MULTILINE)
    assert "TUNED: chunks of 512 tokens. Render the comparison with --chunk 512" in told[1].err  # a script shows stderr alone
    assert tuned.chosen(out / sweep.TUNING) == 512
    entries = records.read_sweep(out / sweep.TUNING).entries
    assert [entry.design for entry in entries] == ["aggregated chunk 128", "aggregated chunk 512"]
    about = entries[0].read().provenance["summary"]
    assert about["chunk_tokens"] == 128 and about["servers"]["servers"]["a"]["block_size"] == "16"
    with closed_server(0.0) as peer, closed_server(0.0) as idle:  # the comparison, in the same directory
        assert attach_command(plan_path, peer, out, 512, "--server", f"b={idle.url}") == 0
        alone = out / sweep.TUNING / "aggregated-1-replica-cold-40rps"
        about = records.read_run(alone).provenance["summary"]
        assert (about["budget"]["count"], list(about["servers"]["servers"])) == (1, ["a"]) and not idle.posts()
        (run,) = [entry.read() for entry in records.read_sweep(out).entries if entry.design == "aggregated"]
        found = sweep.goodput(plans.load(plan_path), alone)  # 0 where a busy machine answers after the window's 0.2 s
        assert run.provenance["summary"]["single_replica_goodput_rps"] == found and found is not None
        capsys.readouterr()
        assert attach_command(plan_path, peer, out, 128) == 0
        assert "NOT AS TUNED: these servers have chunks of 128 tokens" in capsys.readouterr().err
        with pytest.raises(BadInput, match="128, 512, and no word on which one"):
            attach.run(plan_path, out, "aggregated", peer.url, {}, None)
        with pytest.raises(BadInput, match="one of the plan's sizes"):
            attach.run(plan_path, out, "aggregated", peer.url, {}, None, 64, tune=True)


def test_a_tuning_in_which_nothing_was_good_enough_chooses_nothing_unless_told_to(tmp_path: Path, capsys) -> None:
    """Where no size lets a request meet its targets, the shortest gap would choose the smallest chunk: only --least-bad takes it."""
    plan_path = write_plan(tmp_path, offered_rates_rps=[40], duration_seconds=0.2)
    plan_path.write_text(plan_path.read_text().replace("ttft_max_ms: ", "ttft_max_ms: 0.000"))
    out = tmp_path / "out"
    with closed_server(0.0) as peer:
        assert attach_command(plan_path, peer, out, 128, "--tune") == 0
        assert attach_command(plan_path, peer, out, 512, "--tune") == 1
        told = capsys.readouterr().err
        assert "no chunk size let any request meet its targets" in told and "NO CHUNK SIZE PASSED" in told and "--least-bad" in told
        assert tuned.chosen(out / sweep.TUNING) is None
        asked = len(peer.posts())
        assert attach_command(plan_path, peer, out, 512, "--tune", "--least-bad") == 0
        assert len(peer.posts()) == asked and (size := tuned.chosen(out / sweep.TUNING)) in (128, 512)
        assert f"TUNED: chunks of {size} tokens" in capsys.readouterr().err
        assert attach_command(plan_path, peer, out, 512, "--least-bad") == 2
        assert attach_command(plan_path, peer, out, 128) == 0
        assert "NO CHUNK SIZE PASSED" in capsys.readouterr().err


def test_a_sweep_says_that_nobody_tuned_its_opponent(plan_path: Path) -> None:
    """Without --tune, --chunk or an earlier choice the first size is taken aloud; a plan of one size has nothing to say."""
    said, plan = [], plans.load(plan_path)
    assert sweep.untuned(plan, said.append) == 128 and said[0].startswith("NOT TUNED: aggregated serving gets chunks of 128")
    one = plan.model_copy(update={"live": plan.live.model_copy(update={"max_num_batched_tokens": [512]})})
    assert sweep.untuned(one, said.append) == 512 and len(said) == 1


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
